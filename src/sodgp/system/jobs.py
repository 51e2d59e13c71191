"""Independent pieces of work in many processes, by joblib's conventions and on whatever backend it is set to."""

from __future__ import annotations

import itertools
import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import joblib
from joblib.parallel import get_active_backend

from sodgp.errors import ConfigurationError, SodgpError, WorkerError

R = TypeVar("R")

# What backends raise when a process is gone: loky and concurrent.futures, Dask, Ray.
_DEATHS = frozenset({"BrokenProcessPool", "KilledWorker", "RayActorError", "WorkerCrashedError"})


def job_count(n_jobs: int | None) -> int:
    """Processes that `n_jobs` stands for: None is 1 unless inside `joblib.parallel_config`, -1 is one for each core."""
    return int(joblib.effective_n_jobs(n_jobs))


def in_jobs(
    work: Callable[..., R], tasks: Iterable[tuple[Any, ...]], n_jobs: int | None, did: str = "trained a model"
) -> Iterator[R]:
    """The results of ``work(*task)``, in order; with one job each is computed in this process when it is asked for.

    Tasks are asked for as they are needed, two for each process ahead. What a process `did` is for the error.

    Warnings of other processes are given again in this one.

    Raises
    ------
    WorkerError
        A process died.
    ConfigurationError
        A task cannot be sent to another process.
    """
    if job_count(n_jobs) == 1:
        for task in tasks:
            yield work(*task)
        return
    calls = (joblib.delayed(_with_warnings)(work, task, os.getpid()) for task in tasks)
    try:
        for result, seen in _results(calls, n_jobs):
            for message in seen:
                warnings.warn(message, stacklevel=2)
            yield result
    except Exception as error:
        told = _explained(error, did)
        if told is None:
            raise
        raise told from error


def _results(calls: Iterator[Any], n_jobs: int | None) -> Iterator[Any]:
    """Results of joblib's calls, in order, as they come; where a backend cannot do that (Ray's), some at a time."""
    if getattr(get_active_backend()[0], "supports_return_generator", False):
        yield from joblib.Parallel(n_jobs=n_jobs, return_as="generator")(calls)
        return
    some = 2 * job_count(n_jobs)
    while group := list(itertools.islice(calls, some)):
        yield from joblib.Parallel(n_jobs=n_jobs)(group)


def _explained(error: Exception, did: str) -> SodgpError | None:
    """An error of a backend as ours; None for any other."""
    if any(kind.__name__ in _DEATHS for kind in type(error).__mro__):
        return WorkerError(
            f"a process that {did} died before it was done. The usual reason is that memory ran out, as each"
            " process needs its own; use a smaller n_jobs."
        )
    if isinstance(error, pickle.PicklingError | AttributeError | TypeError) and "pickle" in str(error):
        return ConfigurationError(
            f"with n_jobs above 1 every option is sent to other processes, which one cannot be: {error!s:.200}."
            " Define it in a module, or leave n_jobs at 1."
        )
    return None


def _with_warnings(work: Callable[..., R], task: tuple[Any, ...], caller: int) -> tuple[R, list[Warning]]:
    """The result of a task, and the warnings that the process of the caller has not seen."""
    if os.getpid() == caller:
        return work(*task), []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = work(*task)
    return result, [each.message for each in seen if isinstance(each.message, Warning)]
