"""What programs say: notes and errors on stderr, and progress, as a bar in a terminal and as plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress


class Progressing(Protocol):
    """What is shown of a run: `sodgp.training.history.TrainingState` has it."""

    @property
    def iteration(self) -> int:
        """Steps that are done."""
        ...

    @property
    def bound(self) -> float:
        """Sum of the terms at that step."""
        ...


Advance = Callable[[Progressing], None]

# Of the lines that stand for a bar in a log.
LOG_SECONDS = 10.0


def say(message: object) -> None:
    """One line on stderr."""
    print(message, file=sys.stderr, flush=True)


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """A warning as one line on stderr, without the place in the code: a replacement for `warnings.showwarning`."""
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
def progress(total: int, label: str, *, shown: bool = True) -> Iterator[Callable[[str], Advance]]:
    """Progress on stderr over one fit or several: a bar in a terminal; elsewhere a plain line every ten seconds.

    Parameters
    ----------
    total : int
        Iterations of all fits together.
    label : str
        In front of the bar until the first fit begins.
    shown : bool
        False shows nothing.

    Yields
    ------
    function (label) -> callback
        To be called once for each fit; the callback goes to `DeepGPRegressor(callbacks=[...])`.
    """
    from rich.console import Console

    console = Console(stderr=True)
    in_terminal = console.is_terminal and not console.is_dumb_terminal
    bar = _Bar(console, total, label) if shown and in_terminal else None
    log = _Log(total) if shown and not in_terminal else None
    done = 0

    def begin(name: str) -> Advance:
        nonlocal done
        offset, done = done, done
        if bar is not None:
            bar.begin(name)

        def advance(state: Progressing) -> None:
            nonlocal done
            done = offset + state.iteration
            for display in (bar, log):
                if display is not None:
                    display.advance(name, done, state.bound)

        return advance

    with bar.live if bar is not None else nullcontext():
        yield begin


class _Bar:
    """A bar with the time left and the bound. Not made at all in a log, where even one that is off prints a line."""

    def __init__(self, console: Any, total: int, label: str) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[bound]}", markup=False),
        )
        self.live = Progress(*columns, console=console)
        self._task = self.live.add_task(label, total=total, bound="")

    def begin(self, name: str) -> None:
        self.live.update(self._task, description=name, bound="")

    def advance(self, name: str, done: int, bound: float) -> None:
        self.live.update(self._task, completed=done, bound=f"bound {bound:.1f}")


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


class ProgressBar:
    """A callback that shows iterations, time left and the bound.

    Parameters
    ----------
    max_iter : int
    label : str
        Shown in front of the bar.
    """

    def __init__(self, max_iter: int, label: str = "training") -> None:
        self._max_iter, self._label = max_iter, label
        self._bar: Progress | None = None

    def __call__(self, state: Progressing) -> None:
        """Show the state of training."""
        if self._bar is None:
            self._bar = self._started()
        self._bar.update(self._bar.task_ids[0], completed=state.iteration, bound=f"{state.bound:.1f}")

    def close(self) -> None:
        """Leave the bar as it is and give the terminal back."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _started(self) -> Progress:
        # Imported here: what shows nothing, a model that is loaded from a file included, needs no rich.
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn(self._label), BarColumn(), "{task.completed}/{task.total}", TimeRemainingColumn())
        bar = Progress(*columns, TextColumn("bound {task.fields[bound]}"))
        bar.add_task(self._label, total=self._max_iter, bound="")
        bar.start()
        return bar
