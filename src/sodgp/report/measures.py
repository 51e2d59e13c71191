"""Measures of data and model: columns, importance, rows outside the training data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sodgp.estimator.describe import feature_names, models_of
from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.evaluation.scores import Evaluation
from sodgp.plots.inputs import subset_inputs
from sodgp.system.validation import FloatArray

_REPEATS = 3
# Rows that a permutation importance predicts at most.
_IMPORTANCE_ROWS = 20_000


@dataclass(frozen=True)
class Column:
    """One column of the evaluated rows; its `role` is ``"input"`` or ``"target"``.

    `distinct` counts different values, `whole` says whether all are whole numbers, and `shift` is the mean minus that
    of the training rows, in their standard deviations.
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


@dataclass(frozen=True)
class Importance:
    """Rise of the RMSE when a column is shuffled: mean and std over the repeats, [D, P], in units of each target."""

    mean: FloatArray
    std: FloatArray


def outside_training(model: DeepGPRegressor, X: FloatArray) -> NDArray[np.bool_]:
    """Rows, [N], in which an input lies more than one standard deviation beyond the whole subset (or inducing inputs).

    The subset stands for the training rows, which a model file does not hold. A constant column may not change at all.
    """
    anchors = subset_inputs(model)
    seen = model.fitted_.x_seen
    margin = np.where(seen.var_ > 0, seen.scale_, 0.0) + 1e-9 * (1.0 + np.abs(seen.mean_))
    return np.asarray(((anchors.min(0) - margin > X) | (anchors.max(0) + margin < X)).any(1))


def columns_of(model: DeepGPRegressor, rows: FloatArray, found: Evaluation) -> list[Column]:
    """Inputs and targets of the evaluated rows."""
    columns = []
    x, y = model.fitted_.x_seen, model.fitted_.y_seen
    groups = (("input", feature_names(model), rows, x), ("target", found.targets, found.y, y))
    for role, names, values, scaler in groups:
        for index, name in enumerate(names):
            v = values[:, index]
            shift = float((v.mean() - scaler.mean_[index]) / scaler.scale_[index])
            numbers = (float(v.min()), float(np.median(v)), float(v.max()), float(v.mean()), float(v.std()))
            whole = bool((v == np.round(v)).all())
            columns.append(Column(name, role, *numbers, distinct=len(np.unique(v)), whole=whole, shift=shift))
    return columns


def importance_of(model: DeepGPRegressor, X: Any, y: FloatArray, random_state: int) -> Importance:
    """By shuffling one column at a time (scikit-learn's permutation importance)."""
    from sklearn.inspection import permutation_importance

    budget = _IMPORTANCE_ROWS // (_REPEATS * model.n_features_in_)
    count = min(len(y), int(np.clip(budget, 50, 400)))
    chosen = np.sort(np.random.default_rng(random_state).permutation(len(y))[:count])
    keys = [str(index) for index in range(y.shape[1])]

    def errors(estimator: DeepGPRegressor, X_part: Any, y_part: FloatArray) -> dict[str, float]:
        residual = estimator.predict(X_part).reshape(y_part.shape) - y_part
        return dict(zip(keys, -np.sqrt(np.mean(residual**2, axis=0)), strict=True))

    found = permutation_importance(
        model, take(X, chosen), y[chosen], scoring=errors, n_repeats=_REPEATS, random_state=random_state
    )
    moments = ("importances_mean", "importances_std")
    return Importance(*(np.stack([found[key][moment] for key in keys], axis=1) for moment in moments))


def shared_rows(model: DeepGPRegressor, rows: FloatArray) -> tuple[int, int]:
    """How many rows of the subset (of all members) are among these rows, and how many it has."""
    if not model.inference_.uses_subset:
        return 0, 0
    scaler = model.fitted_.x_scaler

    def keys(values: FloatArray) -> set[bytes]:
        return {np.round((row - scaler.mean_) / scaler.scale_, 6).tobytes() for row in values + 0.0}

    kept = keys(np.concatenate([subset_inputs(one) for one in models_of(model)]))
    return len(kept & keys(rows)), len(kept)


def take(X: Any, rows: NDArray[np.int64]) -> Any:
    """Rows of an array or a data frame, by number."""
    return X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X)[rows]
