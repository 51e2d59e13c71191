"""Models held against simpler ones by the same cross-validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import InputError
from sodgp.estimator.base import DeepGPEstimator
from sodgp.estimator.columns import encoder_for
from sodgp.estimator.describe import TASKS
from sodgp.estimator.options.fields import checked_jobs, likelihood_of
from sodgp.estimator.options.nested import copy_of
from sodgp.estimator.prepare import target_names_in
from sodgp.estimator.targets import checked_labels
from sodgp.evaluation.baselines import BASELINES, Judged, Task, judge_baseline
from sodgp.evaluation.cross_validation import joined_parts, judged
from sodgp.evaluation.format import COMPARED
from sodgp.evaluation.rows import check_rows, take
from sodgp.evaluation.splits import Splits, folds_of
from sodgp.system.jobs import in_jobs, job_count
from sodgp.system.running import only_whole
from sodgp.system.validation import FloatArray, to_array

__all__ = ["Comparison", "compare"]

ONE_LAYER, DEFAULT = "one layer", "default"


@dataclass(frozen=True)
class Comparison:
    """Contestants by name, each with its predictions of the same rows, and the seconds of all its fits.

    Attributes
    ----------
    task : Task
    contestants : dict of str to Judged
    how : str
        The cross-validation in words.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> found = compare(DeepGPRegressor(max_iter=5, random_state=0), X, X[:, 0], cv=2)
    >>> list(found.contestants)
    ['one layer', 'default', 'linear', 'boosting', 'without inputs']
    """

    task: Task
    contestants: dict[str, Judged]
    how: str

    @property
    def scores(self) -> tuple[str, ...]:
        """Names of the scores to compare, the main one first."""
        return COMPARED[self.task.kind]


def compare(
    estimator: DeepGPEstimator,
    X: Any,
    y: Any,
    *,
    cv: Splits = 5,
    groups: Any = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    targets: Sequence[str] | None = None,
    begin: Callable[[str], Any] | None = None,
) -> Comparison:
    """Hold an estimator, and the same with one layer, against linear models, boosting and no inputs.

    Parameters
    ----------
    estimator : DeepGPRegressor or DeepGPClassifier
        Not fitted; its options are those of every fit.
    X, y : array or data frame of shape [N, D] and [N] or [N, P]
    cv, groups, random_state
        As in `sodgp.evaluation.splits.folds_of`; the folds are the same for all.
    n_jobs : int or None
        Processes for the fits, as in joblib.
    targets : sequence of str, optional
        Names of the columns of y.
    begin : function (label) of the contestant and fold that is next, optional

    Raises
    ------
    ConfigurationError, InputError
        Folds, options or data that cannot be used.
    """
    is_classes = "classes" in estimator.takes
    likelihood = likelihood_of(estimator.likelihood)
    kind = "classification" if is_classes or likelihood is None else TASKS[likelihood.targets]
    truth: NDArray[Any] = checked_labels(y) if is_classes else _columns(y)
    check_rows(X, truth)
    classes = np.unique(truth) if is_classes else None
    task = Task(kind, _names(y, truth, targets), classes)
    folds = folds_of(cv, truth, is_classes=is_classes, groups=groups, random_state=random_state)
    models = {ONE_LAYER: copy_of(estimator, n_layers=1), DEFAULT: estimator}
    if estimator.n_layers == 1:
        del models[ONE_LAYER]
    contestants: list[str] = [*models, *BASELINES]
    jobs = min(job_count(checked_jobs(n_jobs)), len(contestants) * len(folds.splits))

    def tasks() -> Iterator[tuple[Any, ...]]:
        for name in contestants:
            for number, (train, test) in enumerate(folds.splits, start=1):
                if begin is not None:
                    begin(f"{name}, fold {number} of {len(folds.splits)}")
                model = models.get(name)
                who = name if model is None else copy_of(model, verbose=False, **({"n_jobs": 1} if jobs > 1 else {}))
                parts = take(X, train), truth[train], take(X, test), truth[test]
                yield who, task, estimator.columns, *parts

    results, found = list(in_jobs(_judged, tasks(), jobs)), {}
    for place, name in enumerate(contestants):
        own = results[place * len(folds.splits) : (place + 1) * len(folds.splits)]
        joined = joined_parts([each.evaluation for each in own], folds.rows)
        found[name] = Judged(joined, sum(each.seconds for each in own))
    return Comparison(task, found, folds.words)


def _judged(
    who: str | DeepGPEstimator,
    task: Task,
    columns: Any,
    X: Any,
    y: NDArray[Any],
    X_new: Any,
    y_new: NDArray[Any],
) -> Judged:
    """One contestant, fitted to the rows of a fold."""
    if isinstance(who, str):
        encoder = encoder_for(columns, X)
        rows, new = (_numbers(part) if encoder is None else encoder.transform(part) for part in (X, X_new))
        return judge_baseline(who, task, rows, y, new, y_new)
    began = time.perf_counter()
    member: Any = who
    with only_whole([member]):
        member.fit(X, y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y)
    seconds = time.perf_counter() - began
    return Judged(judged(member, X_new, y_new, task.targets, task.classes), seconds)


def _numbers(X: Any) -> FloatArray:
    return to_array(X, "X")


def _columns(y: Any) -> FloatArray:
    values = to_array(y, "y")
    if values.ndim not in (1, 2) or not np.isfinite(values).all():
        raise InputError("y must hold finite numbers, of the shape [N] or [N, P]. Drop rows without a target.")
    return values[:, None] if values.ndim == 1 else values


def _names(y: Any, truth: NDArray[Any], given: Sequence[str] | None) -> tuple[str, ...]:
    count = truth.shape[1] if truth.ndim == 2 else 1
    known = given or target_names_in(y)
    if known is not None:
        return tuple(map(str, known))
    return ("y",) if count == 1 else tuple(f"y{i}" for i in range(count))
