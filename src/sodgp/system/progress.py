"""Messages on stderr, and progress as a bar in a terminal or as plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


class Progressing(Protocol):
    """The part of a `sodgp.training.history.TrainingState` that is shown."""

    @property
    def iteration(self) -> int:
        """Steps so far."""

    @property
    def bound(self) -> float:
        """Sum of the terms at that step."""


@dataclass
class Ended:
    """A fit in another process that is over."""

    iteration: int
    bound: float


class Bar:
    """A callback that shows the progress of one or more models, in this process or when those of others are over.

    Attributes
    ----------
    models : int
        Models that train in one program.
    """

    models = 1
    _offset = _done = 0

    def open(self) -> None:
        """Go on where the model before ended."""
        self._offset = self._done

    def __call__(self, state: Progressing) -> None:
        """Show the state of training."""
        self._done = self._offset + self.models * state.iteration
        self.show(self._done, state.bound)

    def show(self, done: int, bound: float) -> None:
        """Show the steps of all models so far, and a bound."""

    def close(self) -> None:
        """Stop showing."""


LOG_SECONDS = 10.0
"""Between two lines in a log."""


def say(message: object) -> None:
    """One line on stderr."""
    print(message, file=sys.stderr, flush=True)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line on stderr without its place in the code; replaces `warnings.showwarning`."""
    say(f"Warning: {message}")


def duration(seconds: float) -> str:
    """A length of time for people.

    Examples
    --------
    >>> duration(42), duration(600), duration(7300)
    ('42 s', '10 min', '2 h 2 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def progress(total: int, label: str, *, shown: bool = True) -> Iterator[Callable[[str], Bar]]:
    """Progress on stderr over one or more fits: a bar in a terminal; elsewhere a plain line every ten seconds.

    `total` sums the iterations of all fits; the label stands in front of the bar until the first fit begins. Yields a
    function to call with the label of each fit; it returns a callback for `DeepGPRegressor(callbacks=[...])`.
    """
    from rich.console import Console

    console = Console(stderr=True)
    in_terminal = console.is_terminal and not console.is_dumb_terminal
    # No bar at all in a log, where even a disabled one prints a line.
    bar = _bar("{task.percentage:>3.0f}%", console) if shown and in_terminal else None
    log = _Log(total) if shown and not in_terminal else None
    task = bar.add_task(label, total=total, bound="") if bar is not None else None
    before = Bar()

    class Advance(Bar):
        def __init__(self, name: str) -> None:
            self._name, self._offset = name, before._done
            self._done = self._offset

        def show(self, done: int, bound: float) -> None:
            if bar is not None and task is not None:
                bar.update(task, completed=done, bound=f"bound {bound:.1f}")
            if log is not None:
                log.advance(self._name, done, bound)

    def begin(name: str) -> Bar:
        nonlocal before
        if bar is not None and task is not None:
            bar.update(task, description=name, bound="")
        before = Advance(name)
        return before

    with bar or nullcontext():
        yield begin


def _bar(count: str, console: Console | None = None) -> Progress:
    """A bar with a count of the steps, the time left and the bound."""
    # Imported here: programs that show nothing need no rich.
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(count),
        TimeRemainingColumn(),
        TextColumn("{task.fields[bound]}", markup=False),
        console=console,
    )


class _Log:
    """Lines without control characters, at most one every `LOG_SECONDS`."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._began = self._last = time.monotonic()

    def advance(self, name: str, done: int, bound: float) -> None:
        now = time.monotonic()
        if now - self._last < LOG_SECONDS or done >= self._total:
            return
        self._last = now
        left = (now - self._began) * (self._total - done) / done
        say(f"{name}: {100 * done / self._total:.0f} %, bound {bound:.1f}, about {duration(left)} left")


class ProgressBar(Bar):
    """A callback that shows iterations, time left and the bound, with a label in front of the bar."""

    def __init__(self, total: int, label: str = "training") -> None:
        self._total, self._label = total, label
        self._bar: Progress | None = None

    def show(self, done: int, bound: float) -> None:
        """Show the steps of all models so far, and a bound."""
        if self._bar is None:
            self._bar = _bar("{task.completed}/{task.total}")
            self._bar.add_task(self._label, total=self._total, bound="")
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, bound=f"bound {bound:.1f}")

    def close(self) -> None:
        """Stop updating the bar and release the terminal."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
