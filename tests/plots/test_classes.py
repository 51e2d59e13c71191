"""Pictures of class probabilities, and rootograms of counts."""

from __future__ import annotations

import numpy as np
import pytest
from plot_data import labels

from sodgp import plots
from sodgp.errors import InputError
from sodgp.evaluation.classes import ClassEvaluation
from sodgp.predictive.counts import CountMixture


def forecast(sharpness, n_classes=2):
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.normal(size=(2000, n_classes))
    p, truth = (np.exp(s * logits) / np.exp(s * logits).sum(1, keepdims=True) for s in (sharpness, 1.0))
    y = (rng.random((2000, 1)) > truth.cumsum(1)).sum(1)
    names = np.array([f"class {k}" for k in range(n_classes)])
    return ClassEvaluation(("y",), names, y, p, np.full(n_classes, 1 / n_classes))


@pytest.mark.parametrize(("sharpness", "wrong"), [(1.0, False), (2.5, True)])
def test_reliability_flags_what_chance_does_not_explain(ax, sharpness, wrong):
    evaluation = forecast(sharpness)
    plots.plot_reliability(evaluation, bins=5, ax=ax)
    assert ("beyond chance" in labels(ax)) == wrong
    confidence, accuracy, rows = evaluation.reliability(5)
    curve = ax.lines[-1]
    np.testing.assert_allclose(curve.get_xdata(), 100 * confidence[rows > 0])
    np.testing.assert_allclose(curve.get_ydata(), 100 * accuracy[rows > 0])


def test_confusion_shows_the_numbers(ax):
    evaluation = forecast(1.0, 3)
    plots.plot_confusion(evaluation, ax=ax)
    found = [int(text.get_text().replace(",", "")) for text in ax.texts]
    assert found == evaluation.confusion.ravel().tolist()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["class 0", "class 1", "class 2"]


def test_with_many_classes_only_shades_are_left(ax):
    plots.plot_confusion(forecast(1.0, 25), ax=ax)
    assert not ax.texts


@pytest.mark.parametrize("rate", [3.0, 500.0])
def test_a_rootogram_hangs_from_the_expected_frequencies(ax, rate):
    y = np.random.default_rng(0).poisson(rate, size=400)
    plots.plot_rootogram(CountMixture([0.0], np.full((1, 400, 1), rate)), y, ax=ax)
    tops = np.array([bar.get_y() + bar.get_height() for bar in ax.patches])
    np.testing.assert_allclose(tops, ax.lines[0].get_ydata())
    assert np.sum(tops**2) == pytest.approx(400, rel=0.01)
    assert sum(bar.get_height() ** 2 for bar in ax.patches) == pytest.approx(400)
    # With the right distribution hardly a bar ends beyond the lines of chance.
    ends = np.array([bar.get_y() for bar in ax.patches])
    assert np.mean(np.abs(ends) > 1) < 0.1


def test_a_rootogram_is_of_counts(ax):
    with pytest.raises(InputError, match="of a distribution of counts"):
        plots.plot_rootogram(forecast(1.0), [1.0], ax=ax)


def test_roc_and_precision_recall_are_those_of_scikit_learn(ax):
    from sklearn.metrics import average_precision_score

    evaluation = forecast(1.0)
    plots.plot_roc(evaluation, ax=ax)
    area = evaluation.scores(n_bootstrap=0)["roc_auc"].value
    assert labels(ax) == [f"class 1: {area:.3f}", "chance"]
    ax.clear()
    plots.plot_precision_recall(evaluation, ax=ax)
    assert labels(ax) == [f"class 1: {average_precision_score(evaluation.y == 1, evaluation.probability[:, 1]):.3f}"]


def test_of_many_classes_five_have_curves(ax):
    plots.plot_roc(forecast(1.0, 9), ax=ax)
    assert len(labels(ax)) == 6
