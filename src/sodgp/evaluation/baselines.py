"""Simpler forecasts to hold a model against: a linear model, gradient boosting (scikit-learn's), and no inputs at all.

They get the numbers that a table became for the model. What predicts a number alone gets a spread from the errors of
rows that it was not fitted to: a Gaussian, or for counts a negative binomial.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from sodgp.estimator.base import DeepGPEstimator
from sodgp.estimator.describe import TASKS, target_names
from sodgp.evaluation.classes import ClassEvaluation
from sodgp.evaluation.scores import Evaluation, evaluation_of
from sodgp.predictive.classes import codes_of
from sodgp.predictive.counts import CountMixture
from sodgp.predictive.mixture import GaussianMixture
from sodgp.system.validation import FloatArray

__all__ = ["BASELINES", "NO_INPUTS", "Judged", "Task", "judge_baseline", "judge_baselines", "task_of"]

LINEAR, BOOSTING, NO_INPUTS = "linear", "boosting", "without inputs"
BASELINES: Final = (LINEAR, BOOSTING, NO_INPUTS)
# Rows for the errors of rows that were not fitted to, and folds of these.
_ERROR_ROWS, _ERROR_FOLDS = 5_000, 3
_LEAST_SPREAD = 1e-6

Make = Callable[[], Any]
_MAKERS: Mapping[str, Mapping[str, Make]] = {
    "regression": {
        LINEAR: lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))),
        BOOSTING: lambda: HistGradientBoostingRegressor(random_state=0),
    },
    "counts": {
        LINEAR: lambda: make_pipeline(StandardScaler(), PoissonRegressor(alpha=1e-2, max_iter=1000)),
        BOOSTING: lambda: HistGradientBoostingRegressor(loss="poisson", random_state=0),
    },
    "classification": {
        LINEAR: lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        BOOSTING: lambda: HistGradientBoostingClassifier(random_state=0),
    },
}


@dataclass(frozen=True)
class Task:
    """What is predicted.

    Attributes
    ----------
    kind : {"regression", "counts", "classification"}
    targets : tuple of str
    classes : ndarray of shape [K], optional
        All labels, of which training rows may lack some.
    """

    kind: str
    targets: tuple[str, ...]
    classes: NDArray[Any] | None = None


@dataclass(frozen=True)
class Judged:
    """Predictions of rows that were not trained on, and the seconds of the training."""

    evaluation: Evaluation | ClassEvaluation
    seconds: float


def judge_baseline(
    name: str,
    task: Task,
    X: FloatArray,
    y: NDArray[Any],
    X_new: FloatArray,
    y_new: NDArray[Any],
    weight: FloatArray | None = None,
    weight_new: FloatArray | None = None,
) -> Judged:
    """A baseline, fitted to rows X [N, D] with targets y, [N, P] or labels [N], and judged by others.

    Rows count by their weights in fits and scores, once without any.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> found = judge_baseline("linear", Task("regression", ("y",)), X[::2], 3 * X[::2], X[1::2], 3 * X[1::2])
    >>> found.evaluation.scores(n_bootstrap=0)["rmse"].value < 0.01
    True
    """
    began = time.perf_counter()
    with warnings.catch_warnings(), threadpool_limits(1), np.errstate(over="ignore"):
        warnings.simplefilter("ignore", ConvergenceWarning)
        if task.kind == "classification":
            judged = _of_classes(name, task, X, y, X_new, y_new, weight, began)
            return replace(judged, evaluation=replace(judged.evaluation, weight=weight_new))
        columns = [_of_numbers(name, task.kind, X, column, X_new, weight) for column in y.reshape(len(y), -1).T]
    seconds = time.perf_counter() - began
    mean, spread = (np.stack(values, axis=-1) for values in zip(*columns, strict=True))
    y = y.reshape(len(y), -1)
    centre = y.mean(0) if weight is None else np.average(y, 0, weight)
    std = y.std(0) if weight is None else np.sqrt(np.average((y - centre) ** 2, 0, weight))
    base = centre, np.where(std > 0, std, 1.0)
    if task.kind == "counts":
        dist: Any = CountMixture([0.0], mean[None], spread)
    else:
        dist = GaussianMixture(mean[None], np.broadcast_to(spread**2, mean.shape)[None])
    truth = y_new.reshape(len(y_new), -1)
    found = evaluation_of(dist, truth, task.targets, *base, is_count=task.kind == "counts")
    return Judged(replace(found, weight=weight_new), seconds)


def task_of(model: DeepGPEstimator, targets: Sequence[str] | None = None) -> Task:
    """What a fitted model predicts."""
    names = target_names(model) if targets is None else targets
    return Task(TASKS[model.likelihood_.targets], tuple(names), model.fitted_.columns.classes)


def judge_baselines(
    task: Task,
    X: FloatArray,
    y: NDArray[Any],
    X_new: FloatArray,
    y_new: NDArray[Any],
    weight: FloatArray | None = None,
    weight_new: FloatArray | None = None,
) -> dict[str, Evaluation | ClassEvaluation]:
    """Predictions of all baselines, by their names."""
    rows = X, y, X_new, y_new, weight, weight_new
    return {name: judge_baseline(name, task, *rows).evaluation for name in BASELINES}


def _weighted(model: Any, weight: FloatArray | None) -> dict[str, FloatArray]:
    """Arguments of `fit` by which rows count."""
    if weight is None:
        return {}
    return {f"{model.steps[-1][0]}__sample_weight" if hasattr(model, "steps") else "sample_weight": weight}


def _of_numbers(
    name: str, kind: str, X: FloatArray, y: FloatArray, X_new: FloatArray, weight: FloatArray | None
) -> tuple[FloatArray, float]:
    """Means of new rows [N], and the standard deviation of a number, or the dispersion of a count."""
    w = weight
    if name == NO_INPUTS:
        level = y.mean() if weight is None else np.average(y, weights=weight)
        mean = np.full(len(X_new), level)
        errors, fitted = y - level, np.full(len(y), level)
    else:
        make = _MAKERS[kind][name]
        mean = np.asarray(make().fit(X, y, **_weighted(make(), weight)).predict(X_new), dtype=np.float64)
        rows = np.random.default_rng(0).permutation(len(y))[:_ERROR_ROWS]
        folds = KFold(min(_ERROR_FOLDS, len(rows)), shuffle=True, random_state=0)
        w = None if weight is None else weight[rows]
        fitted = cross_val_predict(make(), X[rows], y[rows], cv=folds, params=_weighted(make(), w) or None)
        errors = y[rows] - fitted
    if kind != "counts":
        least = _LEAST_SPREAD * (float(y.std()) or 1.0)
        return mean, max(float(np.sqrt(np.average(errors**2, weights=w))), least)
    # Where the inputs are far off, an exponential can be anything.
    most = 10.0 * (float(y.max()) + 1.0)
    mean, fitted = np.clip(mean, 1e-9, most), np.clip(fitted, 1e-9, most)
    return mean, max(float(np.average(errors**2 - fitted, weights=w) / np.average(fitted**2, weights=w)), _LEAST_SPREAD)


def _of_classes(
    name: str,
    task: Task,
    X: FloatArray,
    y: NDArray[Any],
    X_new: FloatArray,
    y_new: NDArray[Any],
    weight: FloatArray | None,
    began: float,
) -> Judged:
    assert task.classes is not None
    codes = codes_of(y, task.classes)
    total = len(codes) if weight is None else weight.sum()
    base = np.bincount(codes, weight, minlength=len(task.classes)) / total
    probability = np.tile(base, (len(X_new), 1))
    if name != NO_INPUTS:
        # By places: labels of any type are then alike.
        model = _MAKERS[task.kind][name]()
        fitted = model.fit(X, codes, **_weighted(model, weight))
        probability = np.zeros_like(probability)
        probability[:, fitted.classes_] = fitted.predict_proba(X_new)
    found = ClassEvaluation(task.targets, task.classes, codes_of(y_new, task.classes), probability, base)
    return Judged(found, time.perf_counter() - began)
