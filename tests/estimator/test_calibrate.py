"""`calibrate` of the estimators: every prediction follows, files keep it, and a fit ends it."""

from __future__ import annotations

import numpy as np
import pytest

from sodgp import DeepGPClassifier, DeepGPRegressor, SoD
from sodgp.errors import ConfigurationError, InputError, ModelFileError
from sodgp.estimator.describe import describe, target_facts
from sodgp.estimator.files.records import from_record, to_record
from sodgp.evaluation.scores import evaluate
from sodgp.system.container import Record

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(240, 1))
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.standard_t(3, size=240)
TRAIN, APART, TEST = slice(0, 60), slice(60, 160), slice(160, 240)
SMALL = {"n_layers": 1, "subset_size": 12, "max_iter": 30, "n_predict_samples": 6, "random_state": 0}


def fitted(**options):
    return DeepGPRegressor(**SMALL | options).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.parametrize("options", [{"n_layers": 2}, {"n_members": 2}, {"likelihood": "student_t"}])
def test_every_prediction_follows(options, tmp_path):
    model = fitted(**options)
    plain = model.predict_distribution(X[TEST])
    latent = model.predict_distribution(X[TEST], latent=True).mean
    assert model.calibrate(X[APART], Y[APART]) is model
    dist = model.predict_distribution(X[TEST])
    assert repr(dist).startswith("CalibratedDistribution(")
    np.testing.assert_allclose(model.predict(X[TEST]), dist.mean)
    np.testing.assert_allclose(model.predict(X[TEST], return_std=True), (dist.mean, dist.std))
    np.testing.assert_allclose(model.predict_interval(X[TEST], 0.9), dist.interval(0.9))
    np.testing.assert_array_equal(model.predict_distribution(X[TEST], latent=True).mean, latent)
    np.testing.assert_allclose(evaluate(model, X[TEST], Y[TEST]).crps[:, 0], dist.crps(Y[TEST]).reshape(-1))
    if options.get("likelihood") != "student_t":
        draws = model.sample_y(X[:5], n_samples=800)
        np.testing.assert_allclose(draws.std(1), model.predict(X[:5], return_std=True)[1], rtol=0.4)
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    np.testing.assert_array_equal(again.predict(X[TEST]), dist.mean)
    assert describe(again)["calibration"] == describe(model)["calibration"]
    assert describe(model)["calibration"]["rows"] == 100
    with pytest.raises(InputError, match="calibrate"):
        model.predict(X[:3], return_cov=True)
    model.calibrate(None)
    assert not hasattr(model, "calibration_")
    np.testing.assert_array_equal(model.predict_distribution(X[TEST]).mean, plain.mean)


def test_a_fit_ends_it_and_another_call_begins_anew():
    model = fitted().calibrate(X[APART], Y[APART])
    once = model.calibration_.knots[0]
    np.testing.assert_array_equal(model.calibrate(X[APART], Y[APART]).calibration_.knots[0], once)
    assert not hasattr(model.fit(X[TRAIN], Y[TRAIN]), "calibration_")


def test_several_targets_and_a_transform():
    model = DeepGPRegressor(target_transform="log", **SMALL).fit(X[TRAIN], np.exp(np.stack([Y, -Y], 1))[TRAIN])
    model.calibrate(X[APART], np.exp(np.stack([Y, -Y], 1))[APART])
    low, _ = model.predict_interval(X[TEST], 0.99)
    assert low.shape == (80, 2)
    assert (low > 0).all()
    assert model.sample_y(X[:3], 2).shape == (3, 2, 2)
    assert list(describe(model)["calibration"]["coverage_90_before"]) == ["y0", "y1"]


@pytest.mark.parametrize("inference", ["sod", SoD(objective="bound"), "dsvi"])
def test_rows_that_it_was_trained_on_are_refused(inference):
    model = fitted(inference=inference)
    if inference == "dsvi":  # keeps no rows
        assert model.calibrate(X[TRAIN], Y[TRAIN]).calibration_.n_rows == 60
        return
    with pytest.raises(InputError, match="was trained on rows of X"):
        model.calibrate(X[TRAIN], Y[TRAIN])
    # The same inputs with other observations are new.
    model.calibrate(X[TRAIN], Y[TRAIN] + 0.1)


def test_what_does_not_fit_is_refused():
    model = fitted()
    with pytest.raises(InputError, match="at least 19"):
        model.calibrate(X[APART][:10], Y[APART][:10])
    with pytest.raises(InputError, match="must have 100 rows and 1 columns"):
        model.calibrate(X[APART], Y[TRAIN])
    with pytest.raises(InputError, match="needs the targets"):
        model.calibrate(X[APART])
    with pytest.raises(InputError, match="needs rows X"):
        model.calibrate(None, Y)
    counts = DeepGPRegressor(likelihood="poisson", **SMALL).fit(X[TRAIN], np.arange(60) % 4)
    with pytest.raises(ConfigurationError, match="of counts"):
        counts.calibrate(X[APART], np.ones(100))


def test_classes_get_a_temperature(tmp_path):
    labels = np.where(X[:, 0] + RNG.normal(size=240) > 0, "up", "down")
    model = DeepGPClassifier(**SMALL).fit(X[TRAIN], labels[TRAIN])
    before = model.predict_proba(X[TEST])
    model.calibrate(X[APART], labels[APART])
    after, power = model.predict_proba(X[TEST]), model.calibration_.power
    odds = [p[:, 1] / p[:, 0] for p in (before, after)]
    np.testing.assert_allclose(odds[0] ** power, odds[1])
    np.testing.assert_array_equal(model.predict_distribution(X[TEST]).mean, after)
    model.save(tmp_path / "m.sodgp")
    np.testing.assert_array_equal(DeepGPClassifier.load(tmp_path / "m.sodgp").predict_proba(X[TEST]), after)
    assert describe(model)["calibration"] == {"rows": 100, "power": power}
    with pytest.raises(InputError, match="was trained on rows"):
        model.calibrate(X[TRAIN], labels[TRAIN])
    with pytest.raises(InputError, match="none of the 2 classes"):
        model.calibrate(X[APART], np.full(100, "left"))


@pytest.mark.parametrize(
    "change",
    [
        [],
        {"rows": 0},
        {"coverage_90": [1.5]},
        {"coverage_90": [0.9, 0.9]},
        {"knots": [[[0.0, 1.0]]]},
        {"knots": [[[0.0, 1.0], [1.0, 0.0]]]},
        {"knots": [[[0.0, 1.0], [0.0, 1e9]]]},
        {"knots": [[[0.0], [0.0]]]},
        {"knots": [[list(range(30)), list(range(30))]]},
        {"power": 2.0},
    ],
)
def test_a_damaged_file_is_refused(change):
    record = to_record(fitted(max_iter=2).calibrate(X[APART], Y[APART]))
    entry = {**record.info["calibration"], **change} if isinstance(change, dict) else change
    with pytest.raises(ModelFileError, match="calibration"):
        from_record(DeepGPRegressor, Record({**record.info, "calibration": entry}, record.tensors))


def test_what_was_done_to_the_targets_is_said_in_words():
    model = DeepGPRegressor(target_transform="box_cox", **SMALL | {"max_iter": 2}).fit(X[TRAIN], np.exp(Y[TRAIN]))
    assert target_facts(describe(model))[0][1].startswith("box_cox, power of y")
    facts = dict(target_facts(describe(model.calibrate(X[APART], np.exp(Y[APART])))))
    assert facts["calibration"].startswith("on 100 rows; 90 % intervals of y held")
