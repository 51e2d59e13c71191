"""`outlier_probability`: what an estimator says about rows unlike those that it was trained on."""

import numpy as np
import pytest
import torch

from sodgp import DSVI, SGHMC, DeepGPRegressor, SoD
from sodgp.errors import ConfigurationError, ModelFileError
from sodgp.estimator.files.records import from_record, to_record
from sodgp.likelihoods import Gaussian
from sodgp.predictive.outliers import Outliers, variance_of, widening

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 2))
Y = np.sign(X[:, 0]) + 0.1 * RNG.standard_normal(60)
PREDICTIVE = SoD(objective="predictive")
SMALL = {"max_iter": 3, "subset_size": 8, "n_predict_samples": 5, "random_state": 0}


def fitted(**options):
    return DeepGPRegressor(**{**SMALL, **options}).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "probability"),
    [
        ({}, 0.0),  # 60 rows: trained on the bound
        ({"inference": PREDICTIVE}, 1 / 61),
        ({"inference": DSVI(objective="predictive")}, 1 / 61),
        ({"inference": PREDICTIVE, "validation_fraction": 0.5}, 1 / 31),
        ({"inference": PREDICTIVE, "likelihood": Gaussian(outlier_probability=0.0)}, 0.0),
        ({"likelihood": Gaussian(outlier_probability=0.02)}, 0.02),
        ({"inference": "mean_field", "likelihood": Gaussian(outlier_probability=0.02)}, 0.02),
        ({"inference": SGHMC(n_posterior_samples=4, thinning=1)}, 0.0),
    ],
    ids=str,
)
def test_who_expects_outliers(tmp_path, options, probability):
    model = fitted(**options)
    np.testing.assert_allclose(model.predict_distribution(X).outlier_probability, probability)
    assert not model.predict_distribution(X, latent=True).outlier_probability.any()
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp").predict_distribution(X)
    np.testing.assert_array_equal(again.log_prob(Y), model.predict_distribution(X).log_prob(Y))


def test_mean_std_covariance_and_draws_agree_with_the_distribution():
    plain, careful = (fitted(likelihood=Gaussian(outlier_probability=share)) for share in (0.0, 0.1))
    (mean, std), (same, wider) = (model.predict(X, return_std=True) for model in (plain, careful))
    np.testing.assert_allclose(same, mean, rtol=1e-12)
    np.testing.assert_allclose(wider, std * np.sqrt(1 + 0.1 * 99), rtol=1e-12)
    (_, cov), (_, wide) = (model.predict(X[:5], return_cov=True) for model in (plain, careful))
    np.testing.assert_allclose(np.diag(wide), np.diag(cov) * 10.9, rtol=1e-12)
    others = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(wide[others], 0.81 * cov[others], rtol=1e-12)
    draws, strange = (model.sample_y(X, 200, random_state=1) for model in (plain, careful))
    moved = draws != strange
    assert 0.08 < moved.mean() < 0.12
    assert 0.9 < (((strange - mean[:, None]) / (10 * std[:, None]))[moved] ** 2).mean() < 1.1
    np.testing.assert_array_equal(plain.sample_y(X, 2, latent=True), careful.sample_y(X, 2, latent=True))


def test_several_targets():
    model = DeepGPRegressor(**SMALL, likelihood=Gaussian(outlier_probability=0.1)).fit(X, np.stack([Y, 100 * Y], 1))
    mean, std = model.predict(X[:4], return_std=True)
    dist = model.predict_distribution(X[:4])
    np.testing.assert_allclose(dist.std, std, rtol=1e-12)
    plain_mean, plain_std = model.set_params(likelihood__outlier_probability=0.0).predict(X[:4], return_std=True)
    np.testing.assert_allclose(mean, plain_mean, rtol=1e-12)
    np.testing.assert_allclose(std, plain_std * np.sqrt(10.9), rtol=1e-12)
    draws = model.set_params(likelihood__outlier_probability=0.9).sample_y(X[:4], 500)
    assert draws.shape == (4, 2, 500)
    np.testing.assert_allclose(draws.std(-1), plain_std * np.sqrt(1 + 0.9 * 99), rtol=0.15)


def test_several_members_predict_the_mean_of_their_densities(tmp_path):
    options = {"inference": SoD(member_spread=1.0), "likelihood": Gaussian(outlier_probability=0.1)}
    model = fitted(**options, n_members=2)
    dist = model.predict_distribution(X)
    density = np.mean([np.exp(member.predict_distribution(X).log_prob(Y)) for member in model.members_], 0)
    np.testing.assert_allclose(np.exp(dist.log_prob(Y)), density, rtol=1e-10)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], dist.std, rtol=1e-12)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp").predict_distribution(X)
    np.testing.assert_allclose(again.log_prob(Y), dist.log_prob(Y), rtol=1e-12)


def test_resuming_does_not_mind(tmp_path):
    folder = str(tmp_path / "run")
    first = fitted(checkpoint=folder)
    second = DeepGPRegressor(**SMALL, checkpoint=folder, likelihood=Gaussian(outlier_probability=0.1)).fit(
        X, Y, resume=True
    )
    np.testing.assert_allclose(second.predict(X), first.predict(X), rtol=1e-12)


def test_no_new_fit_is_needed():
    model = fitted()
    before = model.predict_distribution(X).log_prob(30.0)
    assert (
        model.set_params(likelihood__outlier_probability=0.01).predict_distribution(X).log_prob(30.0) > before + 10
    ).all()


@pytest.mark.parametrize("probability", [-0.1, 1.0, 1.5, float("nan")])
def test_bad_probabilities(probability):
    with pytest.raises(ConfigurationError, match="outlier_probability"):
        Gaussian(outlier_probability=probability)
    with pytest.raises(ConfigurationError, match="outlier_probability"):
        fitted().set_params(likelihood__outlier_probability=probability)
    record = to_record(fitted(likelihood=Gaussian()))
    record.info["parameters"]["likelihood"]["options"]["outlier_probability"] = probability
    with pytest.raises(ModelFileError, match="outlier_probability"):
        from_record(DeepGPRegressor, record)


def test_components_of_outliers():
    mu, var = torch.tensor([[-1.0, 0.0], [1.0, 4.0]]), torch.ones(2, 2)
    strange = Outliers.of(mu, var, 0.1)
    np.testing.assert_allclose(strange.mu, [[0.0, 2.0]])
    np.testing.assert_allclose(strange.var, 100 * variance_of(mu, var)[None])
    np.testing.assert_allclose(strange.mean_with(mu), [0.0, 2.0])
    np.testing.assert_allclose(strange.variance_with(mu, var), widening(0.1) * variance_of(mu, var), rtol=1e-6)
    _, _, weights = strange.added_to(mu, var)
    np.testing.assert_allclose(weights[-1] / weights.sum(0), 0.1, rtol=1e-6)
    assert not len(Outliers.of(mu, var, 0.0).mu)
    padded = Outliers.of(mu, var, 0.0).padded(2, mu, var)
    assert (padded.mu.shape, float(padded.probability.sum())) == ((2, 2), 0.0)
