"""Training of one model or of many: members, restarts, and estimators of one shape.

Such models are independent and have tensors of one shape. With a leading replicate axis they share every kernel launch:
on a GPU twenty take about twice as long as one. On a CPU that pays for small models only; others train one by one, or
in many processes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from sodgp.data.sources import Source
from sodgp.errors import ConfigurationError, NumericalError, SodgpWarning
from sodgp.estimator.checkpoint_plan import plans_for
from sodgp.estimator.depth import chosen_depths, is_interrupted, one_layer_first, with_seconds_left
from sodgp.estimator.fitted import Fitted
from sodgp.estimator.memory_budget import enough_for_preparation, enough_for_training
from sodgp.estimator.one_by_one import fit_one_by_one, threads_of, trains_alone
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.options.fields import OBJECTS
from sodgp.estimator.options.rules import check_many_processes, check_several_models
from sodgp.estimator.prepare import Data, Prepared, checked_data, prepare
from sodgp.estimator.stream.rows import StreamedData, streamed
from sodgp.system.notice import warn_user
from sodgp.system.progress import ProgressBar
from sodgp.system.running import cpu_threads, gradients
from sodgp.training.checkpoint.folder import sole_fit_in
from sodgp.training.distributed.contract import Ranks
from sodgp.training.distributed.group import ranks_here
from sodgp.training.run import FitResult, fit

if TYPE_CHECKING:
    from sodgp.estimator.base import DeepGPEstimator

__all__ = ["fit_replicates"]


def fit_replicates(
    estimators: Sequence[DeepGPEstimator],
    data: Sequence[tuple[Any, ...]],
    *,
    capture: bool = True,
    resume: bool = False,
) -> list[DeepGPEstimator]:
    """Fit every estimator to its data, all in one program; a single one is an ordinary fit.

    Parameters
    ----------
    estimators : sequence of DeepGPRegressor or DeepGPClassifier
        Equal in all options but `random_state` and, where the subset stays, `subset`.
    data : sequence of (X, y), (X, y, noise_variance) or (X, y, noise_variance, sample_weight)
        Arguments of `fit`, for each estimator, with equal numbers of rows and columns.
    capture : bool
        Record the step as a CUDA graph on a CUDA device.
    resume : bool
        Continue from the newest checkpoint in the estimators' common folder, as in `DeepGPRegressor.fit`.

    Returns
    -------
    list of estimators
        The same estimators, fitted; each has the result that it would have had alone, to rounding.

    Raises
    ------
    ConfigurationError
        When options or shapes differ.
    CheckpointError
        When another fit is writing to the folder of checkpoints.

    Examples
    --------
    >>> import numpy as np
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> models = [DeepGPRegressor(max_iter=20, random_state=seed) for seed in (0, 1)]
    >>> len(fit_replicates(models, [(X, np.sin(X[:, 0])), (X, np.cos(X[:, 0]))]))
    2
    """
    given = [tuple(value is not None for value in (*values, None, None)[2:4]) for values in data]
    sources = [isinstance(values[0], Source) for values in data]
    with ranks_here() as ranks, ExitStack() as stack:
        with ranks.in_step():
            configs = _configurations(estimators, given, sources, resume=resume)
        checkpoint = configs[0].checkpoint
        if checkpoint is not None:
            ranks.first(lambda: stack.enter_context(sole_fit_in(checkpoint.path)))
        return _fit_all(estimators, configs, data, stack, capture=capture, resume=resume, ranks=ranks)


def _fit_all(
    estimators: Sequence[DeepGPEstimator],
    configs: Sequence[Configuration],
    data: Sequence[tuple[Any, ...]],
    files: ExitStack,
    *,
    capture: bool,
    resume: bool,
    ranks: Ranks,
) -> list[DeepGPEstimator]:
    """Fit every estimator, once their options are checked and the folder of checkpoints is theirs.

    Files of rows are closed with `files`.
    """
    first = configs[0]
    try:
        count = first.n_members * first.n_restarts
        if len(estimators) * count > 1:
            check_several_models(first)
        if ranks.count > 1:
            check_many_processes(first, len(estimators))
        plan = None
        to = first.checkpoint
        if to is not None and len(estimators) * count == 1:
            (plan,) = ranks.first(lambda: plans_for(estimators[0], to, 1, resume=resume))
        prepared: list[Prepared] = []
        seeds_of_each = [_seeds(config, count) for config in configs]
        with gradients():
            with ranks.in_step():
                for estimator, config, seeds, values in zip(estimators, configs, seeds_of_each, data, strict=True):
                    previous = _previous(estimator) if config.warm_start else None
                    with ExitStack() as memory:
                        checked = _checked(estimator, config, values, previous, len(seeds), files, memory)
                        for seed in seeds:
                            model = prepare(config, checked, seed=seed, previous=previous, plan=plan, ranks=ranks)
                            prepared.append(model)
                    del checked  # perhaps a copy of the data, which training does not need
            is_source = isinstance(data[0][0], Source)
            is_alone = len(estimators) == 1 < count and (trains_alone(prepared[0]) or is_source)
            if to is not None and plan is None:
                folders = count if is_alone else 1
                plans = ranks.first(lambda: plans_for(estimators[0], to, folders, resume=resume))
                prepared = [
                    replace(each, settings=replace(each.settings, checkpoint=own))
                    for each, own in zip(prepared, itertools.cycle(plans), strict=False)
                ]
            for bar in (each for each in first.callbacks if isinstance(each, ProgressBar)):
                bar.models = 1 if is_alone else count
            train = fit_one_by_one if is_alone else partial(_in_one_program, capture=capture)
            shallow = one_layer_first(first, prepared, train) if ranks.count == 1 else []
            if is_interrupted(shallow):
                deep, shallow = shallow, []
            else:
                if shallow and first.max_seconds is not None:
                    first, prepared = with_seconds_left(first, prepared, shallow)
                deep = list(zip(prepared, train(prepared, first), strict=False))
            chosen = chosen_depths(first, len(estimators), shallow, deep) if shallow else deep
            prepared, results = [each for each, _ in chosen], [result for _, result in chosen]
            count = len(results) // len(estimators)
    except NumericalError as error:
        # Nothing of an earlier fit may be left: what is left of this one, if anything, takes its place.
        kept = [] if estimators[0].n_restarts != 1 or not error.kept else _grouped(prepared, error.kept, count)
        for index, estimator in enumerate(estimators):
            if kept:
                estimator.fitted_ = kept[index]
            elif hasattr(estimator, "fitted_"):
                del estimator.fitted_
        raise
    combine = _best if first.n_restarts > 1 else _grouped
    for estimator, fitted in zip(estimators, combine(prepared, results, count), strict=True):
        estimator.fitted_ = fitted
    return list(estimators)


def _checked(
    estimator: DeepGPEstimator,
    config: Configuration,
    values: tuple[Any, ...],
    previous: Fitted | None,
    models: int,
    files: ExitStack,
    memory: ExitStack,
) -> Data | StreamedData:
    """What `fit` was given, checked; `files` closes those of a source, `memory` watches over the preparation."""
    as_classes = "classes" in estimator.takes
    if isinstance(values[0], Source):
        rows = streamed(values[0], values[1], config, estimator.columns, previous, as_classes=as_classes)
        return files.enter_context(rows)
    memory.enter_context(enough_for_preparation(*values[:2], models=models))
    name = type(estimator).__name__
    return checked_data(name, *values, as_classes=as_classes, columns=estimator.columns, previous=previous)


def _configurations(
    estimators: Sequence[DeepGPEstimator], given: Sequence[tuple[bool, ...]], sources: Sequence[bool], *, resume: bool
) -> list[Configuration]:
    """The checked options of every estimator, once they are known to be equal where they must be.

    `given` says for each whether there are noise variances and weights.
    """
    if not estimators or len(estimators) != len(given):
        raise ConfigurationError(f"{len(estimators)} estimators need as many data sets, not {len(given)}.")
    if len({id(estimator) for estimator in estimators}) < len(estimators):
        raise ConfigurationError("no estimator may be given twice; use sklearn.base.clone.")
    configs = [
        Configuration.from_estimator(
            estimator, knows_noise=knows_noise, has_weights=has_weights, from_source=streams, resume=resume
        )
        for estimator, (knows_noise, has_weights), streams in zip(estimators, given, sources, strict=True)
    ]
    if len(estimators) == 1:
        return configs
    if any(sources):
        raise ConfigurationError("replicates train in one program, in memory: fit to sources of rows one by one.")
    # What is done before training may differ: the program sees the rows of the subset, not how they were chosen.
    free = {"random_state", "subset"}
    options = [{k: v for k, v in e.get_params(deep=False).items() if k not in free} for e in estimators]
    options = [o | {name: object_of(o[name]) for name, object_of in OBJECTS.items()} for o in options]
    different = sorted({k for o in options for k, v in o.items() if v is not options[0][k] and v != options[0][k]})
    if different:
        raise ConfigurationError(f"replicates must have equal options; these differ: {', '.join(different)}.")
    if configs[0].n_restarts != 1:
        raise ConfigurationError("replicates are single fits: leave n_restarts at 1, or fit the estimators one by one.")
    if configs[0].validation_fraction is not None:
        raise ConfigurationError(
            "validation_fraction is for single fits, not for replicates, which train in one program; leave it at None."
        )
    return configs


def _previous(estimator: DeepGPEstimator) -> Fitted | None:
    """The fit that a warm start continues; of many members the first, with a warning."""
    previous = getattr(estimator, "fitted_", None)
    if previous is not None and previous.members:
        warn_user(
            f"warm_start=True continues the first of the {len(previous.members)} members of the last fit; the others"
            " are left behind.",
            SodgpWarning,
        )
    return previous


def _seeds(config: Configuration, count: int) -> list[int | None]:
    """A seed for each model of an estimator; None stands for `random_state`, where there is one model."""
    if count == 1:
        return [None]
    return [int(seed) for seed in check_random_state(config.random_state).randint(2**31 - 1, size=count)]


def _in_one_program(prepared: Sequence[Prepared], config: Configuration, *, capture: bool) -> list[FitResult]:
    """Train all models at once."""
    problems, method = [each.problem for each in prepared], prepared[0].method
    settings = replace(prepared[0].settings, capture=capture, compares=config.n_restarts > 1)
    n_rows = len(prepared[0].rows)
    memory = enough_for_training(method, problems[0].architecture, n_rows, settings, replicates=len(problems))
    with cpu_threads(threads_of(config, prepared[0], settings.ranks.count)), ExitStack() as stack:
        with settings.ranks.in_step():
            stack.enter_context(memory)
        return fit(method, problems, settings)


def _grouped(prepared: Sequence[Prepared], results: Sequence[FitResult], count: int) -> list[Fitted]:
    """The state of every estimator: that of its one model, or of the first of its members with all of them."""
    each = [p.fitted(result) for p, result in zip(prepared, results, strict=True)]
    if count == 1:
        return each
    groups = [tuple(each[start : start + count]) for start in range(0, len(each), count)]
    return [replace(group[0], members=group) for group in groups]


def _best(prepared: Sequence[Prepared], results: Sequence[FitResult], count: int) -> list[Fitted]:
    """The state of the one estimator whose restarts these are: that of the best bound."""
    # A Monte Carlo estimate: the mean of its last entries is better than the last one, and one over more rows than a
    # step has is better still.
    bounds = [float(np.mean(r.history.bound[-5:])) if r.final_bound is None else r.final_bound for r in results]
    best = int(np.argmax(bounds))
    return [replace(prepared[best].fitted(results[best]), seed=None, restart_bounds=bounds)]
