"""SGHMC through the estimator."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from sodgp import DSVI, SGHMC, DeepGPRegressor
from sodgp.errors import ConfigurationError, SamplerDivergedError


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(seed, *shape):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def regressor(n_layers, **options):
    small = {
        "max_iter": 60,
        "learning_rate": 0.01,
        "n_predict_samples": 8,
        "subset_size": 8,
    }
    model = DeepGPRegressor(inference=SGHMC(n_posterior_samples=16, thinning=3), n_layers=n_layers, random_state=0)
    return model.set_params(**{**small, **options})


def test_a_sampler_that_runs_away_in_burn_in_is_reported():
    X = np.linspace(-1, 1, 30)[:, None]
    y = np.sin(3 * X[:, 0])
    model = regressor(1).fit(X, y).set_params(inference__step_size=1e6)
    with pytest.raises(SamplerDivergedError, match=r"smaller step_size.*halved its step"):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_fit_predict_seed_and_pickle(n_layers):
    X = randn(0, 60, 2).numpy()
    y = np.sin(X[:, 0]) + X[:, 1]
    model = regressor(n_layers, batch_size=40).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.corrcoef(mean, y)[0, 1] > 0.5
    assert "n_components=8" in repr(model.predict_distribution(X))
    assert set(model.history_.terms) == {"log_density", "log_prior_u"}
    assert np.array_equal(regressor(n_layers, batch_size=40).fit(X, y).predict(X), mean)
    assert not np.array_equal(regressor(n_layers, batch_size=40, random_state=1).fit(X, y).predict(X), mean)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), mean)
    np.testing.assert_allclose(model.predict(X[5:9]), mean[5:9])
    assert model.sample_y(X[:5], 3).shape == (5, 3)
    assert model.predict(X[:5], return_cov=True)[1].shape == (5, 5)


def test_a_saved_model_predicts_the_same(tmp_path):
    X = randn(0, 40, 2).numpy()
    model = regressor(2).fit(X, X[:, 0])
    model.save(tmp_path / "m.sodgp")
    assert np.array_equal(DeepGPRegressor.load(tmp_path / "m.sodgp").predict(X), model.predict(X))


def test_diagnostics_and_chains():
    X = randn(0, 40, 1).numpy()
    found = (
        regressor(2, inference__n_chains=2, inference__n_posterior_samples=20, dtype="float32")
        .fit(X, np.c_[X, X**2])
        .diagnostics_
    )
    assert (found.n_draws, found.n_chains, found.thinning, found.step_size) == (20, 2, 3, pytest.approx(0.01))
    assert found.potential.shape == (2, 10)
    assert found.ess_potential.shape == found.r_hat_potential.shape == found.temperature.shape == ()
    assert found.ess_prediction.shape == found.r_hat_prediction.shape == (16,)
    assert np.isfinite(found.ess_prediction).all()
    assert 0.3 < found.temperature < 3.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_posterior_samples": 5, "n_chains": 2}, "multiple of n_chains"),
        ({"n_posterior_samples": 0}, "n_posterior_samples"),
        ({"step_size": -1.0}, "step_size"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ConfigurationError, match=message):
        SGHMC(**options)


def test_options_of_others_are_refused():
    with pytest.raises(ConfigurationError, match="n_samples=3 has no meaning"):
        DeepGPRegressor(inference=SGHMC(), n_samples=3).fit(np.eye(4), np.arange(4.0))
    with pytest.raises(ConfigurationError, match="no parameter thinning"):
        DSVI().set_params(thinning=3)
