"""What a report says, as data: evaluations, columns, importance, findings, without HTML and pictures."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import InputError
from sodgp.estimator.base import DeepGPEstimator
from sodgp.estimator.columns import in_parts, rows_of
from sodgp.estimator.describe import describe, input_groups
from sodgp.evaluation.baselines import judge_baselines, task_of
from sodgp.evaluation.classes import ClassEvaluation
from sodgp.evaluation.counts import Frequencies, frequencies_of_rows, steps_of
from sodgp.evaluation.cross_validation import targets_of
from sodgp.evaluation.rows import numbers_of_rows, shared_rows, table_rows, training_rows
from sodgp.evaluation.scores import Evaluation, Score, evaluate, weights_of
from sodgp.report.findings import Finding, find
from sodgp.report.kinds import Kind, Section, kind_of
from sodgp.report.measures import Column, Importance, columns_of, importance_of, outside_training
from sodgp.system.files import write_text_whole
from sodgp.system.validation import FloatArray
from sodgp.tables.frames import Cells


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
    numbers : ndarray of shape [N], optional
        Numbers of the evaluated rows in the table, where they are not 0 to N - 1.
    frequencies : Frequencies, optional
        Of counts: how often each was seen and expected.
    how : str
        How it was evaluated.
    further : tuple of Section
        Sections of others, behind those of the first target.
    baselines : dict of str to Evaluation or ClassEvaluation
        Simpler models, fitted to the same rows and judged by the same; empty where the training rows are not known.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X[::2], X[::2, 0])
    >>> report = held_out(model, X[1::2], X[1::2, 0], title="A line")
    >>> report.worst(count=3).shape, report.title
    ((3,), 'A line')
    """

    model: DeepGPEstimator
    X: FloatArray
    evaluation: Evaluation | ClassEvaluation
    importance: Importance
    outside: NDArray[np.bool_]
    title: str
    model_name: str
    data_name: str
    random_state: int
    overlap: tuple[int, int] = (0, 0)
    fold_steps: tuple[int, ...] = ()
    cells: tuple[Cells, ...] = ()
    numbers: NDArray[np.int64] | None = None
    frequencies: Frequencies | None = None
    how: str = "held-out rows"
    further: tuple[Section, ...] = ()
    baselines: Mapping[str, Evaluation | ClassEvaluation] = field(default_factory=dict)
    date: str = field(default_factory=lambda: datetime.date.today().isoformat())

    @cached_property
    def kind(self) -> Kind:
        """What is said of targets such as the model's."""
        return kind_of(self.model)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Numbers of the evaluated rows in their table, [N]."""
        return np.arange(len(self.evaluation)) if self.numbers is None else self.numbers

    @property
    def groups(self) -> NDArray[np.int64]:
        """For each of the model's inputs the place of its column, [D]."""
        return input_groups(self.model)

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
        log_prob = self.evaluation.log_prob.reshape(len(self.evaluation), -1)
        return np.argsort(log_prob[:, target], kind="stable")[:count]

    def html(self) -> str:
        """The page."""
        from sodgp.report.page import page

        return page(self)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page, whole or not at all; folders above are made."""
        write_text_whole(path, self.html())


def held_out(
    model: DeepGPEstimator,
    X: Any,
    y: Any,
    *,
    title: str = "",
    model_name: str = "",
    data_name: str = "",
    random_state: int = 0,
    targets: Sequence[str] | None = None,
    train: tuple[Any, ...] | None = None,
    sample_weight: Any = None,
) -> Report:
    """A report on rows that the model has not seen.

    Parameters
    ----------
    model, X, y, title, model_name, data_name, random_state, sample_weight
        As in `write_report`.
    targets : sequence of str, optional
        Names of the columns of y.
    train : (X, y) or (X, y, sample_weight), optional
        The training rows, for simpler models to compare with; without them those that the model keeps, if it keeps all.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X[::2], X[::2, 0])
    >>> report = held_out(model, X[1::2], X[1::2, 0])
    >>> len(report.evaluation), report.folds
    (20, 0)
    """
    refuse_others(model)
    X, cells = table_rows(model, X)
    found: Evaluation | ClassEvaluation = evaluate(model, X, y, targets=targets, sample_weight=sample_weight)
    rows = numbers_of_rows(X)
    importance = importance_of(model, X, found, kind_of(model).losses, random_state)
    head = (title or title_of(found), model_name, data_name, random_state)
    return Report(
        model,
        rows,
        found,
        importance,
        outside_training(model, rows),
        *head,
        overlap=shared_rows(model, rows),
        cells=cells,
        frequencies=frequencies(model, X, found),
        baselines=_baselines(model, train, rows, found),
    )


def _baselines(
    model: DeepGPEstimator, train: tuple[Any, ...] | None, rows: FloatArray, found: Evaluation | ClassEvaluation
) -> dict[str, Evaluation | ClassEvaluation]:
    """Simpler models of the training rows, where these are known, judged by the same rows."""
    y_new = found.classes[found.y] if isinstance(found, ClassEvaluation) else found.y
    if train is not None:
        X, y = rows_of(model, train[0]), targets_of(model, *train[:2])
        weight = weights_of(train[2], len(X)) if len(train) > 2 else None
    else:
        kept = training_rows(model)
        if kept is None:
            return {}
        X, y = kept
        of_rows = model.fitted_.models[0].weight_s
        weight = None if of_rows is None else of_rows[0, :, 0].double().cpu().numpy()
    return judge_baselines(task_of(model, found.targets), X, y, rows, y_new, weight, found.weight)


def frequencies(
    model: DeepGPEstimator, X: Any, found: Evaluation | ClassEvaluation, most: float | None = None
) -> Frequencies | None:
    """How often counts were seen and expected, up to beyond `most`; None of anything else."""
    if isinstance(found, ClassEvaluation) or not found.is_count:
        return None
    edges = steps_of(1.25 * (found.y.max() if most is None else most) + 5)
    return frequencies_of_rows(model, in_parts(model, X), found.y, edges)


def title_of(found: Evaluation | ClassEvaluation) -> str:
    """The heading of a page, where there is no other."""
    return f"Model of {', '.join(found.targets)}"


def refuse_others(model: Any) -> None:
    """InputError for what is none of the estimators."""
    if not isinstance(model, DeepGPEstimator):
        raise InputError(
            f"a report is about one DeepGPRegressor or DeepGPClassifier, not a {type(model).__name__}; take a member or"
            " a step."
        )
