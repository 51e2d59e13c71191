"""Reports by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sodgp.estimator.base import DeepGPEstimator
from sodgp.estimator.columns import rows_of
from sodgp.estimator.describe import input_names, target_names
from sodgp.evaluation.baselines import Task, judge_baselines, task_of
from sodgp.evaluation.classes import ClassEvaluation
from sodgp.evaluation.counts import Frequencies
from sodgp.evaluation.cross_validation import Part, joined_parts, judged, trial_of
from sodgp.evaluation.rows import numbers_of_rows, table_rows
from sodgp.evaluation.scores import Evaluation
from sodgp.evaluation.splits import Splits
from sodgp.report.content import Report, frequencies, refuse_others, title_of
from sodgp.report.kinds import kind_of
from sodgp.report.measures import Importance, importance_of, outside_training
from sodgp.system.progress import ProgressBar


def cross_validated(
    model: DeepGPEstimator,
    X: Any,
    y: Any,
    cv: Splits,
    *,
    groups: Any = None,
    title: str = "",
    model_name: str = "",
    data_name: str = "",
    random_state: int = 0,
    targets: Sequence[str] | None = None,
    begin: Callable[[str], ProgressBar] | None = None,
    n_jobs: int | None = None,
    sample_weight: Any = None,
) -> Report:
    """A report by cross-validation: models with the options of `model`, each evaluated on the fold it has not seen.

    Parameters
    ----------
    model : DeepGPRegressor or DeepGPClassifier
        Its options are those of every fit; it is not changed.
    X, y : array or data frame of shape [N, D] and [N] or [N, P]
        Training rows.
    cv : int, splitter of scikit-learn, or list of (train, test) rows
        Folds, as in `sodgp.evaluation.splits.folds_of`; rows that no fold tests are left out.
    groups : array of shape [N], optional
        Rows of a group are all in one fold.
    title, model_name, data_name, random_state, targets, sample_weight
        As in `held_out`; the weights count in fits and scores.
    begin : function (label) -> ProgressBar, optional
        Called for every fit, for the bar that shows its progress.
    n_jobs : int or None
        Processes for the fits, as in joblib; the results are the same.

    Raises
    ------
    WorkerError
        A process died.
    ConfigurationError
        The folds make no sense; or the model was fitted with `noise_variance`, which it does not keep.
    InputError
        y does not hold targets of the model, or has another number of rows than X.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X[::2], X[::2, 0])
    >>> cross_validated(model, X, X[:, 0], cv=2).folds
    2
    """
    refuse_others(model)
    by_name = targets is None
    trial = trial_of(
        model, X, y, cv, groups=groups, random_state=random_state, by_name=by_name, sample_weight=sample_weight
    )
    given, cells = table_rows(model, X)
    order = trial.folds.rows
    chosen = np.sort(order)
    names, classes = targets or target_names(model), model.fitted_.columns.classes
    most = None if classes is not None else float(trial.y[order].max())
    judge = _Judge(names, classes, most, random_state)
    found, steps = [], []
    # The numbers of a table are those of each fold's own encoder.
    for fit, fold in trial.run(judge, begin=begin, n_jobs=n_jobs):
        steps.append(fit.steps)
        found.append(fold)
    weights = np.array([len(fold.evaluation) for fold in found], dtype=np.float64)
    means = [_aligned(fold, input_names(model)).mean for fold in found]
    pooled = Importance(np.average(means, axis=0, weights=weights), np.std(means, axis=0))
    evaluation = joined_parts([fold.evaluation for fold in found], order)
    outside = np.concatenate([fold.outside for fold in found])[np.argsort(order)]
    counts = [fold.frequencies for fold in found if fold.frequencies is not None]
    is_all = len(chosen) == len(trial.y)
    return Report(
        model,
        numbers_of_rows(given)[chosen],
        evaluation,
        pooled,
        outside,
        title or title_of(evaluation),
        model_name,
        data_name,
        random_state,
        fold_steps=tuple(steps),
        cells=cells if is_all else tuple(each.at(chosen) for each in cells),
        numbers=None if is_all else chosen,
        frequencies=sum(counts[1:], counts[0]) if counts else None,
        how=trial.folds.words,
        baselines={name: joined_parts([fold.baselines[name] for fold in found], order) for name in found[0].baselines},
    )


class _Fold(NamedTuple):
    evaluation: Evaluation | ClassEvaluation
    outside: NDArray[np.bool_]
    importance: Importance
    inputs: list[str]
    frequencies: Frequencies | None
    baselines: dict[str, Evaluation | ClassEvaluation]


@dataclass(frozen=True)
class _Judge:
    """What a report needs to know of a fold."""

    targets: Sequence[str]
    classes: NDArray[Any] | None
    most: float | None
    random_state: int

    def __call__(self, member: DeepGPEstimator, train: Part, test: Part) -> _Fold:
        X, _ = table_rows(member, test.X)
        found = judged(member, X, test.y, self.targets, self.classes, test.weight)
        return _Fold(
            evaluation=found,
            outside=outside_training(member, numbers_of_rows(X)),
            importance=importance_of(member, X, found, kind_of(member).losses, self.random_state),
            inputs=input_names(member),
            frequencies=frequencies(member, X, found, self.most),
            baselines=judge_baselines(
                Task(task_of(member).kind, tuple(self.targets), self.classes),
                rows_of(member, train.X),
                train.y,
                numbers_of_rows(X),
                test.y,
                train.weight,
                test.weight,
            ),
        )


def _aligned(fold: _Fold, inputs: list[str]) -> Importance:
    """The importance of these inputs: a column that a fold has left out, such as a constant one, has none."""
    if fold.inputs == inputs:
        return fold.importance
    places = {name: place for place, name in enumerate(fold.inputs)}
    nothing = np.zeros(fold.importance.mean.shape[1])
    mean, std = (
        np.stack([values[places[name]] if name in places else nothing for name in inputs])
        for values in (fold.importance.mean, fold.importance.std)
    )
    return Importance(mean, std)
