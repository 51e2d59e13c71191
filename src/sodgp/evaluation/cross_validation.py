"""Cross-validation: fits with the options of a model, each judged by the rows that it has not seen."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sodgp.errors import ConfigurationError, InputError
from sodgp.estimator.base import DeepGPEstimator
from sodgp.estimator.options.fields import checked_callbacks, checked_jobs, method_of
from sodgp.estimator.options.nested import copy_of
from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.estimator.targets import checked_labels
from sodgp.evaluation.classes import ClassEvaluation, evaluate_classes, joined_classes
from sodgp.evaluation.rows import check_rows, take
from sodgp.evaluation.scores import Evaluation, evaluate, joined, observed, weights_of
from sodgp.evaluation.splits import Folds, Splits, folds_of
from sodgp.likelihoods.known_noise import KnownNoise
from sodgp.system.jobs import in_jobs, job_count
from sodgp.system.progress import Ended, ProgressBar
from sodgp.system.running import only_whole
from sodgp.system.validation import FloatArray
from sodgp.training.callbacks import EarlyStopping
from sodgp.training.history import Callback

__all__ = ["FoldFit", "Part", "Trial", "cross_validate", "joined_parts", "judged", "targets_of", "trial_of"]

R = TypeVar("R")


@dataclass(frozen=True)
class Part:
    """Rows, their targets and their weights, as `fit` takes them."""

    X: Any
    y: NDArray[Any]
    weight: FloatArray | None = None


@dataclass(frozen=True)
class FoldFit:
    """What the fit of one fold took, for progress and for the page."""

    steps: int
    bound: float
    seconds: float


@dataclass(frozen=True)
class Trial:
    """A fitted model, rows for a cross-validation of its options, and the folds.

    Attributes
    ----------
    y : ndarray of shape [N, P], or labels [N]
    """

    model: DeepGPEstimator
    X: Any
    y: NDArray[Any]
    folds: Folds
    weight: FloatArray | None = None

    def run(
        self,
        judge: Callable[[DeepGPEstimator, Part, Part], R],
        *,
        begin: Callable[[str], ProgressBar] | None = None,
        n_jobs: int | None = None,
    ) -> Iterator[tuple[FoldFit, R]]:
        """What `judge` says of every fold: of its fit, the rows it was fitted to, and those it has not seen.

        `begin` is called for every fit, for the bar that shows its progress; `n_jobs` are processes, as in joblib.
        """
        splits = self.folds.splits
        count = len(splits)
        jobs = min(job_count(checked_jobs(n_jobs)), count)
        is_vector = self.y.ndim == 2 and self.model.fitted_.columns.y_is_vector

        def tasks() -> Iterator[tuple[Any, ...]]:
            for number, (train, test) in enumerate(splits, start=1):
                y_train = self.y[train, 0] if is_vector else self.y[train]
                bar = None if begin is None or jobs > 1 else begin(f"fold {number} of {count}")
                member = like(self.model, [] if bar is None else [bar])
                if begin is not None or jobs > 1:
                    member.set_params(verbose=False)
                if jobs > 1:
                    member.set_params(n_jobs=1)
                w = (None, None) if self.weight is None else (self.weight[train], self.weight[test])
                parts = Part(take(self.X, train), y_train, w[0]), Part(take(self.X, test), self.y[test], w[1])
                yield judge, member, *parts

        for number, (fit, found) in enumerate(in_jobs(_fold, tasks(), jobs), start=1):
            if begin is not None and jobs > 1:
                members = self.model.n_members_
                begin(f"fold {number} of {count}")(Ended(fit.steps * members, fit.steps, fit.bound, fit.seconds / jobs))
            yield fit, found


def _fold(judge: Callable[..., R], member: Any, train: Part, test: Part) -> tuple[FoldFit, R]:
    """A fit to the rows of one part, judged by those of the other."""
    with only_whole([member]):
        member.fit(train.X, train.y, train.weight)
    history = member.history_
    return FoldFit(int(member.n_iter_), history.bound[-1], history.seconds[-1]), judge(member, train, test)


def trial_of(
    model: DeepGPEstimator,
    X: Any,
    y: Any,
    cv: Splits,
    *,
    groups: Any = None,
    random_state: int = 0,
    by_name: bool = True,
    sample_weight: Any = None,
) -> Trial:
    """The cross-validation of a fitted model's options on these rows, which are checked; see `folds_of` for `cv`.

    Raises
    ------
    ConfigurationError
        The folds make no sense; or the model was fitted with `noise_variance`, which it does not keep, or with weights,
        and `sample_weight` is left out.
    InputError
        y does not hold targets of the model, or has another number of rows than X.
    """
    check_is_fitted(model)
    if sample_weight is None and (model.fitted_.weight_s is not None or model.fitted_.n_left_out):
        raise ConfigurationError(
            "the model was fitted with sample_weight, which the folds would lack: give the weights again, or leave cv"
            " out."
        )
    if isinstance(model.likelihood_, KnownNoise):
        raise ConfigurationError(
            "the model was fitted with noise_variance, which the folds would lack: leave cv out, and evaluate the model"
            " on rows held out."
        )
    truth = targets_of(model, X, y, by_name=by_name)
    is_classes = model.fitted_.columns.classes is not None
    folds = folds_of(cv, truth, is_classes=is_classes, groups=groups, random_state=random_state)
    return Trial(model, X, truth, folds, weights_of(sample_weight, len(truth)))


def targets_of(model: DeepGPEstimator, X: Any, y: Any, *, by_name: bool = True) -> NDArray[Any]:
    """Targets of rows X as a fitted model has them, checked: numbers [N, P], or labels [N]."""
    return observed(model, X, y, by_name=by_name) if isinstance(model, DeepGPRegressor) else _labels(model, X, y)


def _labels(model: DeepGPEstimator, X: Any, y: Any) -> NDArray[Any]:
    labels = checked_labels(y)
    check_rows(X, labels)
    classes = model.fitted_.columns.classes
    strange = sorted(map(repr, set(labels.tolist()) - set([] if classes is None else classes.tolist())))
    if strange:
        raise InputError(f"y has labels that are no classes of the model: {', '.join(strange[:5])}.")
    return labels


def like(model: DeepGPEstimator, callbacks: Sequence[Callback]) -> DeepGPEstimator:
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


def judged(
    model: Any,
    X: Any,
    y: NDArray[Any],
    targets: Sequence[str] | None,
    classes: NDArray[Any] | None,
    weight: FloatArray | None = None,
) -> Evaluation | ClassEvaluation:
    """Predictions of rows with known targets; of labels among `classes`, of which a fold's model may lack some."""
    if classes is None:
        return replace(evaluate(model, X, y, targets=targets), weight=weight)
    return replace(evaluate_classes(model, X, y, targets=targets, classes=classes), weight=weight)


def joined_parts(
    parts: Sequence[Evaluation | ClassEvaluation], order: NDArray[np.int64]
) -> Evaluation | ClassEvaluation:
    """The rows of all folds in one evaluation; `order` has the place of each row."""
    classes = [part for part in parts if isinstance(part, ClassEvaluation)]
    if classes:
        return joined_classes(classes, order)
    return joined([part for part in parts if isinstance(part, Evaluation)], order)


def cross_validate(
    model: DeepGPEstimator,
    X: Any,
    y: Any,
    cv: Splits = 5,
    *,
    groups: Any = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    targets: Sequence[str] | None = None,
    begin: Callable[[str], ProgressBar] | None = None,
    sample_weight: Any = None,
) -> Evaluation | ClassEvaluation:
    """Every row predicted by a model with the options of a fitted one that has not seen the row.

    Parameters
    ----------
    model : DeepGPRegressor or DeepGPClassifier
        Fitted: its options are those of every fit, and it is not changed.
    X, y : array or data frame of shape [N, D] and [N] or [N, P]
        Training rows.
    cv, groups, random_state
        As in `sodgp.evaluation.splits.folds_of`. Rows that no fold tests are left out.
    n_jobs : int or None
        Processes for the fits, as in joblib; the results are the same.
    targets : sequence of str, optional
        Names of the columns of y.
    begin : function (label) -> ProgressBar, optional
        Called for every fit.
    sample_weight : array of shape [N], optional
        Of the rows, in fits and scores.

    Raises
    ------
    ConfigurationError, InputError
        As in `trial_of`.
    WorkerError
        A process died.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, X[:, 0])
    >>> len(cross_validate(model, X, X[:, 0], cv=2))
    40
    """
    by_name = targets is None
    trial = trial_of(
        model, X, y, cv, groups=groups, random_state=random_state, by_name=by_name, sample_weight=sample_weight
    )
    judge = _Scores(targets, model.fitted_.columns.classes)
    parts = [found for _, found in trial.run(judge, begin=begin, n_jobs=n_jobs)]
    return joined_parts(parts, trial.folds.rows)


@dataclass(frozen=True)
class _Scores:
    """Judge by scores alone."""

    targets: Sequence[str] | None
    classes: NDArray[Any] | None

    def __call__(self, member: DeepGPEstimator, train: Part, test: Part) -> Evaluation | ClassEvaluation:
        return judged(member, test.X, test.y, self.targets, self.classes, test.weight)
