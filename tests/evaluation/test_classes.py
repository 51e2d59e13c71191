"""Scores of class probabilities, against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from sodgp import DeepGPClassifier, DeepGPRegressor, evaluation
from sodgp.errors import InputError
from sodgp.evaluation.classes import ClassEvaluation

rng = np.random.default_rng(0)


def forecast(n_classes, sharpness=1.0, rows=400):
    """Labels drawn from the probabilities where `sharpness` is 1; above it the forecast is overconfident."""
    logits = 1.5 * rng.normal(size=(rows, n_classes))
    p, truth = (np.exp(s * logits) / np.exp(s * logits).sum(1, keepdims=True) for s in (sharpness, 1.0))
    y = (rng.random((rows, 1)) > truth.cumsum(1)).sum(1)
    return ClassEvaluation(("y",), np.arange(n_classes), y, p, np.full(n_classes, 1 / n_classes))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_are_scikit_learns(n_classes):
    found = forecast(n_classes)
    scores = {name: score.value for name, score in found.scores(n_bootstrap=0).items()}
    y, p, predicted = found.y, found.probability, found.probability.argmax(1)
    assert scores["log_loss"] == pytest.approx(metrics.log_loss(y, p))
    assert scores["accuracy"] == metrics.accuracy_score(y, predicted)
    area = metrics.roc_auc_score(y, p[:, 1] if n_classes == 2 else p, multi_class="ovr")
    assert scores["roc_auc"] == pytest.approx(area)
    brier = np.square(p - np.eye(n_classes)[y]).sum(1).mean()
    assert scores["brier"] == pytest.approx(brier / 2 if n_classes == 2 else brier)
    if n_classes == 2:
        assert scores["brier"] == pytest.approx(metrics.brier_score_loss(y, p[:, 1]))
    assert scores["base_log_loss"] == pytest.approx(np.log(n_classes))
    np.testing.assert_array_equal(found.confusion, metrics.confusion_matrix(y, predicted))


def test_the_calibration_error_by_hand():
    p = np.array([[0.95, 0.05], [0.92, 0.08], [0.4, 0.6], [0.35, 0.65]])
    found = ClassEvaluation(("y",), np.arange(2), np.array([0, 1, 1, 1]), p, np.array([0.5, 0.5]))
    # Bins 0.9 to 1 (one of two right) and 0.6 to 0.7 (both right).
    expected = 0.5 * abs(0.5 - 0.935) + 0.5 * abs(1.0 - 0.625)
    assert found.scores(n_bootstrap=0)["ece"].value == pytest.approx(expected)
    confidence, accuracy, rows = found.reliability()
    assert rows[[6, 9]].tolist() == [2, 2]
    np.testing.assert_allclose(confidence[[6, 9]], [0.625, 0.935])
    np.testing.assert_allclose(accuracy[[6, 9]], [1.0, 0.5])
    assert np.isnan(accuracy[0])


def test_chance_explains_the_error_of_a_calibrated_model_alone():
    for sharpness, is_calibrated in ((1.0, True), (2.0, False)):
        scores = forecast(3, sharpness).scores(n_bootstrap=0)
        assert (scores["ece"].value <= scores["ece_chance"].value) == is_calibrated


def test_intervals_hold_the_score_of_many_rows():
    few, many = forecast(2, rows=300).scores(n_bootstrap=300), forecast(2, rows=50_000).scores(n_bootstrap=0)
    for name in ("log_loss", "brier", "accuracy", "roc_auc"):
        margin = few[name].high - few[name].low
        assert few[name].low - margin < many[name].value < few[name].high + margin
        assert few[name].low < few[name].value < few[name].high


def test_one_row_and_one_class():
    one = ClassEvaluation(("y",), np.arange(2), np.array([1]), np.array([[0.0, 1.0]]), np.array([0.5, 0.5]))
    scores = one.scores()
    assert np.isnan(scores["roc_auc"].value)
    assert np.isnan(scores["log_loss"].low)
    assert scores["log_loss"].value == 0.0
    wrong = ClassEvaluation(("y",), np.arange(2), np.array([0]), np.array([[0.0, 1.0]]), np.array([0.5, 0.5]))
    assert np.isfinite(wrong.scores()["log_loss"].value)
    with pytest.raises(InputError, match="one target"):
        one.scores(1)


def test_evaluate_takes_any_estimator():
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    model = DeepGPClassifier(n_layers=1, max_iter=20, random_state=0).fit(X, y)
    found = evaluation.evaluate(model, X, y, targets=["answer"])
    assert isinstance(found, ClassEvaluation)
    assert (found.targets, len(found)) == (("answer",), 40)
    np.testing.assert_array_equal(found.probability, model.predict_proba(X))
    np.testing.assert_allclose(found.base, [np.mean(y == "no"), np.mean(y == "yes")])
    with pytest.raises(InputError, match="'maybe' in row 0 is none of the 2 classes"):
        evaluation.evaluate(model, X[:1], ["maybe"])
    with pytest.raises(InputError, match="X has 2 rows, but y has 1"):
        evaluation.evaluate(model, X[:2], ["no"])
    with pytest.raises(InputError, match="at least one row"):
        evaluation.evaluate(model, X[:0], [])
    with pytest.raises(InputError, match="1 target"):
        evaluation.evaluate(model, X, y, targets=["a", "b"])
    with pytest.raises(InputError, match=r"shape \[N\]"):
        evaluation.evaluate(model, X, np.zeros((40, 2)))


def test_counts_have_a_randomised_pit_and_a_base_of_counts():
    X = rng.normal(size=(60, 1))
    y = rng.poisson(np.exp(1 + X[:, 0]))
    model = DeepGPRegressor(likelihood="poisson", n_layers=1, max_iter=60, random_state=0).fit(X, y)
    found = evaluation.evaluate(model, X, y)
    dist = model.predict_distribution(X)
    assert found.is_count
    np.testing.assert_allclose(found.pit[:, 0], dist.pit(y, random_state=0))
    np.testing.assert_allclose(found.log_prob[:, 0], dist.log_prob(y))
    scores = found.scores(n_bootstrap=0)
    assert scores["nlpp"].value < scores["base_nlpp"].value < 4.0
    assert evaluation.scores.joined([found, found]).is_count


def test_weights_of_rows_are_repeated_rows_in_scores():
    X, times = np.linspace(-1, 1, 40)[:, None], np.arange(40) % 4
    y = np.sin(9 * X[:, 0]) > 0
    model = DeepGPClassifier(n_layers=1, max_iter=5, random_state=0).fit(X, y)
    weighted = evaluation.evaluate(model, X, y, sample_weight=times).scores(n_bootstrap=0)
    repeated = evaluation.evaluate(model, X.repeat(times, 0), y.repeat(times)).scores(n_bootstrap=0)
    for name in ("log_loss", "brier", "accuracy", "roc_auc", "ece", "base_log_loss"):
        assert weighted[name].value == pytest.approx(repeated[name].value), name
