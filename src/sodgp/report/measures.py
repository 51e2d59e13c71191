"""Measures of data and model: columns, importance, rows outside the training data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sodgp.estimator.base import DeepGPEstimator
from sodgp.estimator.columns import EncodedRows, rows_of
from sodgp.estimator.describe import feature_names, input_groups
from sodgp.evaluation.classes import ClassEvaluation
from sodgp.evaluation.rows import held_inputs, take
from sodgp.evaluation.scores import Evaluation
from sodgp.plots.inputs import subset_inputs
from sodgp.system.validation import FloatArray
from sodgp.tables.frames import DATE, TEXT, Cells, date_text

# Of a model, rows and targets [N, P], or places of labels [N] among classes: one loss for each target, [P].
Losses: TypeAlias = Callable[[Any, EncodedRows, NDArray[Any], NDArray[Any] | None], FloatArray]

_REPEATS = 3
# Standard deviations beyond the range of training that are not yet outside.
_MARGIN = 0.1
# The numbers of a column that has none.
_NOTHING = (np.nan, np.nan, np.nan, np.nan, np.nan)
# Rows that a permutation importance predicts at most.
_IMPORTANCE_ROWS = 20_000


@dataclass(frozen=True)
class Column:
    """One column of the evaluated rows; its `role` is ``"input"`` or ``"target"``.

    `distinct` counts different values, `whole` says whether all are whole numbers, and `shift` is the mean minus that
    of the training rows, in their standard deviations (of a category for the level that moved most). `shown` are
    smallest, middle and largest cell as text, where these are no numbers: of a category only its most frequent level.
    """

    name: str
    role: str
    low: float
    median: float
    high: float
    mean: float
    std: float
    distinct: int
    whole: bool
    shift: float
    shown: tuple[str, str, str] | None = None


@dataclass(frozen=True)
class Importance:
    """Rise of the loss when a column is shuffled: mean and std over the repeats, [D, P]."""

    mean: FloatArray
    std: FloatArray


def outside_training(model: DeepGPEstimator, X: FloatArray) -> NDArray[np.bool_]:
    """Rows, [N], in which an input lies beyond the range of the training rows by a tenth of a standard deviation.

    A constant column may not change at all. Of a model file without ranges they are those of the rows that it holds (or
    of the inducing inputs), and the margin is a whole standard deviation.
    """
    seen, share = model.fitted_.x_seen, _MARGIN
    if model.fitted_.x_range is not None:
        low, high = model.fitted_.x_range
    else:
        held, share = held_inputs(model), 1.0
        anchors = held if len(held) else subset_inputs(model)
        low, high = anchors.min(0), anchors.max(0)
    margin = np.where(seen.var_ > 0, share * seen.scale_, 0.0) + 1e-9 * (1.0 + np.abs(seen.mean_))
    return np.asarray(((low - margin > X) | (high + margin < X)).any(1))


def columns_of(
    model: DeepGPEstimator, rows: FloatArray, found: Evaluation | ClassEvaluation, cells: Sequence[Cells] = ()
) -> list[Column]:
    """Inputs and targets of the evaluated rows; `cells` are those of a table."""
    x = model.fitted_.x_seen
    shifts = (rows.mean(0) - x.mean_) / x.scale_
    of_targets = _targets(model, found)
    if model.fitted_.columns.encoder is None:
        inputs = zip(feature_names(model), rows.T, shifts, strict=True)
        return [*(_column(name, "input", values, float(shift)) for name, values, shift in inputs), *of_targets]
    groups, columns = input_groups(model), []
    for number, each in enumerate(cells):
        place = np.flatnonzero(groups == number)
        moved = float(shifts[place[np.argmax(np.abs(shifts[place]))]])
        if each.kind == TEXT:
            columns.append(_of_texts(each, moved))
        else:
            known = each.values[~each.missing]
            column = _column(each.name, "input", known if len(known) else np.zeros(1), float(shifts[place[0]]))
            ends = date_text(column.low), date_text(column.median), date_text(column.high)
            columns.append(replace(column, shown=ends, mean=np.nan, std=np.nan) if each.kind == DATE else column)
    return [*columns, *of_targets]


def _targets(model: DeepGPEstimator, found: Evaluation | ClassEvaluation) -> list[Column]:
    if isinstance(found, ClassEvaluation):
        rows = np.bincount(found.y, minlength=len(found.classes))
        most = str(found.classes.tolist()[int(rows.argmax())])
        count = int((rows > 0).sum())
        return [Column(found.targets[0], "target", *_NOTHING, count, whole=False, shift=np.nan, shown=("", most, ""))]
    y = model.fitted_.y_seen
    targets = zip(found.targets, found.y.T, (found.y.mean(0) - y.mean_) / y.scale_, strict=True)
    return [_column(name, "target", values, float(shift)) for name, values, shift in targets]


def _column(name: str, role: str, v: FloatArray, shift: float) -> Column:
    numbers = (float(v.min()), float(np.median(v)), float(v.max()), float(v.mean()), float(v.std()))
    whole = bool((v == np.round(v)).all())
    return Column(name, role, *numbers, distinct=len(np.unique(v)), whole=whole, shift=shift)


def _of_texts(cells: Cells, shift: float) -> Column:
    often = Counter(text for text in cells.texts() if text is not None)
    (most, _), *_ = often.most_common(1) or [("", 0)]
    return Column(cells.name, "input", *_NOTHING, distinct=len(often), whole=False, shift=shift, shown=("", most, ""))


def importance_of(
    model: Any, X: Any, found: Evaluation | ClassEvaluation, losses: Losses, random_state: int
) -> Importance:
    """By shuffling one column at a time (scikit-learn's permutation importance)."""
    from sklearn.inspection import permutation_importance

    groups, y = input_groups(model), found.y
    classes = found.classes if isinstance(found, ClassEvaluation) else None
    places = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    budget = _IMPORTANCE_ROWS // (_REPEATS * len(places))
    count = min(len(y), int(np.clip(budget, 50, 400)))
    chosen = np.sort(np.random.default_rng(random_state).permutation(len(y))[:count])
    keys = [str(index) for index in range(len(found.targets))]

    rows = rows_of(model, take(X, chosen))

    # scikit-learn shuffles the numbers of the rows, one column of them for each column of the data.
    def errors(estimator: Any, order: NDArray[np.int64], y_part: NDArray[Any]) -> dict[str, float]:
        shuffled = np.empty_like(rows)
        for column, place in enumerate(places):
            shuffled[:, place] = rows[np.ix_(order[:, column], place)]
        return dict(zip(keys, -losses(estimator, EncodedRows(shuffled), y_part, classes), strict=True))

    result = permutation_importance(
        model,
        np.tile(np.arange(count)[:, None], len(places)),
        y[chosen],
        scoring=errors,
        n_repeats=_REPEATS,
        random_state=random_state,
    )
    moments = ("importances_mean", "importances_std")
    return Importance(*(np.stack([result[key][moment] for key in keys], axis=1) for moment in moments))
