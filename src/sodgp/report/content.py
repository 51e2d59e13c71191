"""What a report says, as data: evaluations, columns, importance, findings. No HTML and no pictures here."""

from __future__ import annotations

import copy
import datetime
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sodgp.errors import ConfigurationError, InputError
from sodgp.estimator.describe import describe, target_names
from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.estimator.several import copy_of, models_of
from sodgp.evaluation.scores import Evaluation, Score, evaluate, joined, observed
from sodgp.report.findings import Facts, Finding, find
from sodgp.report.measures import Column, Importance, columns_of, importance_of, outside_training, shared_rows, take
from sodgp.system.arrays import FloatArray
from sodgp.system.files import write_text_whole
from sodgp.system.interrupts import only_whole
from sodgp.training.callbacks import EarlyStopping


@dataclass(frozen=True)
class Report:
    """What is known of a model and its predictions.

    Attributes
    ----------
    model : DeepGPRegressor
    X : ndarray of shape [N, D]
        Evaluated rows, in the model's order of columns.
    evaluation : Evaluation
    scores : list of dict of str to Score
        One for each target.
    columns : list of Column
    importance : Importance
    outside : ndarray of shape [N]
        Rows that lie outside what the model was trained on.
    findings : list of Finding
    folds : int
        0 for held-out rows.
    fold_steps : tuple of int
        For how many steps each of them was trained.
    about : dict
        Of `sodgp.estimator.describe.describe`.
    title, model_name, data_name, date : str

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X[::2], X[::2, 0])
    >>> report = held_out(model, X[1::2], X[1::2, 0], title="A line")
    >>> report.worst(count=3).shape, report.title
    ((3,), 'A line')
    """

    model: DeepGPRegressor
    X: FloatArray
    evaluation: Evaluation
    scores: list[dict[str, Score]]
    columns: list[Column]
    importance: Importance
    outside: NDArray[np.bool_]
    findings: list[Finding]
    folds: int
    fold_steps: tuple[int, ...]
    about: dict[str, Any] = field(repr=False)
    title: str
    model_name: str
    data_name: str
    date: str

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
    model : DeepGPRegressor
        Fitted.
    X, y : array or data frame of shape [N, D] and [N] or [N, P]
    title, model_name, data_name : str
        For the head of the page.
    random_state : int
        Of bootstrap and shuffled columns.
    targets : sequence of str, optional
        Names of the columns of y.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X[::2], X[::2, 0])
    >>> report = held_out(model, X[1::2], X[1::2, 0])
    >>> len(report.evaluation), report.folds
    (20, 0)
    """
    _refuse_others(model)
    found = evaluate(model, X, y, targets=targets)
    rows = np.asarray(X, dtype=np.float64)
    names = list(found.targets)
    return _report(
        model,
        rows,
        found,
        importance=importance_of(model, X, found.y, random_state),
        outside=outside_training(model, rows),
        overlap=shared_rows(model, rows),
        folds=0,
        title=title or f"Model of {', '.join(names)}",
        model_name=model_name,
        data_name=data_name,
        random_state=random_state,
    )


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
    begin: Callable[[str], Any] | None = None,
) -> Report:
    """A report by cross-validation: models with the options of `model`, each evaluated on the fold it did not see.

    Parameters
    ----------
    model : DeepGPRegressor
        Its options are those of every fit; it is not changed.
    X, y : array or data frame of shape [N, D] and [N] or [N, P]
        Training rows.
    cv : int
        Folds.
    title, model_name, data_name : str
        For the head of the page.
    random_state : int
        Of the folds, of bootstrap and shuffled columns.
    targets : sequence of str, optional
        Names of the columns of y.
    begin : function (label) -> callback, optional
        Called before every fit; its answer is told about the fit's progress.

    Raises
    ------
    ConfigurationError
        `cv` is less than two, or more than the rows allow; or the model was fitted with `noise_variance`, which it does
        not keep for every row.
    InputError
        As `sodgp.evaluation.scores.observed`: y is not numbers, or of another number of rows than X.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X[::2], X[::2, 0])
    >>> cross_validated(model, X, X[:, 0], cv=2).folds
    2
    """
    _refuse_others(model)
    check_is_fitted(model)
    if model.model_.has_known_noise:
        raise ConfigurationError(
            "the model was fitted with noise_variance, which the folds would lack: leave cv out, and evaluate the model"
            " on rows held out."
        )
    truth = observed(model, X, y, by_name=targets is None)
    rows = np.asarray(X, dtype=np.float64)
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or not 2 <= cv <= len(rows) // 2:
        raise ConfigurationError(f"cv must be an integer from 2 to half of the {len(rows)} rows, not {cv!r}.")
    order = np.random.default_rng(random_state).permutation(len(rows))
    parts, importances, steps = [], [], []
    outside = np.zeros(len(rows), dtype=bool)
    for number, test in enumerate(np.array_split(order, cv), start=1):
        train = np.setdiff1d(order, test)
        # Of the callbacks only what decides when training ends.
        told = [copy.deepcopy(stopping) for stopping in model.callbacks or () if isinstance(stopping, EarlyStopping)]
        told += [] if begin is None else [begin(f"fold {number} of {cv}")]
        # What belongs to the one fit of the file: its checkpoints, and where a warm start would begin.
        # The folds have fewer rows, and are still the same model, trained on the same objective.
        same = {"predictive_weight": getattr(model._method, "predictive_weight", None)}
        same |= {"separate_kernels": model.model_.has_separate_kernels}
        same |= {"n_members": len(models_of(model))}
        member = copy_of(model, callbacks=told, checkpoint=None, warm_start=False, **same)
        with only_whole([member]):
            member.fit(take(X, train), truth[train, 0] if model._y_is_vector else truth[train])
        steps.append(int(member.n_iter_))
        parts.append(evaluate(member, take(X, test), truth[test], targets=targets or target_names(model)))
        outside[test] = outside_training(member, rows[test])
        importances.append(importance_of(member, take(X, test), truth[test], random_state))
    weights = np.array([len(part) for part in parts], dtype=np.float64)
    pooled = Importance(
        np.average([part.mean for part in importances], axis=0, weights=weights),
        np.std([part.mean for part in importances], axis=0),
    )
    found = joined(parts, order)
    return _report(
        model,
        rows,
        found,
        importance=pooled,
        outside=outside,
        overlap=(0, 0),
        folds=int(cv),
        fold_steps=steps,
        title=title or f"Model of {', '.join(found.targets)}",
        model_name=model_name,
        data_name=data_name,
        random_state=random_state,
    )


def _report(
    model: DeepGPRegressor,
    rows: FloatArray,
    found: Evaluation,
    *,
    importance: Importance,
    outside: NDArray[np.bool_],
    overlap: tuple[int, int],
    folds: int,
    fold_steps: Sequence[int] = (),
    title: str,
    model_name: str,
    data_name: str,
    random_state: int,
) -> Report:
    scores = [found.scores(target, random_state=random_state) for target in range(len(found.targets))]
    columns = columns_of(model, rows, found)
    about = describe(model)
    facts = Facts(model, about, found, scores, columns, outside, overlap, folds)
    return Report(
        model=model,
        X=rows,
        evaluation=found,
        scores=scores,
        columns=columns,
        importance=importance,
        outside=outside,
        findings=find(facts),
        folds=folds,
        fold_steps=tuple(fold_steps),
        about=about,
        title=title,
        model_name=model_name,
        data_name=data_name,
        date=datetime.date.today().isoformat(),
    )


def _refuse_others(model: Any) -> None:
    if not isinstance(model, DeepGPRegressor):
        raise InputError(
            f"a report is about one DeepGPRegressor, not a {type(model).__name__}; take a member or a step."
        )
