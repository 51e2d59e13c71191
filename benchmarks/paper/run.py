"""All the cells of a request: resumable, in one process or several, within a budget of time."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from benchmarks.paper.cells import Cell, Key, read_cells, refuse_to_mix
from benchmarks.paper.display import Display
from benchmarks.paper.history import LOGGED_EVERY
from benchmarks.paper.protocol import PEERS, Request
from benchmarks.paper.unfinished import forget
from sodgp.data import DataSet, load
from sodgp.errors import ConfigurationError, InputError, NumericalError, ResourceError
from sodgp.system.memory import keep_freed_memory
from sodgp.system.validation import resolve_device


@dataclass(frozen=True)
class Options:
    """How to run, which changes no number beyond rounding.

    Parameters
    ----------
    device : str
    jobs : int
        Processes.
    budget : float or None
        Minutes after which no new cell is begun.
    replicates : bool or None
        Train the splits of one shape in one program; None does so on CUDA.
    history_every : int
        Iterations between the entries of the curves, a multiple of 50; 0 for none.
    data_dir : path or None
    compile : bool
        Let PyTorch's compiler fuse the steps of our variational methods: up to a minute for each program, for long
        runs.
    """

    device: str = "auto"
    jobs: int = 1
    budget: float | None = None
    replicates: bool | None = None
    history_every: int = 100
    data_dir: Path | None = None
    compile: bool = False

    @property
    def for_cells(self) -> dict[str, Any]:
        """What the computation of a cell has to know."""
        return {"device": self.device, "history_every": self.history_every, "compile": self.compile}

    def __post_init__(self) -> None:
        if self.history_every < 0 or self.history_every % LOGGED_EVERY:
            raise ConfigurationError(f"history_every={self.history_every} must be 0 or a multiple of {LOGGED_EVERY}.")
        if self.jobs < 1:
            raise ConfigurationError(f"jobs={self.jobs} must be at least 1.")


@dataclass
class Summary:
    """How a run went.

    Attributes
    ----------
    computed, skipped, left : int
        Cells that were computed now, that were there before, and that the budget left for later.
    failed : dict of str to str
        Cells whose training failed, and why.
    """

    computed: int = 0
    skipped: int = 0
    left: int = 0
    failed: dict[str, str] = field(default_factory=dict)


def run(request: Request, out: Path, options: Options | None = None) -> Summary:
    """Compute every cell of the request that the folder does not hold yet.

    Parameters
    ----------
    request : Request
    out : Path
        Results folder; made if need be. Each cell is written when it is done, whole or not at all, and a fit of ours
        that is under way keeps checkpoints: a run that was stopped in any way goes on where it was when it is started
        again.
    options : Options or None

    Returns
    -------
    Summary

    Raises
    ------
    ConfigurationError
        The folder holds cells with other settings, or a method cannot be run on a set.
    InputError, DataUnavailableError
        A set or a cell cannot be read, or nothing can be written to the folder.
    ResourceError
        A process was killed.
    """
    options = options or Options()
    device = resolve_device(options.device)
    data = {name: load(name, options.data_dir) for name in request.data}
    _try(out)
    cells, keys = read_cells(out), request.keys()
    refuse_to_mix(map(request.completed, cells), {key.group: request.settings(key) for key in keys})
    finished = {cell.key for cell in cells}
    forget(out, finished)
    todo = [key for key in keys if key not in finished]
    request.refuse_impossible(todo, data)
    together = device.type == "cuda" if options.replicates is None else options.replicates
    summary = Summary(skipped=len(keys) - len(todo))
    batches = _batches(todo, together)
    with Display({key: _work(request, key, data[key.data]) for key in todo}, summary.skipped) as display:
        runner = _Runner(request, out, options, data, display, summary, finished)
        if options.jobs == 1:
            runner.here(batches)
        else:
            runner.in_processes(batches)
    return summary


# What costs one cell, or all that train together, but not the run.
_FAILURES = (NumericalError, ResourceError)


def _try(out: Path) -> None:
    """Make the results folder; better an error now than after the first cell."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InputError(f"nothing can be written to {out} ({error.strerror or error}); give another --out.") from error


class _Runner:
    """Batches of cells, one after the other or in several processes."""

    def __init__(
        self,
        request: Request,
        out: Path,
        options: Options,
        data: dict[str, DataSet],
        display: Display,
        summary: Summary,
        finished: set[Key],
    ) -> None:
        self.request, self.out, self.options, self.data = request, out, options, data
        self.display, self.summary = display, summary
        self._over = finished
        self._deadline = None if options.budget is None else time.monotonic() + 60 * options.budget

    def here(self, batches: Sequence[list[Key]]) -> None:
        from benchmarks.paper.methods import compute

        waiting = list(batches)
        while waiting:
            keys = self._taken(waiting)
            if not keys:
                continue
            self.display.begin(keys)
            data, report = self.data[keys[0].data], self.display.reporter(keys)
            try:
                cells = compute(self.request, keys, data, report=report, out=self.out, **self.options.for_cells)
            except _FAILURES as error:
                waiting[:0] = self._failed(keys, error)
                continue
            self._keep(cells)

    def in_processes(self, batches: Sequence[list[Key]]) -> None:
        # The longest first, so that no process is left alone with one at the end.
        waiting = sorted(batches, key=lambda keys: -_work(self.request, keys[0], self.data[keys[0].data]))
        running = dict[Future[list[Cell]], list[Key]]()
        # Fresh processes: PyTorch's threads and CUDA do not survive a fork.
        context = multiprocessing.get_context("spawn")
        stop, news = context.Event(), context.SimpleQueue()
        reports = dict[Key, Callable[[int, int], None]]()
        with (
            ProcessPoolExecutor(self.options.jobs, context, _enter_process, (stop, news)) as pool,
            _told_of_the_end(stop),
        ):
            while waiting or running:
                while waiting and len(running) < self.options.jobs:
                    keys = self._taken(waiting)
                    if not keys:
                        continue
                    data = self.data[keys[0].data]
                    arguments = {"out": self.out, **self.options.for_cells}
                    running[pool.submit(_work_in_process, self.request, keys, data, arguments)] = keys
                    self.display.begin(keys)
                    reports[keys[0]] = self.display.reporter(keys)
                done = wait(running, _NEWS_EVERY, FIRST_COMPLETED).done if running else ()
                while not news.empty():
                    key, iteration, last = news.get()
                    reports[key](iteration, last)
                for future in done:
                    keys = running.pop(future)
                    try:
                        self._keep(future.result())
                    except _FAILURES as error:
                        waiting[:0] = self._failed(keys, error)
                    except BrokenProcessPool as error:
                        raise ResourceError(
                            "one of the processes was killed, perhaps for want of memory. The same command goes on"
                            " where they were; give it fewer --jobs.",
                            needed=None,
                            available=None,
                        ) from error

    def _taken(self, waiting: list[list[Key]]) -> list[Key]:
        """The next batch, without what another run has written by now, and empty when the budget is spent."""
        batch = waiting.pop(0)
        keys = [key for key in batch if not (self.out / key.file).exists()]
        for key in batch:
            if key not in keys:
                self.summary.skipped += 1
                self.display.skipped(key)
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self.summary.left += len(keys)
            return []
        return keys

    def _keep(self, cells: Sequence[Cell]) -> None:
        key = cells[0].key
        # Another run may have begun to fill the folder since.
        refuse_to_mix(
            map(self.request.completed, read_cells(self.out, but=self._over)), {key.group: self.request.settings(key)}
        )
        for cell in cells:
            cell.write(self.out)
            self.summary.computed += 1
            self.display.done(cell)
        self._over |= {cell.key for cell in cells}
        forget(self.out, self._over)

    def _failed(self, keys: Sequence[Key], error: NumericalError | ResourceError) -> list[list[Key]]:
        """What to try instead: of replicates, one runaway must not take the others with it."""
        forget(self.out, keys)
        if len(keys) > 1:
            return [[key] for key in keys]
        self.summary.failed[str(keys[0])] = str(error)
        self.display.failed(keys[0], error)
        return []


@contextmanager
def _told_of_the_end(stop: Event) -> Iterator[None]:
    """Tell the processes that the run ends, by a Ctrl-C that reached this one alone or an error.

    The pool waits for what they are at, which may take hours; stopped, a fit leaves a checkpoint.
    """
    try:
        yield
    except BaseException:
        stop.set()
        raise


# Seconds between two looks at how far the processes are.
_NEWS_EVERY = 1.0
# Of a process of the pool: whether the run was stopped, and where to say how far a fit is.
_stop: Event | None = None
_news: SimpleQueue[tuple[Key, int, int]] | None = None


def _work_in_process(request: Request, keys: Sequence[Key], data: DataSet, arguments: dict[str, Any]) -> list[Cell]:
    from benchmarks.paper.methods import compute

    def report(iteration: int, last: int) -> None:
        if _stop is not None and _stop.is_set():
            raise KeyboardInterrupt
        if _news is not None:
            _news.put((keys[0], iteration, last))

    return compute(request, keys, data, report=report, **arguments)


def _enter_process(stop: Event, news: SimpleQueue[tuple[Key, int, int]]) -> None:
    """One thread, and no longer than the process that wants the cells: a fit that is stopped has its checkpoint."""
    global _stop, _news
    _stop, _news = stop, news
    keep_freed_memory()
    set_threads()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def set_threads() -> None:
    """One thread of the processor, unless the environment says how many: matrices this small gain nothing by more."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def _batches(keys: Sequence[Key], together: bool) -> list[list[Key]]:
    """Cells that are computed in one go: one each, or all splits of a group of ours."""
    groups: dict[Any, list[Key]] = {}
    for key in keys:
        groups.setdefault(key.group if together and key.method not in PEERS else key, []).append(key)
    return list(groups.values())


def _work(request: Request, key: Key, data: DataSet) -> float:
    """How long a cell may take beside others: iterations x layers x rows in a step. For the time left only."""
    options = request.settings(key)["options"]
    rows = len(data.y)
    return (options.get("max_iter") or 1000) * key.layers * min(rows, options.get("batch_size") or rows)
