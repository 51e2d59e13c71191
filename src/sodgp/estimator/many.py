"""Several estimators of one shape, trained in one program.

Splits of a data set, restarts and the members of an ensemble are independent models with tensors of one shape. With a
leading replicate axis they share every kernel launch: on a GPU twenty take about twice as long as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from sodgp.errors import ConfigurationError, NumericalError
from sodgp.estimator.checkpoint_plan import check_seed_is_kept, plan_for
from sodgp.estimator.memory_budget import enough_for_training
from sodgp.estimator.options.efforts import members_of
from sodgp.inference.contract import Inference
from sodgp.system.torch_state import cpu_threads, gradients
from sodgp.training.run import Settings, fit
from sodgp.training.stacking import Problem


def training_memory(
    inference: Inference, problems: Sequence[Problem], settings: Settings
) -> AbstractContextManager[None]:
    """A block in which there is memory enough to train on these problems; see `resources.enough_for_training`."""
    first = problems[0]
    return enough_for_training(
        inference,
        first.architecture,
        first.data.X_s.shape[-2] + first.data.n_rest,
        settings.batch_rows,
        settings.n_samples,
        device=settings.device,
        replicates=len(problems),
    )


def fit_replicates(
    estimators: Sequence[Any],
    data: Sequence[tuple[Any, ...]],
    *,
    capture: bool = True,
    resume: bool = False,
) -> list[Any]:
    """Fit every estimator to its own data, all in one program.

    Parameters
    ----------
    estimators : sequence of DeepGPRegressor
        Equal in all options but `random_state` and, where the subset stays, `subset`.
    data : sequence of (X, y) or (X, y, noise_variance)
        Arguments of `fit`, for each estimator, with equal numbers of rows and columns.
    capture : bool
        Record the step as a CUDA graph on a CUDA device.
    resume : bool
        Continue from the newest checkpoint in the estimators' common folder `checkpoint`, as in `DeepGPRegressor.fit`.

    Returns
    -------
    list of DeepGPRegressor
        The same estimators, fitted; each has the result that it would have had alone, to rounding. Those of several
        members have them all in that program.

    Raises
    ------
    ConfigurationError
        When options or shapes differ.

    Examples
    --------
    >>> import numpy as np
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> models = [DeepGPRegressor(max_iter=20, random_state=seed) for seed in (0, 1)]
    >>> len(fit_replicates(models, [(X, np.sin(X[:, 0])), (X, np.cos(X[:, 0]))]))
    2
    """
    return fit_together(estimators, data, capture=capture, resume=resume)


def fit_together(
    estimators: Sequence[Any],
    data: Sequence[tuple[Any, ...]],
    *,
    capture: bool = True,
    resume: bool = False,
    compares: bool = False,
) -> list[Any]:
    """As `fit_replicates`; with `compares` each has a bound to compare it by, over more rows than a step sees."""
    if not estimators or len(estimators) != len(data):
        raise ConfigurationError(f"{len(estimators)} estimators need as many data sets, not {len(data)}.")
    if len({id(estimator) for estimator in estimators}) < len(estimators):
        raise ConfigurationError("every replicate must be an estimator of its own; use sklearn.base.clone.")
    # What is done before training may differ: the program sees the rows of the subset, not how they were chosen.
    free = {"random_state", "subset"} if estimators[0].reselect_every is None else {"random_state"}
    options = [{k: v for k, v in e.get_params(deep=False).items() if k not in free} for e in estimators]
    different = sorted(
        {k for other in options for k, v in other.items() if v is not options[0][k] and v != options[0][k]}
    )
    if different:
        raise ConfigurationError(f"replicates must have equal options; these differ: {', '.join(different)}.")
    if options[0]["n_restarts"] != 1:
        raise ConfigurationError("replicates are single fits: leave n_restarts at 1, or fit the estimators one by one.")
    if options[0]["validation_fraction"] is not None and len(estimators) > 1:
        raise ConfigurationError(
            "validation_fraction is for single fits, not for n_restarts, ensembles and replicates, which train in one"
            " program; leave it at None."
        )
    count = members_of(estimators[0])
    if count > 1:
        return _fit_members(estimators, count, data, capture=capture, resume=resume)
    before = [dict(vars(estimator)) for estimator in estimators]
    try:
        for estimator in estimators:
            estimator._warn_of_members_left_behind()
            check_seed_is_kept(estimator.checkpoint, estimator.random_state)
        plan = plan_for(estimators[0], resume)
        with gradients():
            prepared = [e._prepare(*values, plan=plan) for e, values in zip(estimators, data, strict=True)]
            problems = [problem for problem, _ in prepared]
            settings = replace(prepared[0][1], capture=capture, compares=compares)
            method = estimators[0]._method
            with cpu_threads(estimators[0].n_threads), training_memory(method, problems, settings):
                fitted = fit(method, problems, settings)
    except NumericalError as error:
        # Nothing of an earlier fit may be left: it would predict with the scaling of this one.
        for index, estimator in enumerate(estimators):
            estimator.__dict__.pop("model_", None)
            if error.kept:
                estimator._finish(*error.kept[index])
        raise
    except BaseException:
        for estimator, state in zip(estimators, before, strict=True):
            estimator.__dict__ = state
        raise
    return [estimator._finish(*result) for estimator, result in zip(estimators, fitted, strict=True)]


def _fit_members(estimators: Sequence[Any], count: int, data: Sequence[tuple[Any, ...]], **options: Any) -> list[Any]:
    """Fit the members of every estimator, all in one program."""
    groups = [estimator._from_other_seeds(count) for estimator in estimators]
    members = [member for group in groups for member in group]
    try:
        fit_together(members, [values for values in data for _ in range(count)], **options)
    except NumericalError as error:
        # Nothing of an earlier fit may be left, but what is left of this one.
        for estimator, group in zip(estimators, groups, strict=True):
            estimator.__dict__.pop("model_", None)
            if error.kept:
                estimator._take(group)
        raise
    return [estimator._take(group) for estimator, group in zip(estimators, groups, strict=True)]
