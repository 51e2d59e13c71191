"""What residuals and hidden layers say about the choice of model: warnings with the option to try."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.stats import spearmanr

from sodgp.estimator.columns import EncodedRows
from sodgp.estimator.describe import feature_names
from sodgp.evaluation.scores import Evaluation
from sodgp.plots.hidden import hidden_draws
from sodgp.report.findings import FEW_ROWS, Finding
from sodgp.report.tables import short

if TYPE_CHECKING:
    from sodgp.report.content import Report
    from sodgp.system.validation import FloatArray

# A rank correlation that is larger, and that chance has once in a hundred looks, is worth a warning.
_STRONG, _SURE = 0.2, 0.01
_MOST_COLUMNS, _MOST_VALUES = 8, 20_000
# Share of a hidden layer's variance that no plane explains: below, the layer is straight.
_STRAIGHT = 0.01
_DEPTH_ROWS, _DRAWS = 200, 10
# Larger whole numbers are hardly counts.
_LARGEST_COUNT = 10_000


@dataclass(frozen=True)
class Spread:
    """How the sizes of residuals go with something: rank correlation, and whether chance explains it."""

    name: str
    values: FloatArray
    correlation: float
    is_clear: bool


def spreads(report: Report, target: int) -> list[Spread]:
    """Sizes of the residuals of a target against the predicted mean, and against the inputs that matter most."""
    found = cast(Evaluation, report.evaluation)
    size = np.abs(found.z[:, target])
    order = np.argsort(-report.importance.mean[:, target], kind="stable")[:_MOST_COLUMNS]
    columns = [("the predicted mean", found.mean[:, target])]
    names, groups = feature_names(report.model), report.groups
    for column in order:
        first = int(np.flatnonzero(groups == column)[0])
        columns.append((names[first], report.X[:, first]))
    varied = [(name, values) for name, values in columns if np.ptp(values) > 0]
    if len(size) < FEW_ROWS or np.ptp(size) == 0:
        return []
    result = []
    for name, values in varied:
        test = spearmanr(values[:_MOST_VALUES], size[:_MOST_VALUES])
        is_clear = abs(test.statistic) > _STRONG and test.pvalue < _SURE / len(varied)
        result.append(Spread(name, values, float(test.statistic), bool(is_clear)))
    return result


def changing_noise(report: Report) -> Iterator[Finding]:
    """Residuals whose size changes with an input or with the mean, and what models that."""
    found = cast(Evaluation, report.evaluation)
    for target, name in enumerate(found.targets):
        clear = [each for each in spreads(report, target) if each.is_clear]
        if not clear:
            continue
        worst = max(clear, key=lambda each: abs(each.correlation))
        way = "grows with" if worst.correlation > 0 else "falls with"
        yield Finding(
            "warn",
            f"{name}: the spread of the residuals {way} {short(worst.name)} (rank correlation"
            f" {worst.correlation:+.2f}), which the model does not know.",
            _remedy(report, target, clear[0].name == "the predicted mean" and clear[0].correlation > 0),
        )


def _remedy(report: Report, target: int, grows_with_mean: bool) -> str:
    """The option that fits."""
    y = cast(Evaluation, report.evaluation).y[:, target]
    model = report.model
    is_whole = bool((y == np.round(y)).all() and y.min() >= 0 and len(np.unique(y)) > 2 and y.max() < _LARGEST_COUNT)
    if not model.likelihood_.is_plain:
        return "Look at the picture of the spread; another likelihood or more inputs may explain it."
    if grows_with_mean and is_whole:
        return "The target looks like counts: likelihood='negative_binomial' (sodgp fit --task counts)."
    if grows_with_mean and y.min() > 0 and model.fitted_.transform is None:
        return "The target is positive: try target_transform='log', else likelihood='heteroscedastic'."
    return "Try likelihood='heteroscedastic', noise that depends on the inputs."


def straight_layers(report: Report) -> Iterator[Finding]:
    """Hidden layers that only turn and stretch the inputs: the model is one layer in disguise."""
    model = report.model
    hidden = len(model.model_.layers) - 1
    rows = report.X[:: max(1, len(report.X) // _DEPTH_ROWS)][:_DEPTH_ROWS]
    if not hidden or len(rows) < 2 * rows.shape[1] + 10:
        return
    bends = [bend_of(report, layer, rows) for layer in range(1, hidden + 1)]
    if max(bends) < _STRAIGHT:
        which = "The hidden layer is" if hidden == 1 else f"All {hidden} hidden layers are"
        yield Finding(
            "warn",
            f"{which} straight (a plane explains {100 * (1 - max(bends)):.1f} % of the outputs): depth does nothing"
            " here.",
            "Fit n_layers=1, which takes less time; sodgp compare shows both.",
        )


def bend_of(report: Report, layer: int, rows: FloatArray) -> float:
    """Share of the variance of a hidden layer's draws over rows that no plane over the inputs explains."""
    draws = hidden_draws(report.model, EncodedRows(rows), layer, _DRAWS)
    centred = draws - draws.mean(1, keepdims=True)
    X = rows - rows.mean(0)
    X = X / np.where(X.std(0) > 0, X.std(0), 1.0)
    outputs = np.moveaxis(centred, 1, 0).reshape(len(rows), -1)
    left = outputs - X @ np.linalg.lstsq(X, outputs, rcond=None)[0]
    total = float((outputs**2).sum())
    return float((left**2).sum()) / total if total > 0 else 0.0
