"""Joint predictions and draws, and that they agree with those of each row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sodgp import DeepGPRegressor
from sodgp.errors import InputError
from sodgp.layers.subset import COUPLINGS

RNG = np.random.default_rng(0)


X = RNG.standard_normal((40, 2))


Y = 3.0 + np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(40)


def make(**options):
    return DeepGPRegressor().set_params(
        **{"subset_size": 10, "n_samples": 2, "n_predict_samples": 20, "max_iter": 30, "random_state": 0, **options}
    )


@pytest.mark.parametrize("n_layers", [1, 2])
def test_draws_over_rows_have_the_moments_of_the_joint_prediction(n_layers):
    model = make(n_layers=n_layers, n_predict_samples=100).fit(X, Y)
    rows = X[:4]
    mean, cov = model.predict(rows, return_cov=True)
    draws = model.sample_y(rows, n_samples=400, random_state=1)
    scale = np.sqrt(np.diag(cov))
    assert_allclose(draws.mean(1), mean, atol=0.25 * scale.max())
    assert_allclose(np.cov(draws), cov, atol=0.3 * cov.max())


@pytest.mark.parametrize("inference", ["sod", "dsvi", "sghmc", "mean_field"])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_how_many_draws_are_taken_at_once_changes_no_distribution(inference, n_layers, monkeypatch):
    options = {"inference__n_posterior_samples": 4, "inference__thinning": 1} if inference == "sghmc" else {}
    options |= {"n_layers": n_layers, "max_iter": 20, "n_predict_samples": 400, "random_state": 0}
    model = DeepGPRegressor().set_params(inference=inference, **options).fit(X, Y)
    together, covariance = model.predict(X[:3], return_cov=True)
    monkeypatch.setattr("sodgp.estimator.predict._JOINT_ENTRIES", 1)
    alone, other = model.predict(X[:3], return_cov=True)
    assert_allclose(alone, together, rtol=0, atol=0.15 * np.sqrt(covariance.max()))
    assert_allclose(other, covariance, rtol=0, atol=0.2 * covariance.max())
    assert model.sample_y(X[:3], 7).shape == (3, 7)


def test_joint_and_marginal_predictions_agree():
    model = make(n_layers=1).fit(X, Y)
    mean, std = model.predict(X[:6], return_std=True)
    joint_mean, cov = model.predict(X[:6], return_cov=True)
    assert_allclose(joint_mean, mean)
    assert_allclose(np.sqrt(np.diag(cov)), std)


@pytest.mark.parametrize(
    "options", [{"inference__coupling": coupling} for coupling in COUPLINGS] + [{"inference": "dsvi"}], ids=str
)
def test_joint_predictions_have_the_distribution_of_each_row(options):
    model = make(n_layers=3, n_predict_samples=3000, **options).fit(X, Y)
    mean, std = model.predict(X[:3], return_std=True)
    joint_mean, cov = model.predict(X[:3], return_cov=True)
    assert_allclose(joint_mean, mean, rtol=0, atol=0.1 * std.max())
    assert_allclose(np.diag(cov), std**2, rtol=0.1)


def test_seeds_of_draws_come_in_all_kinds():
    model = make().fit(X, Y)
    for same in (3, np.random.RandomState(3)):
        assert_array_equal(model.sample_y(X[:2], random_state=same), model.sample_y(X[:2], random_state=3))
    first, second = (model.sample_y(X[:2], random_state=np.random.default_rng(3)) for _ in range(2))
    assert_array_equal(first, second)
    with pytest.raises(InputError, match="random_state"):
        model.sample_y(X[:2], random_state="three")


def test_draws_of_the_function_are_smoother_than_those_of_the_targets():
    model = make().fit(X, Y)
    grid = np.column_stack([np.linspace(-1, 1, 50), np.zeros(50)])
    rough, smooth = (
        np.abs(np.diff(model.sample_y(grid, 20, random_state=0, latent=flag), axis=0)).mean() for flag in (False, True)
    )
    assert smooth < 0.5 * rough
