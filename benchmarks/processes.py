"""Many computations, each in a fresh process with one thread: memory and caches of one are not the next one's."""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from typing import Any

import torch
from threadpoolctl import threadpool_limits

__all__ = ["in_fresh_processes", "one_thread"]

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def one_thread() -> None:
    """What a fresh process does first: one thread for PyTorch, and one for the products of NumPy and scikit-learn."""
    torch.set_num_threads(1)
    threadpool_limits(1)


def in_fresh_processes(
    work: Callable[..., Any], calls: Sequence[tuple[Any, ...]], *, jobs: int = 1, minutes: float = math.inf
) -> Iterator[tuple[int, Any]]:
    """Number and result of every call, as they come; none begins after so many minutes.

    In the place of the result of a process that died stands the reason, as text: the others go on.
    """
    # Libraries that count their threads when they are loaded, in the processes that begin here.
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    ends = time.perf_counter() + 60.0 * minutes

    def alone(arguments: tuple[Any, ...]) -> Any:
        if time.perf_counter() >= ends:
            return None
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context, initializer=one_thread) as pool:
            try:
                return pool.submit(work, *arguments).result()
            except Exception as error:  # whatever it was, it is this cell's alone
                return f"no result: {type(error).__name__}: {error}"

    with ThreadPoolExecutor(jobs) as threads:
        waiting: dict[Future[Any], int] = {threads.submit(alone, each): number for number, each in enumerate(calls)}
        try:
            for future in as_completed(waiting):
                if future.result() is not None:
                    yield waiting[future], future.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
