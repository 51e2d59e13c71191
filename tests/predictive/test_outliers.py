"""`outlier_probability`: what an estimator says about rows unlike those that it was trained on."""

import numpy as np
import pytest

from sodgp import DeepGPEnsemble, DeepGPRegressor
from sodgp.errors import ConfigurationError, ModelFileError
from sodgp.estimator.files.records import from_record, to_record

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 2))
Y = np.sign(X[:, 0]) + 0.1 * RNG.standard_normal(60)
SMALL = {"max_iter": 3, "subset_size": 8, "n_predict_samples": 5, "random_state": 0}


def fitted(**options):
    return DeepGPRegressor(**{**SMALL, **options}).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "probability"),
    [
        ({}, 0.0),  # 60 rows: trained on the bound
        ({"predictive_weight": 1.0}, 1 / 61),
        ({"predictive_weight": 0.5, "inference": "dsvi"}, 1 / 61),
        ({"predictive_weight": 1.0, "validation_fraction": 0.5}, 1 / 31),
        ({"predictive_weight": 1.0, "outlier_probability": 0}, 0.0),
        ({"outlier_probability": 0.02}, 0.02),
        ({"inference": "mean_field", "outlier_probability": 0.02}, 0.02),
        ({"inference": "sghmc", "n_posterior_samples": 4, "thinning": 1}, 0.0),
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
    plain = fitted(outlier_probability=0)
    careful = fitted(outlier_probability=0.1)
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
    model = DeepGPRegressor(**SMALL, outlier_probability=0.1).fit(X, np.stack([Y, 100 * Y], 1))
    mean, std = model.predict(X[:4], return_std=True)
    dist = model.predict_distribution(X[:4])
    np.testing.assert_allclose(dist.std, std, rtol=1e-12)
    plain_mean, plain_std = model.set_params(outlier_probability=0.0).predict(X[:4], return_std=True)
    np.testing.assert_allclose(mean, plain_mean, rtol=1e-12)
    np.testing.assert_allclose(std, plain_std * np.sqrt(10.9), rtol=1e-12)
    draws = model.set_params(outlier_probability=0.9).sample_y(X[:4], 500)
    assert draws.shape == (4, 2, 500)
    np.testing.assert_allclose(draws.std(-1), plain_std * np.sqrt(1 + 0.9 * 99), rtol=0.15)


def test_an_ensemble_predicts_the_mean_of_its_members(tmp_path):
    base = DeepGPRegressor(**{**SMALL, "random_state": None}, outlier_probability=0.1, member_spread=1.0)
    ensemble = DeepGPEnsemble(base, n_members=2, random_state=0).fit(X, Y)
    dist = ensemble.predict_distribution(X)
    density = np.mean([np.exp(member.predict_distribution(X).log_prob(Y)) for member in ensemble.members_], 0)
    np.testing.assert_allclose(np.exp(dist.log_prob(Y)), density, rtol=1e-10)
    np.testing.assert_allclose(ensemble.predict(X, return_std=True)[1], dist.std, rtol=1e-12)
    ensemble.save(tmp_path / "e.sodgp")
    again = DeepGPEnsemble.load(tmp_path / "e.sodgp").predict_distribution(X)
    np.testing.assert_allclose(again.log_prob(Y), dist.log_prob(Y), rtol=1e-12)


def test_resuming_does_not_mind(tmp_path):
    folder = str(tmp_path / "run")
    first = fitted(checkpoint=folder)
    second = DeepGPRegressor(**SMALL, checkpoint=folder, outlier_probability=0.1).fit(X, Y, resume=True)
    np.testing.assert_allclose(second.predict(X), first.predict(X), rtol=1e-12)


def test_no_new_fit_is_needed():
    model = fitted()
    before = model.predict_distribution(X).log_prob(30.0)
    assert (model.set_params(outlier_probability=0.01).predict_distribution(X).log_prob(30.0) > before + 10).all()


def test_a_file_from_before_predicts_as_it_did():
    model = fitted(predictive_weight=1.0, outlier_probability=0.0)
    record = to_record(model)
    del record.info["parameters"]["outlier_probability"]
    again = from_record(DeepGPRegressor, record).predict_distribution(X)
    np.testing.assert_array_equal(again.log_prob(Y), model.predict_distribution(X).log_prob(Y))


@pytest.mark.parametrize("probability", [-0.1, 1.0, 1.5, float("nan"), "few", True])
def test_bad_probabilities(probability):
    with pytest.raises(ConfigurationError, match="outlier_probability"):
        fitted(outlier_probability=probability)
    with pytest.raises(ConfigurationError, match="outlier_probability"):
        fitted().set_params(outlier_probability=probability).predict(X, return_std=True)
    record = to_record(fitted())
    record.info["parameters"]["outlier_probability"] = probability
    with pytest.raises(ModelFileError, match="outlier_probability"):
        from_record(DeepGPRegressor, record)
