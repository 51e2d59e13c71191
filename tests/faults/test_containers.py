"""What is no plain array of numbers: typed errors, in every method that takes data, and never other numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from sodgp import DeepGPClassifier, DeepGPRegressor
from sodgp.errors import InputError, InputTypeError
from sodgp.evaluation.scores import evaluate
from sodgp.system.validation import to_array, to_tensor

X = np.linspace(-1.0, 1.0, 12)[:, None]
Y = np.sin(X[:, 0])
T = torch.from_numpy(X)
HUGE = 10**400
LABELS = X[:, 0] > 0


def masked(rows):
    """One outlier, under a mask."""
    values = np.array(rows)
    values.reshape(len(values), -1)[3] = 999999.0
    return np.ma.masked_equal(values, 999999.0)


def nested(layout):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch calls them a prototype
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)


STRANGE = {
    "masked": masked(X),
    "masked rows in a list": list(masked(X)),
    "masked rows in a tuple": tuple(masked(X)),
    "integers beyond float64": [[HUGE]] * 12,
    "negative integers beyond float64": [[-HUGE]] * 12,
    "integers beyond float64 in an array": np.array([[HUGE]] * 12, dtype=object),
    "integers beyond float64 in a frame": pd.DataFrame({"a": [HUGE] * 12}),
    "ragged": [[1.0], [1.0, 2.0]] * 6,
    "ragged in an array": np.array([[1.0], [1.0, 2.0]] * 6, dtype=object),
    "ragged inside": [[[1.0], [2.0, 3.0]]] * 12,
    "sparse matrix": sparse.csr_matrix(X),
    "sparse array": sparse.csr_array(X),
    "sparse tensor": T.to_sparse(),
    "meta tensor": T.to("meta"),
    "conjugate tensor": torch.complex(T, T).conj(),
    "complex array": X + 1j,
    "nested tensor": nested(torch.strided),
    "jagged tensor": nested(torch.jagged),
}


def small():
    return DeepGPRegressor(n_layers=1, subset_size=4, max_iter=1, n_predict_samples=2, random_state=0)


@pytest.fixture(scope="module")
def model():
    return small().fit(X, Y)


def small_classifier():
    return DeepGPClassifier(n_layers=1, subset_size=4, max_iter=1, n_predict_samples=2, random_state=0)


@pytest.fixture(scope="module")
def classifier():
    return small_classifier().fit(X, LABELS)


USES = {
    "X of fit": lambda model, data: small().fit(data, Y),
    "y of fit": lambda model, data: small().fit(X, data),
    "noise_variance of fit": lambda model, data: small().fit(X, Y, noise_variance=data),
    "predict": lambda model, data: model.predict(data),
    "predict_distribution": lambda model, data: model.predict_distribution(data),
    "X of score": lambda model, data: model.score(data, Y),
    "y of score": lambda model, data: model.score(X, data),
    "X of evaluate": lambda model, data: evaluate(model, data, Y),
    "y of evaluate": lambda model, data: evaluate(model, X, data),
    # Which every method of a predictive distribution and every score calls.
    "to_array": lambda model, data: to_array(data, "y"),
    "to_tensor": lambda model, data: to_tensor(data, "y"),
}


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", STRANGE)
def test_data_that_is_no_array_of_numbers_is_a_typed_error(model, kind, use):
    with pytest.raises(InputError):
        USES[use](model, STRANGE[kind])


USES_OF_LABELS = {
    "X of fit": lambda model, data: small_classifier().fit(data, LABELS),
    "y of fit": lambda model, data: small_classifier().fit(X, data),
    "predict_proba": lambda model, data: model.predict_proba(data),
    "X of score": lambda model, data: model.score(data, LABELS),
    "y of score": lambda model, data: model.score(X, data),
    "X of evaluate": lambda model, data: evaluate(model, data, LABELS),
    "y of evaluate": lambda model, data: evaluate(model, X, data),
    "log_prob": lambda model, data: model.predict_distribution(X).log_prob(data),
}


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("use", USES_OF_LABELS)
@pytest.mark.parametrize("kind", STRANGE)
def test_data_of_a_classifier_too(classifier, kind, use):
    with pytest.raises(InputError):
        USES_OF_LABELS[use](classifier, STRANGE[kind])


def test_labels_under_a_mask_are_refused_and_others_count(classifier):
    labels = np.ma.array(LABELS, mask=np.arange(12) == 3)
    with pytest.raises(InputError, match=r"y is masked in 1 place\(s\), the first in row 3\. Impute"):
        classifier.score(X, labels)
    with pytest.raises(InputError, match="X has 12 rows, but y has 11"):
        classifier.score(X, LABELS[1:])
    assert classifier.score(X, np.ma.array(LABELS)) == (classifier.predict(X) == LABELS).mean()


def test_a_mask_is_placed_by_row_and_column():
    with pytest.raises(InputError, match=r"X is masked in 1 place\(s\), the first in row 3, column 0\. Impute or drop"):
        small().fit(masked(X), Y)
    with pytest.raises(InputError, match=r"y is masked in 1 place\(s\), the first in row 3\. Impute"):
        small().fit(X, masked(Y))


@pytest.mark.parametrize("as_list", [False, True])
def test_masked_labels_are_missing_ones(as_list):
    labels = np.ma.masked_equal(
        np.where(np.arange(12) == 3, 99, X[:, 0] > 0)[:, None] if as_list else [0, 1, 99] * 4, 99
    )
    with pytest.raises(InputError, match="y is masked in"):
        DeepGPClassifier(max_iter=1).fit(X, list(labels) if as_list else labels)


def test_a_mask_that_hides_nothing_is_none(model):
    np.testing.assert_array_equal(small().fit(np.ma.array(X), np.ma.array(Y)).predict(np.ma.array(X)), model.predict(X))


def test_messages_say_what_to_do(model):
    with pytest.raises(InputError, match=r"whole number beyond the largest of float64.*give larger units"):
        small().fit([[HUGE]] * 12, Y)
    with pytest.raises(InputError, match="X has rows of different lengths"):
        model.predict([[1.0], [1.0, 2.0]])
    with pytest.raises(InputTypeError, match=r"X is a sparse matrix; give X\.toarray\(\)"):
        model.predict(sparse.csr_matrix(X))
    with pytest.raises(InputTypeError, match=r"y is a sparse or ragged tensor.*to_dense\(\)"):
        small().fit(X, T[:, 0].to_sparse())
    with pytest.raises(InputTypeError, match="device 'meta'"):
        small().fit(T.to("meta"), Y)
    with pytest.raises(InputError, match="y must have 12 rows and 1 columns, not 11 and 1"):
        model.score(X, Y[1:])


@pytest.mark.parametrize(
    "tensor",
    [
        torch.complex(T, T).conj().imag,  # its values carry a sign that is applied when they are read
        T.to(torch.bfloat16),
        T.to(torch.float8_e4m3fn),
        T.clone().requires_grad_(),
    ],
)
def test_tensors_of_any_real_kind_are_numbers(model, tensor):
    plain = tensor.detach().resolve_neg().double().numpy()
    np.testing.assert_array_equal(model.predict(tensor), model.predict(plain))
    np.testing.assert_array_equal(small().fit(tensor, Y).predict(X), small().fit(plain, Y).predict(X))
