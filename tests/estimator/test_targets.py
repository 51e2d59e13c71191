"""Labels and counts: what is accepted, and what is said about the rest."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sodgp import DeepGPClassifier
from sodgp.errors import InputError, InputTypeError, SodgpWarning
from sodgp.estimator.targets import check_counts, encoded, labels_and_codes
from sodgp.likelihoods import Bernoulli, Dirichlet, Gaussian, Poisson, Softmax

pd = pytest.importorskip("pandas")
NAMES = ["b", "a", "b", "c", "c", "a"]


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (NAMES, ["a", "b", "c"]),
        (np.array(NAMES), ["a", "b", "c"]),
        (np.array(NAMES, dtype=object), ["a", "b", "c"]),
        (pd.Series(NAMES), ["a", "b", "c"]),
        (pd.Series(NAMES, dtype="category"), ["a", "b", "c"]),
        (pd.DataFrame({"y": NAMES}), ["a", "b", "c"]),
        ([True, False, True, False], [False, True]),
        ((3, 1, 3, 1), [1, 3]),
        (np.array([2.0, 0.0, 2.0, 0.0]), [0.0, 2.0]),
        (torch.tensor([1, 0, 1, 0]), [0, 1]),
    ],
    ids=str,
)
def test_labels_of_every_kind(y, classes):
    found, codes = labels_and_codes(y)
    assert found.tolist() == classes
    given = np.asarray(y).reshape(-1) if not hasattr(y, "to_numpy") else y.to_numpy().reshape(-1)
    np.testing.assert_array_equal(found[codes], given)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (["a"] * 4, InputError, "all 4 rows of y have one class, 'a'"),
        ([0, 1, None, 1], InputError, "a label is missing: rows 2"),
        ([0.0, np.nan, 1.0, np.nan], InputError, "rows 1, 3"),
        (pd.Series(["a", pd.NA, "b"], dtype="string"), InputError, "rows 1"),
        ([0.0, 1.5, 1.0], InputError, "Unknown label type: y has the number 1.5 in row 1"),
        ([1, "a", 1, "a"], InputTypeError, r"mixed types: numbers \(1\) and text \('a'\)"),
        ([True, "a"], InputTypeError, "booleans"),
        ([{"a": 1}, {"b": 2}], InputTypeError, "dict objects"),
        (np.zeros((3, 2)), InputError, "must have one column of labels, and has 2"),
        (np.arange(10_000), InputError, "10,000 classes .* Numbers with so many values are a regression"),
        ([str(i) for i in range(200)], InputError, "200 classes .* Pool rare classes"),
        (None, InputError, "the target y is None"),
        (np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"), InputTypeError, "dates"),
        (np.array([1j, 2j]), InputError, "Complex data not supported"),
        ([[1], [1, 2]], InputTypeError, "list objects"),
    ],
    ids=str,
)
def test_what_is_no_set_of_labels(y, error, message):
    with pytest.raises(error, match=message):
        labels_and_codes(y)


def test_a_class_that_was_seen_once_is_reported():
    with pytest.warns(SodgpWarning, match="the class 'c' of y occurs only once"):
        labels_and_codes(["a", "a", "b", "b", "c"])
    with pytest.warns(SodgpWarning, match="the classes 'b', 'c' of y occur only once"):
        labels_and_codes(["a", "a", "b", "c"])
    with pytest.warns(SodgpWarning, match="'c' of y occurs only once") as seen:
        DeepGPClassifier(n_layers=1, max_iter=1).fit(np.arange(5.0)[:, None], ["a", "a", "b", "b", "c"])
    assert seen[0].filename == __file__


def test_counts_name_the_rows():
    check_counts(np.array([[0.0], [1.0], [2.0**53]]), "poisson")
    y = np.array([[0.0], [-2.0], [1.5], [3.0]])
    with pytest.raises(InputError, match=r"negative in row 1 \(-2\); rows that are no counts: 1, 2\."):
        check_counts(y, "poisson")
    with pytest.raises(InputError, match=r"fractional in row 0 .* 0, 1, 2, 3, 4 and 2 more"):
        check_counts(np.full((7, 1), 0.5), "poisson")
    with pytest.raises(InputError, match="too large in row 0"):
        check_counts(np.array([[1e300]]), "poisson")


def test_what_each_likelihood_is_trained_on():
    codes, one_hot = np.array([[0.0], [1.0], [1.0]]), np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    for likelihood, y, is_scaled in (
        (Gaussian(), codes, True),
        (Poisson(), codes, False),
        (Bernoulli(), codes, False),
        (Softmax(), one_hot, False),
        (Dirichlet(), Dirichlet().transformed(one_hot)[0], True),
    ):
        found = encoded(likelihood, codes, None, 2)
        np.testing.assert_array_equal(found.y, y)
        assert found.is_scaled == is_scaled
        assert (found.noise_variance is not None) == isinstance(likelihood, Dirichlet)
    with pytest.raises(InputError, match="'bernoulli' is of two classes, and y has 3"):
        encoded(Bernoulli(), codes, None, 3)
