"""Intervals of predictions."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sodgp import DeepGPRegressor
from sodgp.errors import InputError

X = np.linspace(-1, 1, 20)[:, None]
Y = np.column_stack([X[:, 0], -X[:, 0]])


@pytest.mark.parametrize("y", [Y[:, 0], Y], ids=["one", "two"])
def test_an_interval_has_the_quantiles_at_its_ends(y):
    model = DeepGPRegressor(n_layers=1, max_iter=3, random_state=0).fit(X, y)
    low, high = model.predict_interval(X[:5], coverage=0.8)
    wanted = model.predict_distribution(X[:5]).quantile([0.1, 0.9])
    np.testing.assert_allclose([low, high], wanted, rtol=1e-9)
    assert low.shape == y[:5].shape
    assert_array_equal(model.predict_interval(X[:5]), model.predict_distribution(X[:5]).interval(0.9))


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90, "0.9"])
def test_a_coverage_is_between_0_and_1(coverage):
    model = DeepGPRegressor(n_layers=1, max_iter=1).fit(X, Y)
    with pytest.raises((InputError, TypeError, ValueError)):
        model.predict_interval(X, coverage)
