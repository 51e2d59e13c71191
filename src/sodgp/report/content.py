"""What a report says, as data: evaluations, columns, importance, findings, without HTML and pictures."""

from __future__ import annotations

import copy
import datetime
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sodgp.errors import ConfigurationError, InputError
from sodgp.estimator.columns import EncodedRows
from sodgp.estimator.describe import describe, input_names, target_names
from sodgp.estimator.options.fields import checked_callbacks, checked_jobs, method_of
from sodgp.estimator.options.nested import copy_of
from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.evaluation.scores import Evaluation, Score, evaluate, joined, observed
from sodgp.likelihoods.known_noise import KnownNoise
from sodgp.report.findings import Finding, find
from sodgp.report.measures import (
    Column,
    Importance,
    columns_of,
    importance_of,
    outside_training,
    shared_rows,
    table_rows,
    take,
)
from sodgp.system.files import write_text_whole
from sodgp.system.jobs import in_jobs, job_count
from sodgp.system.progress import Ended, ProgressBar
from sodgp.system.running import only_whole
from sodgp.system.validation import FloatArray
from sodgp.tables.frames import Cells
from sodgp.training.callbacks import EarlyStopping
from sodgp.training.history import Callback

_Part: TypeAlias = tuple[Any, FloatArray]


@dataclass(frozen=True)
class Report:
    """A model, its predictions for rows it has not seen, and what they show.

    Attributes
    ----------
    model, evaluation, importance, title, model_name, data_name, date
    X : ndarray of shape [N, D]
        Evaluated rows, in the model's order of columns; of a table the numbers that it became.
    outside : ndarray of shape [N]
        Whether a row lies outside the training data.
    random_state : int, of the bootstrap
    overlap : (int, int)
        Rows of the model's subset among the evaluated ones, and rows of the subset.
    fold_steps : tuple of int
        Training steps of every fold; empty for held-out rows.
    cells : tuple of Cells
        The inputs of a table as they came.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X[::2], X[::2, 0])
    >>> report = held_out(model, X[1::2], X[1::2, 0], title="A line")
    >>> report.worst(count=3).shape, report.title
    ((3,), 'A line')
    """

    model: DeepGPRegressor
    X: FloatArray
    evaluation: Evaluation
    importance: Importance
    outside: NDArray[np.bool_]
    title: str
    model_name: str
    data_name: str
    random_state: int
    overlap: tuple[int, int] = (0, 0)
    fold_steps: tuple[int, ...] = ()
    cells: tuple[Cells, ...] = ()
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())

    @property
    def folds(self) -> int:
        """Folds of the cross-validation; 0 for held-out rows."""
        return len(self.fold_steps)

    @cached_property
    def scores(self) -> list[dict[str, Score]]:
        """Scores with intervals, one dictionary for each target."""
        targets = range(len(self.evaluation.targets))
        return [self.evaluation.scores(target, random_state=self.random_state) for target in targets]

    @cached_property
    def columns(self) -> list[Column]:
        """Inputs and targets of the evaluated rows."""
        return columns_of(self.model, self.X, self.evaluation, self.cells)

    @cached_property
    def about(self) -> dict[str, Any]:
        """The model in numbers and text, of `sodgp.estimator.describe.describe`."""
        return describe(self.model)

    @cached_property
    def findings(self) -> list[Finding]:
        """Warnings, the serious ones first."""
        return find(self)

    def worst(self, target: int = 0, count: int = 10) -> NDArray[np.int64]:
        """Rows with the lowest log density, lowest first."""
        return np.argsort(self.evaluation.log_prob[:, target], kind="stable")[:count]

    def html(self) -> str:
        """The page."""
        from sodgp.report.page import page

        return page(self)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page, whole or not at all; folders above are made."""
        write_text_whole(path, self.html())


def held_out(
    model: DeepGPRegressor,
    X: Any,
    y: Any,
    *,
    title: str = "",
    model_name: str = "",
    data_name: str = "",
    random_state: int = 0,
    targets: Sequence[str] | None = None,
) -> Report:
    """A report on rows that the model has not seen.

    Parameters
    ----------
    model, X, y, title, model_name, data_name, random_state
        As in `write_report`.
    targets : sequence of str, optional
        Names of the columns of y.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X[::2], X[::2, 0])
    >>> report = held_out(model, X[1::2], X[1::2, 0])
    >>> len(report.evaluation), report.folds
    (20, 0)
    """
    _refuse_others(model)
    X, cells = table_rows(model, X)
    found = evaluate(model, X, y, targets=targets)
    rows = _numbers(X)
    importance, outside = importance_of(model, X, found.y, random_state), outside_training(model, rows)
    head = (title or _title(found), model_name, data_name, random_state)
    return Report(model, rows, found, importance, outside, *head, overlap=shared_rows(model, rows), cells=cells)


def _numbers(X: Any) -> FloatArray:
    return X.values if isinstance(X, EncodedRows) else np.asarray(X, dtype=np.float64)


def cross_validated(
    model: DeepGPRegressor,
    X: Any,
    y: Any,
    cv: int,
    *,
    title: str = "",
    model_name: str = "",
    data_name: str = "",
    random_state: int = 0,
    targets: Sequence[str] | None = None,
    begin: Callable[[str], ProgressBar] | None = None,
    n_jobs: int | None = None,
) -> Report:
    """A report by cross-validation: models with the options of `model`, each evaluated on the fold it has not seen.

    Parameters
    ----------
    model : DeepGPRegressor
        Its options are those of every fit; it is not changed.
    X, y : array or data frame of shape [N, D] and [N] or [N, P]
        Training rows.
    cv : int, number of folds
    title, model_name, data_name, random_state, targets
        As in `held_out`.
    begin : function (label) -> ProgressBar, optional
        Called for every fit, for the bar that shows its progress.
    n_jobs : int or None
        Processes for the fits, as in joblib; the results are the same.

    Raises
    ------
    WorkerError
        A process died.
    ConfigurationError
        `cv` is less than two, or more than the rows allow; or the model was fitted with `noise_variance`, which it does
        not keep.
    InputError
        y does not hold finite numbers, or has another number of rows than X.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X[::2], X[::2, 0])
    >>> cross_validated(model, X, X[:, 0], cv=2).folds
    2
    """
    _refuse_others(model)
    check_is_fitted(model)
    if isinstance(model.likelihood_, KnownNoise):
        raise ConfigurationError(
            "the model was fitted with noise_variance, which the folds would lack: leave cv out, and evaluate the model"
            " on rows held out."
        )
    truth = observed(model, X, y, by_name=targets is None)
    given, cells = table_rows(model, X)
    rows = _numbers(given)
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or not 2 <= cv <= len(rows) // 2:
        raise ConfigurationError(f"cv must be an integer from 2 to half of the {len(rows)} rows, not {cv!r}.")
    order = np.random.default_rng(random_state).permutation(len(rows))
    names, is_vector = targets or target_names(model), model.fitted_.columns.y_is_vector
    jobs, folds = min(job_count(checked_jobs(n_jobs)), cv), np.array_split(order, cv)

    def tasks() -> Iterator[tuple[DeepGPRegressor, _Part, _Part, Sequence[str], int]]:
        for number, test in enumerate(folds, start=1):
            train = np.setdiff1d(order, test)
            y_train = truth[train, 0] if is_vector else truth[train]
            bar = None if begin is None or jobs > 1 else begin(f"fold {number} of {cv}")
            member = _like(model, [] if bar is None else [bar])
            if begin is not None or jobs > 1:
                member.set_params(verbose=False)
            if jobs > 1:
                member.set_params(n_jobs=1)
            yield member, (take(X, train), y_train), (take(X, test), truth[test]), names, random_state

    parts, importances, steps = [], [], []
    outside = np.zeros(len(rows), dtype=bool)
    for number, (test, fold) in enumerate(zip(folds, in_jobs(_fold, tasks(), jobs), strict=True), start=1):
        steps.append(fold.steps)
        parts.append(fold.evaluation)
        outside[test] = fold.outside
        importances.append(_aligned(fold, input_names(model)))
        if begin is not None and jobs > 1:
            begin(f"fold {number} of {cv}")(
                Ended(fold.steps * model.n_members_, fold.steps, fold.bound, fold.seconds / jobs)
            )
    weights = np.array([len(part) for part in parts], dtype=np.float64)
    means = [part.mean for part in importances]
    pooled = Importance(np.average(means, axis=0, weights=weights), np.std(means, axis=0))
    found = joined(parts, order)
    head = (title or _title(found), model_name, data_name, random_state)
    return Report(model, rows, found, pooled, outside, *head, fold_steps=tuple(steps), cells=cells)


class _Fold(NamedTuple):
    steps: int
    bound: float
    seconds: float
    evaluation: Evaluation
    outside: NDArray[np.bool_]
    importance: Importance
    inputs: list[str]


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


def _like(model: DeepGPRegressor, callbacks: Sequence[Callback]) -> DeepGPRegressor:
    """An estimator with the options of a fitted one, and what was decided from its rows where they left it open."""
    asked = method_of(model.inference)
    left_open = [name for name, value in asked.get_params().items() if value is None]
    decided = {name: value for name, value in model.inference_.get_params().items() if name in left_open}
    # Only callbacks that decide when training ends. Checkpoint and warm start are about other rows.
    ending = [copy.deepcopy(c) for c in checked_callbacks(model.callbacks) if isinstance(c, EarlyStopping)]
    options: dict[str, Any] = {"callbacks": [*ending, *callbacks], "n_members": model.n_members_}
    if model.n_layers is None:
        options["n_layers"] = len(model.model_.layers)
    member = copy_of(model, checkpoint=None, warm_start=False, **options)
    return member.set_params(inference=asked.set_params(**decided))


def _fold(member: DeepGPRegressor, train: _Part, test: _Part, targets: Sequence[str], random_state: int) -> _Fold:
    """A fit to the rows of one part, judged by those of the other."""
    with only_whole([member]):
        member.fit(*train)
    X, _ = table_rows(member, test[0])
    y = test[1]
    return _Fold(
        steps=int(member.n_iter_),
        bound=member.history_.bound[-1],
        seconds=member.history_.seconds[-1],
        evaluation=evaluate(member, X, y, targets=targets),
        outside=outside_training(member, _numbers(X)),
        importance=importance_of(member, X, y, random_state),
        inputs=input_names(member),
    )


def _title(found: Evaluation) -> str:
    return f"Model of {', '.join(found.targets)}"


def _refuse_others(model: BaseEstimator) -> None:
    if not isinstance(model, DeepGPRegressor):
        raise InputError(
            f"a report is about one DeepGPRegressor, not a {type(model).__name__}; take a member or a step, and for"
            " classes sodgp.evaluation and the pictures plot_reliability and plot_confusion."
        )
