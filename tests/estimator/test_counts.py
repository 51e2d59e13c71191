"""The regressor with counts, and with Student's t."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sodgp import DSVI, SGHMC, DeepGPRegressor
from sodgp.errors import ConfigurationError, InputError
from sodgp.estimator.describe import describe
from sodgp.likelihoods import NegativeBinomial, StudentT

SMALL = {"n_layers": 2, "subset_size": 10, "max_iter": 40, "n_samples": 2, "n_predict_samples": 4, "learning_rate": 0.1}
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(80, 2))
RATE = np.exp(1.5 + 1.2 * X[:, 0])
COUNTS = rng.poisson(RATE)


def regressor(likelihood, **options):
    return DeepGPRegressor(likelihood=likelihood, **SMALL | {"random_state": 0} | options)


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial", NegativeBinomial(dispersion=0.5)])
def test_counts(likelihood):
    model = regressor(likelihood).fit(X, COUNTS)
    dist = model.predict_distribution(X)
    np.testing.assert_allclose(model.predict(X), dist.mean)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(std, dist.std)
    assert np.sqrt(np.mean((mean - RATE) ** 2)) < 0.5 * RATE.std()
    base = stats.poisson(COUNTS.mean()).logpmf(COUNTS).mean()
    assert dist.log_prob(COUNTS).mean() > base + 0.2
    assert dist.crps(COUNTS).mean() < dist.std.mean()
    assert (dist.quantile(0.05) % 1 == 0).all()
    # f is the log of the rate, with its offset.
    latent = model.predict_distribution(X, latent=True)
    np.testing.assert_allclose(np.exp(latent.mean + latent.variance / 2), mean, rtol=0.05)
    draws = model.sample_y(X[:5], n_samples=3000, latent=True)
    np.testing.assert_allclose(draws.mean(1), latent.mean[:5], atol=0.1)
    assert describe(model)["task"] == "counts"


def test_counts_of_several_columns():
    Y = np.stack([COUNTS, COUNTS[::-1]], axis=1)
    model = regressor("poisson", max_iter=20).fit(X, Y)
    assert model.predict(X).shape == model.predict_distribution(X).crps(Y).shape == (80, 2)
    assert model.predict_distribution(X).sample(3).shape == (3, 80, 2)


def test_outliers_move_students_t_less():
    y = 2.0 * X[:, 0] + 0.1 * rng.normal(size=80)
    broken = y.copy()
    broken[::9] += 20.0
    error = {}
    for likelihood in ("gaussian", "student_t", StudentT(df=3.0)):
        model = regressor(likelihood, n_layers=1, max_iter=80, subset_size=20).fit(X, broken)
        error[str(likelihood)] = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    assert max(error["student_t"], error[str(StudentT(df=3.0))]) < 0.5 * error["gaussian"]
    dist = model.predict_distribution(X)
    np.testing.assert_allclose(model.predict(X), dist.mean)
    assert describe(model)["noise_std"]["y"] == pytest.approx(np.sqrt(model.fitted_.y_scaler.var_[0]), rel=10)


def test_members_and_files(tmp_path):
    for likelihood in ("poisson", "student_t"):
        model = regressor(likelihood, max_iter=5, n_members=2).fit(X, COUNTS)
        each = [member.predict(X) for member in model.members_]
        np.testing.assert_allclose(model.predict(X), np.mean(each, axis=0))
        np.testing.assert_allclose(model.predict_distribution(X).mean, np.mean(each, axis=0))
        np.testing.assert_allclose(model.predict(X, return_std=True)[1], model.predict_distribution(X).std)
        model.save(tmp_path / "m.sodgp")
        np.testing.assert_array_equal(DeepGPRegressor.load(tmp_path / "m.sodgp").predict(X), model.predict(X))


@pytest.mark.parametrize(
    "inference", [DSVI(), SGHMC(n_posterior_samples=4, thinning=2, step_size=0.05)], ids=lambda i: i.name
)
def test_other_methods(inference):
    for likelihood in ("poisson", "student_t"):
        model = regressor(likelihood, inference=inference, n_samples=10, max_iter=30).fit(X, COUNTS)
        assert np.isfinite(model.predict_distribution(X).log_prob(COUNTS)).all()


def test_all_zeros_are_counts():
    model = regressor("poisson", max_iter=20).fit(X, np.zeros(80))
    assert (model.predict(X) < 0.2).all()


def test_bad_input():
    with pytest.raises(InputError, match=r"negative in row 3 \(-1\); rows that are no counts: 3"):
        regressor("poisson").fit(X, np.where(np.arange(80) == 3, -1, COUNTS))
    with pytest.raises(InputError, match="fractional in row 0"):
        regressor("negative_binomial").fit(X, X[:, 0] ** 2)
    with pytest.raises(ConfigurationError, match="of classes, for DeepGPClassifier"):
        regressor("softmax").fit(X, COUNTS)
    with pytest.raises(ConfigurationError, match="likelihood=None"):
        regressor(None).fit(X, COUNTS)
    model = regressor("poisson", max_iter=2).fit(X, COUNTS)
    with pytest.raises(ConfigurationError, match="Gaussian noise only"):
        model.predict(X, return_cov=True)
    with pytest.raises(ConfigurationError, match="Gaussian noise only"):
        model.sample_y(X)
    with pytest.raises(ConfigurationError, match="noise_variance is known noise"):
        regressor("poisson").fit(X, COUNTS, noise_variance=0.1)
