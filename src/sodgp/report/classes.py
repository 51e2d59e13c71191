"""Reports of classes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from sodgp import plots
from sodgp.estimator.columns import EncodedRows
from sodgp.evaluation.classes import ClassEvaluation
from sodgp.evaluation.format import CLASS_LABELS
from sodgp.predictive.classes import codes_of
from sodgp.report.figures import dependence_pictures, importance_picture, picture
from sodgp.report.findings import TOO_FEW_ROWS, Finding, listed
from sodgp.report.kinds import Kind, Section
from sodgp.report.simpler import simpler
from sodgp.report.tables import Table, short, worst_rows
from sodgp.system.validation import FloatArray

if TYPE_CHECKING:
    from sodgp.report.content import Report

_LEAST = 1e-12
# A class with fewer training rows is hardly known.
_FEW_OF_A_CLASS = 10
# Calibration errors below are of no account, whatever chance would do.
_SMALL_ERROR = 0.03


def _log_loss(model: Any, rows: EncodedRows, y: NDArray[np.int64], classes: NDArray[Any] | None) -> FloatArray:
    """Mean negative log probability of the labels, [1]."""
    known = model.classes_ if classes is None else classes
    p = np.zeros((len(y), len(known)))
    p[:, codes_of(model.classes_, known)] = model.predict_proba(rows)
    return np.array([-np.log(np.maximum(p[np.arange(len(y)), y], _LEAST)).mean()])


def _of(report: Report) -> ClassEvaluation:
    return cast(ClassEvaluation, report.evaluation)


def _sections(report: Report, target: int) -> list[Section]:
    found, name = _of(report), report.evaluation.targets[target]
    reliability = picture(
        "reliability-0",
        f"Reliability of {name}: of rows with about the same largest probability, the share that is right. Below the"
        " diagonal: overconfident; above it: underconfident.",
        partial(plots.plot_reliability, found),
    )
    many = len(found.classes) > 20
    confusion = picture(
        "confusion-0",
        f"Labels and predictions of {name}: "
        + (
            "shades are shares of a label's rows; classes in the order of the table below."
            if many
            else "rows of each label by predicted class."
        ),
        partial(plots.plot_confusion, found),
    )
    curves = [
        picture(
            "roc-0",
            "ROC: rows of a class that are found against other rows that are taken for it, over all limits, and the"
            " area below.",
            partial(plots.plot_roc, found),
        ),
        picture(
            "precision-recall-0",
            "Precision and recall: how many of the rows taken for a class are right, and the"
            " mean precision. Dotted: the share of the class.",
            partial(plots.plot_precision_recall, found),
        ),
    ]
    more = "" if len(found.classes) <= 5 else "Curves are those of the five classes with most rows."
    return [
        Section("Calibration and confusion", [reliability, confusion]),
        Section("Finding a class", curves if len(np.unique(found.y)) > 1 else [], note=more),
        Section("By class", table=_by_class(found)),
        Section("What matters", [importance_picture(report, target), *dependence_pictures(report, target)]),
    ]


def _by_class(found: ClassEvaluation) -> Table:
    """Rows, recall and precision of every class."""
    confusion = found.confusion
    rows, taken, right = confusion.sum(1), confusion.sum(0), confusion.diagonal()
    mean = found.probability.mean(0)
    lines = [
        [
            short(str(label), 40),
            f"{rows[k]:,}",
            _share(right[k], rows[k]),
            _share(right[k], taken[k]),
            f"{100 * rows[k] / len(found):.1f} %",
            f"{100 * mean[k]:.1f} %",
        ]
        for k, label in enumerate(found.classes.tolist())
    ]
    header = ["class", "rows", "found (recall)", "right when predicted (precision)", "share", "mean probability"]
    return Table(header, lines)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _worst(report: Report, target: int) -> Table:
    found = _of(report)
    names = [short(str(label), 20) for label in found.classes.tolist()]
    cells = []
    for row in report.worst(target):
        y, predicted = found.y[row], found.predicted[row]
        shown = [names[y], names[predicted], _percent(found.probability[row, y]), _percent(found.top[row])]
        cells.append(shown)
    return worst_rows(report, target, ["label", "predicted", "P of the label", "P of the predicted"], cells)


def _percent(p: float) -> str:
    return f"{100 * p:.1f} %" if p >= 5e-4 or p == 0 else "below 0.1 %"


def _sentence(report: Report, target: int) -> str:
    scores, found = report.scores[target], _of(report)
    accuracy, base = scores["accuracy"].value, scores["base_accuracy"].value
    others = "".join(f", {name} in {100 * v:.0f} %" for name, v in simpler(report, target, "accuracy").items())
    right = (
        f"The most probable class of {found.targets[0]} is right in {100 * accuracy:.0f} % of the rows (the most"
        f" frequent class in {100 * base:.0f} %{others})"
    )
    if scores["ece"].value <= max(scores["ece_chance"].value, _SMALL_ERROR):
        return f"{right}, and nothing speaks against its probabilities."
    gap = found.top.mean() - accuracy
    return f"{right}; its probabilities are {'too high' if gap > 0 else 'too low'} by {100 * abs(gap):.0f} points."


def _calibration(report: Report) -> Iterator[Finding]:
    scores, found = report.scores[0], _of(report)
    error, chance = scores["ece"].value, scores["ece_chance"].value
    if len(found) < TOO_FEW_ROWS or error <= max(chance, _SMALL_ERROR):
        return
    gap = float(found.top.mean() - scores["accuracy"].value)
    how = "overconfident" if gap > 0 else "underconfident"
    yield Finding(
        "bad" if error > 0.1 and error > 2 * chance else "warn",
        f"{found.targets[0]}: probabilities are off by {100 * error:.1f} points on average, where chance alone would"
        f" explain {100 * chance:.1f}; the model is {how}.",
        "Use several members (n_members=4), or calibrate the probabilities on rows kept apart."
        if gap > 0
        else "Train longer, or calibrate the probabilities on rows kept apart.",
    )


def _worth(report: Report) -> Iterator[Finding]:
    scores, found = report.scores[0], _of(report)
    if len(found) < TOO_FEW_ROWS:
        return
    loss, base = scores["log_loss"], scores["base_log_loss"]
    if loss.high >= base.value:
        yield Finding(
            "bad" if loss.value >= base.value else "warn",
            f"{found.targets[0]}: the probabilities are not clearly better than the shares of the classes in training"
            f" (log loss {loss.value:.3f} against {base.value:.3f}).",
            "Check that inputs and labels belong together; the inputs may say little about this target.",
        )


def _rare(report: Report) -> Iterator[Finding]:
    """Classes that are hardly known, or never predicted."""
    found = _of(report)
    seen = report.model.fitted_.columns.class_rows
    assert seen is not None
    names = found.classes.tolist()
    few = [str(names[k]) for k in np.flatnonzero(seen < _FEW_OF_A_CLASS)]
    if few:
        yield Finding(
            "warn",
            f"Fewer than {_FEW_OF_A_CLASS} training rows of {listed(few)}.",
            "Collect more rows of such classes, or pool them with others.",
        )
    never = np.flatnonzero((found.confusion.sum(0) == 0) & (found.confusion.sum(1) > 0))
    if len(never) and len(found) >= TOO_FEW_ROWS:
        rows = int(found.confusion.sum(1)[never].sum())
        yield Finding(
            "warn",
            f"Never the most probable class: {listed([str(names[k]) for k in never])}, of which there"
            f" {'is 1 row' if rows == 1 else f'are {rows:,} rows'}.",
            "For rare classes compare probabilities with a lower limit than the largest; see precision and recall.",
        )
    lost = int((found.probability[np.arange(len(found)), found.y] == 0).sum())
    if lost and report.folds:
        yield Finding(
            "warn",
            f"The folds of {lost:,} {'row' if lost == 1 else 'rows'} had no training row of that class, which so got no"
            " probability: log loss says nothing there.",
            "Use fewer folds, or pool rare classes.",
        )


CLASSES = Kind(
    labels=CLASS_LABELS,
    headlines=("accuracy", "log_loss", "roc_auc", "ece"),
    note=(
        "“Error of chance alone”: 95 % of perfectly calibrated models with these probabilities are below it. “Without"
        " inputs”: the shares of the classes in the training rows, what a model must beat."
    ),
    reading=(
        "Log loss: mean negative log probability of the label. Brier score: mean squared error of the probabilities."
        " Accuracy: share of rows whose most probable class is right. Area under the ROC: how often a row of a class"
        " has a higher probability of it than another row. Calibration error: how far the largest probability is from"
        " the share that is right, in ten bins."
    ),
    loss="log loss",
    losses=_log_loss,
    rules=(_calibration, _worth, _rare),
    sections=_sections,
    worst=_worst,
    sentence=_sentence,
)
