"""What happens to the data before training: the subset, scaling, and names of columns."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from sodgp import DeepGPRegressor
from sodgp.estimator.describe import target_names
from sodgp.estimator.units import split_rows
from sodgp.inference.contract import rest_of

RNG = np.random.default_rng(0)


X = RNG.standard_normal((40, 2))


Y = 3.0 + np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(40)


def make(**options):
    return DeepGPRegressor().set_params(
        **{"subset_size": 10, "n_samples": 2, "n_predict_samples": 20, "max_iter": 30, "random_state": 0, **options}
    )


def test_the_subset_is_made_of_different_rows_of_the_data():
    model = make().fit(X, Y)
    assert len(set(model.subset_indices_.tolist())) == 10
    assert model.subset_indices_.min() >= 0
    assert model.subset_indices_.max() < 40
    assert not hasattr(make(inference="dsvi").fit(X, Y), "subset_indices_")


@pytest.mark.parametrize("offset", [1.7e9, -3.0e12])
def test_a_column_far_from_zero_is_not_constant(offset):
    """scikit-learn takes a spread that is small beside the mean for rounding."""
    t = np.arange(40.0) * 2.0**-10
    plain = make(n_layers=1).fit(t[:, None], np.sin(200 * t))
    far = make(n_layers=1).fit(t[:, None] + offset, np.sin(200 * t) * 1e-3 + offset)
    assert_allclose(far.fitted_.x_scaler.scale_, plain.fitted_.x_scaler.scale_, rtol=1e-2)
    assert_allclose(far.fitted_.y_scaler.scale_, 1e-3 * plain.fitted_.y_scaler.scale_, rtol=0.2)
    assert far.predict(t[:, None] + offset, return_std=True)[1].max() < 0.01


def test_constant_columns_stay_constant():
    model = make(max_iter=2).fit(np.column_stack([X, np.full(40, 1e9)]), Y)
    assert model.fitted_.x_scaler.scale_[2] == 1.0


@pytest.mark.parametrize(
    ("y", "names"),
    [
        (pd.Series(Y, name="price"), ["price"]),
        (pd.DataFrame({"price": Y, "rent": -Y}), ["price", "rent"]),
        (pd.Series(Y), ["y"]),
        (pd.DataFrame({0: Y, 1: -Y}), ["y0", "y1"]),
        (Y, ["y"]),
    ],
)
def test_targets_have_the_names_of_their_columns_and_none_of_an_earlier_fit(y, names):
    model = make(max_iter=2).fit(X, pd.Series(Y, name="earlier"))
    assert target_names(model.fit(X, y)) == names
    assert target_names(make(max_iter=2, n_members=2).fit(X, y)) == names


def test_the_users_arrays_stay_as_they_are():
    rows, labels = X.copy(), Y.copy()
    for options in ({}, {"validation_fraction": 0.25}, {"n_members": 2, "max_iter": 2}):
        make(**options).fit(rows, labels)
        assert_array_equal(rows, X)
        assert_array_equal(labels, Y)


@pytest.mark.parametrize("chosen", [[0, 1], [7, 3], [8, 9], [4]])
def test_rows_are_split_in_place(chosen, monkeypatch):
    monkeypatch.setattr("sodgp.selectors.base.CHUNK_ELEMENTS", 1)
    values, picked = torch.arange(140.0).reshape(-1, 2), torch.tensor(chosen)
    rest = rest_of(70, picked)
    wanted = values[picked], values[rest]
    before = values.data_ptr()
    subset, others = split_rows(values, picked, rest)
    assert torch.equal(subset, wanted[0])
    assert torch.equal(others, wanted[1])
    assert others.data_ptr() == before
