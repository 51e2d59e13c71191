"""Many models that train alone: one after another, or in as many processes as `n_jobs` says. The bits are the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from sodgp.errors import NumericalError, NumericalWarning
from sodgp.estimator.memory_budget import enough_for_training
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.prepare import Prepared
from sodgp.inference.contract import Inference
from sodgp.system.jobs import in_jobs, job_count
from sodgp.system.notice import warn_user
from sodgp.system.progress import Ended, ProgressBar
from sodgp.system.running import cpu_threads, idle_cores
from sodgp.training.run import FitResult, Settings, fit
from sodgp.training.stacking import Problem

# Below, many models are faster in one program, where each operation costs its overhead once for all of them.
_ALONE = 2e5
# From here on a step is large enough for a second thread.
_THREADED = 1e6


def trains_alone(prepared: Prepared) -> bool:
    """Whether many models like this one are no faster in one program than one by one."""
    return prepared.settings.device.type == "cpu" and _step_numbers(prepared) >= _ALONE


def threads_of(config: Configuration, prepared: Prepared, jobs: int = 1) -> int | None:
    """CPU threads of each of so many processes: "auto" is as many as cores are idle, where a step pays for them."""
    if not isinstance(config.n_threads, str):
        return config.n_threads
    is_large = config.device.type == "cpu" and _step_numbers(prepared) >= _THREADED
    return idle_cores() if is_large and jobs == 1 else 1


def _step_numbers(prepared: Prepared) -> int:
    """Covariances of the subset with the rows of a step, in all samples of a hidden layer."""
    architecture, settings = prepared.problem.architecture, prepared.settings
    samples = settings.n_samples if architecture.mean_weights else 1
    return samples * architecture.size * (architecture.size + settings.batch_rows)


def fit_one_by_one(prepared: Sequence[Prepared], config: Configuration) -> list[FitResult]:
    """Train each model in a program of its own.

    Callbacks see one model after another; in other processes each has a copy of `EarlyStopping`, and bars are moved
    here. A time limit is divided among the models. After Ctrl-C the models that are complete are kept, or, without any,
    the one that it ended.

    Raises
    ------
    NumericalError
        Of the first model that failed, once all are over; it keeps the last good parameters of each.
    """
    jobs = min(job_count(config.n_jobs), len(prepared))
    bars = [callback for callback in config.callbacks if isinstance(callback, ProgressBar)]
    n_threads = threads_of(config, prepared[0], jobs)
    share = None if config.max_seconds is None else config.max_seconds / math.ceil(len(prepared) / jobs)
    tasks = []
    for each in prepared:
        callbacks = [callback for callback in each.settings.callbacks if jobs == 1 or callback not in bars]
        settings = replace(
            each.settings, max_seconds=share, callbacks=callbacks, compares=config.n_restarts > 1, capture=False
        )
        tasks.append((each.method, each.problem, settings, len(each.rows), n_threads))
    first = prepared[0]
    memory = enough_for_training(
        first.method, first.problem.architecture, len(first.rows), first.settings, replicates=jobs
    )
    with memory, ExitStack() as stack:
        for bar in bars:
            stack.enter_context(bar.held())
        results, error = _collected(tasks, jobs, bars if jobs > 1 else [])
    if error is not None:
        error.kept = results if len(results) == len(prepared) else []
        raise error
    return results


def _collected(
    tasks: Sequence[tuple[Inference, Problem, Settings, int, int | None]], jobs: int, bars: Sequence[ProgressBar]
) -> tuple[list[FitResult], NumericalError | None]:
    """Results of the models that were trained, and the error of the first that failed."""
    results: list[FitResult] = []
    error, is_interrupted = None, False
    try:
        for outcome in in_jobs(_fit_alone, tasks, jobs):
            if isinstance(outcome, NumericalError):
                error = error or outcome
                results += outcome.kept
                continue
            results.append(outcome)
            history = outcome.history
            for bar in bars:
                bar.open()
                done = history.iteration[-1]
                bar(Ended(done, done, history.bound[-1], history.seconds[-1] / jobs))
            is_interrupted = history.stopped == "interrupted"
            if is_interrupted:
                break
    except KeyboardInterrupt:
        if not results:
            raise
        is_interrupted = True
    else:
        # The one that Ctrl-C ended is worth less than the others.
        results = results[:-1] if is_interrupted and len(results) > 1 else results
    if is_interrupted:
        for result in results:
            result.history.stopped = "interrupted"
        warn_user(f"training was interrupted: {len(results)} of {len(tasks)} models are kept.", NumericalWarning)
    return results, error


def _fit_alone(
    method: Inference, problem: Problem, settings: Settings, n_rows: int, n_threads: int | None
) -> FitResult | NumericalError:
    """One model; an error that must not stop the others is returned."""
    memory = enough_for_training(method, problem.architecture, n_rows, settings)
    try:
        with cpu_threads(n_threads), memory:
            return fit(method, [problem], settings)[0]
    except NumericalError as error:
        return error
