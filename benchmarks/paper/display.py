"""The progress of a benchmark on stderr: cells, time left, and a line for every finished cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from benchmarks.paper.cells import Cell, Key
from sodgp.errors import SodgpError
from sodgp.system.progress import duration, say


class Display:
    """A bar over all cells in a terminal, and one line for each cell everywhere.

    Parameters
    ----------
    work : dict of Key to float
        The cells to do and how long they may take beside each other.
    skipped : int
        Cells that were there before.
    """

    def __init__(self, work: Mapping[Key, float], skipped: int) -> None:
        self._work, self._skipped = dict(work), skipped
        self._total, self._done, self._count = sum(work.values()), 0.0, 0
        self._under_way: dict[Key, float] = {}  # by the first of the cells that are computed together
        self._inherited = 0.0  # work of an earlier run, which says nothing about the pace of this one
        self._began = time.monotonic()
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", markup=False),
        )
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal or not work)
        self._task = self._bar.add_task("", total=self._total or 1, left="")

    def __enter__(self) -> Self:
        if self._skipped:
            say(f"Cells there before: {self._skipped}, to do: {len(self._work)}.")
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def begin(self, keys: Sequence[Key]) -> None:
        """A batch of cells begins."""
        self._bar.update(self._task, description=f"[{self._count + 1}/{len(self._work)}] {_name(keys)}")

    def reporter(self, keys: Sequence[Key]) -> Callable[[int, int], None]:
        """A function that takes the iteration of these cells, and how many there are."""
        work = sum(self._work[key] for key in keys)
        is_first = True

        def report(iteration: int, last: int) -> None:
            nonlocal is_first
            if is_first and iteration > 1:
                say(f"{_name(keys)} {'goes' if len(keys) == 1 else 'go'} on at iteration {iteration:,} of {last:,}.")
                self._inherited += work * iteration / last
            is_first = False
            # The first step comes after all that is done once: nothing follows from it about the time left.
            self._under_way[keys[0]] = work * (iteration - 1) / last
            self._update()

        return report

    def done(self, cell: Cell) -> None:
        """A cell was written."""
        self._advance(cell.key)
        scores = ", ".join(f"{name.upper()} {_number(cell.results[name])}" for name in ("nlpp", "rmse"))
        say(f"{self._place()} {cell.key}: {scores}, {cell.results['seconds']:.1f} s{self._tail()}")

    def skipped(self, key: Key) -> None:
        """Another run has written the cell."""
        self._inherited += self._work[key]
        self._advance(key)
        say(f"{self._place()} {key}: there by now{self._tail()}")

    def failed(self, key: Key, error: SodgpError) -> None:
        """A cell could not be computed."""
        self._advance(key)
        say(f"{self._place()} {key}: failed. {error}{self._tail()}")

    def _advance(self, key: Key) -> None:
        self._under_way.pop(key, None)
        self._done += self._work[key]
        self._count += 1
        self._update()

    def _update(self) -> None:
        done = self._done + sum(self._under_way.values())
        self._bar.update(self._task, completed=done, left=self._left(done))

    def _place(self) -> str:
        return f"[{self._count}/{len(self._work)}]"

    def _tail(self) -> str:
        return f"; {self._left(self._done)}" if self._count < len(self._work) else ""

    def _left(self, done: float) -> str:
        here = done - self._inherited
        if here <= 0:
            return ""
        return f"about {duration((time.monotonic() - self._began) * (self._total - done) / here)} left"


def _name(keys: Sequence[Key]) -> str:
    return str(keys[0]) if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
