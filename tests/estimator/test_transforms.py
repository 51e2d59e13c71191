"""Positive targets: `target_transform` of the regressor, with everything that predicts."""

from __future__ import annotations

import numpy as np
import pytest

from sodgp import DSVI, DeepGPRegressor, SoD
from sodgp.errors import ConfigurationError, InputError, ModelFileError
from sodgp.estimator.describe import describe, noise_std
from sodgp.estimator.files.records import from_record, to_record
from sodgp.estimator.transforms import transform_for
from sodgp.evaluation.scores import evaluate
from sodgp.likelihoods import Gaussian
from sodgp.plots.inputs import subset_labels
from sodgp.system.container import Record

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(60, 1))
Y = np.exp(np.sin(2 * X[:, 0]) + X[:, 0] + 0.3 * RNG.normal(size=60))
SMALL = {"n_layers": 2, "subset_size": 12, "max_iter": 40, "n_predict_samples": 8, "random_state": 0}


def fitted(transform, y=Y, **options):
    return DeepGPRegressor(target_transform=transform, **SMALL | options).fit(X[: len(y)], y)


@pytest.mark.parametrize("options", [{}, {"n_members": 2}, {"inference": DSVI()}, {"likelihood": "heavy_tailed"}])
@pytest.mark.parametrize("transform", ["log", "box_cox"])
def test_every_prediction_is_of_the_same_distribution(transform, options):
    model = fitted(transform, **options)
    dist = model.predict_distribution(X)
    np.testing.assert_allclose(model.predict(X), dist.mean)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose((mean, std), (dist.mean, dist.std))
    low, high = model.predict_interval(X, 0.9)
    assert (low > 0).all()
    assert 0.75 < ((low < Y) & (high > Y)).mean() <= 1.0
    draws = model.sample_y(X[:6], n_samples=4000)
    assert (draws > 0).all()
    np.testing.assert_allclose(np.median(draws, axis=1), dist.quantile(0.5)[:6], rtol=0.35)
    latent = model.predict_distribution(X, latent=True)
    assert (latent.std < dist.std).all()
    assert (model.sample_y(X[:3], latent=True) > 0).all()


def test_it_pays_where_noise_is_relative():
    plain, log = fitted("none"), fitted("log")
    assert plain.target_transform_ is None
    assert log.target_transform_.name == "log"
    assert log.outlier_probability_ == 0.0
    score = [model.predict_distribution(X).log_prob(Y).mean() for model in (plain, log)]
    assert score[1] > score[0] + 0.3


def test_the_units_of_y_do_not_matter():
    one, other = (fitted("box_cox", factor * Y, n_layers=1, max_iter=10) for factor in (1.0, 1e6))
    np.testing.assert_allclose(other.predict(X), 1e6 * one.predict(X), rtol=1e-4)
    np.testing.assert_allclose(other.target_transform_.power, one.target_transform_.power, atol=2e-3)


def test_box_cox_finds_the_power():
    z = np.random.default_rng(1).normal(10.0, 1.0, size=4000)
    found = transform_for("box_cox", np.stack([z**2, np.exp(z), z], 1), np.arange(4000))
    np.testing.assert_allclose(found.power, [0.5, 0.0, 1.0], atol=0.15)
    constant = transform_for("box_cox", np.full((9, 1), 5.0), np.arange(9))
    assert constant.power == 1.0
    assert constant.centre == pytest.approx(5.0)


def test_several_outputs():
    both = fitted("box_cox", np.stack([Y, Y**2], axis=1))
    assert both.predict(X).shape == both.predict_distribution(X).crps(np.stack([Y, Y**2], axis=1)).shape == (60, 2)
    assert both.sample_y(X[:5], 3).shape == (5, 2, 3)
    powers = describe(both)["target_transform"]["power"]
    assert powers["y1"] == pytest.approx(powers["y0"] / 2, abs=0.02)


def test_held_out_rows_are_scored_in_the_units_of_y():
    model = fitted("box_cox", validation_fraction=0.25, n_layers=1)
    held = model.validation_indices_
    expected = model.predict_distribution(X[held]).log_prob(Y[held]).mean()
    assert model.history_.validation[-1] == pytest.approx(expected, rel=1e-6)


def test_scores_compare_with_the_training_rows_in_their_units():
    model = fitted("log")
    found = evaluate(model, X, Y)
    assert found.base_mean[0, 0] == pytest.approx(Y.mean())
    assert found.base_std[0, 0] == pytest.approx(Y.std())
    np.testing.assert_allclose(np.sort(subset_labels(model)[:, 0]), np.sort(Y[model.subset_indices_]))
    assert noise_std(model) == []


@pytest.mark.parametrize("transform", ["log", "box_cox"])
def test_a_model_file_has_it(transform, tmp_path):
    model = fitted(transform)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    assert again.target_transform == transform
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.fitted_.y_seen.mean_, model.fitted_.y_seen.mean_)
    model.set_params(target_transform="none")
    with pytest.raises(ModelFileError, match="target_transform was changed"):
        model.save(tmp_path / "other.sodgp")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ([], "not a transform"),
        ({"name": "root", "power": [0.5], "centre": [1.0]}, "unknown"),
        ({"name": "log", "power": [0.5], "centre": [1.0]}, "out of range"),
        ({"name": "box_cox", "power": [2.5], "centre": [1.0]}, "out of range"),
        ({"name": "box_cox", "power": [0.5], "centre": [0.0]}, "not positive"),
        ({"name": "box_cox", "power": [0.5, 0.5], "centre": [1.0, 1.0]}, "2 numbers for 1"),
    ],
)
def test_a_damaged_file_is_refused(entry, said):
    record = to_record(fitted("log", max_iter=2))
    with pytest.raises(ModelFileError, match=said):
        from_record(DeepGPRegressor, Record({**record.info, "target_transform": entry}, record.tensors))


@pytest.mark.parametrize("bad", [0.0, -3.0])
def test_targets_that_are_not_positive_are_named(bad):
    y = Y.copy()
    y[[7, 11]] = bad
    with pytest.raises(InputError, match=rf"y is {bad:g} in row 7; rows that are not positive: 7, 11\."):
        fitted("log", y)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"likelihood": "poisson"}, "of counts"),
        ({"likelihood": "student_t"}, "no mean"),
        ({"likelihood": Gaussian(outlier_probability=0.01)}, "outlier_probability"),
        ({"target_transform": "sqrt"}, "target_transform"),
    ],
)
def test_what_does_not_go_with_it_is_refused(options, said):
    with pytest.raises(ConfigurationError, match=said):
        DeepGPRegressor(**{"target_transform": "log", **SMALL, **options}).fit(X, Y)


def test_known_noise_is_refused_and_so_are_covariances():
    with pytest.raises(ConfigurationError, match="noise_variance"):
        DeepGPRegressor(target_transform="log", **SMALL).fit(X, Y, noise_variance=np.ones(60))
    with pytest.raises(InputError, match="sample_y"):
        fitted("log", max_iter=2).predict(X, return_cov=True)


def test_a_warm_start_keeps_the_transform():
    model = fitted("box_cox", inference=SoD(objective="bound"), warm_start=True)
    before = model.target_transform_
    assert model.fit(X[:40], Y[:40]).target_transform_ is before
    with pytest.raises(ConfigurationError, match="warm_start continues"):
        model.set_params(target_transform="none").fit(X, Y)
