"""Messages on stderr, and progress: a bar in a terminal or notebook, plain lines in a log."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import current_process
from typing import Protocol, TextIO

from sodgp.errors import printable


class Progressing(Protocol):
    """The part of a `sodgp.training.history.TrainingState` that is shown."""

    @property
    def iteration(self) -> int:
        """Steps so far."""

    @property
    def max_iter(self) -> int:
        """Steps of the whole fit."""

    @property
    def bound(self) -> float:
        """Sum of the terms at that step."""

    @property
    def seconds(self) -> float:
        """How long these steps took."""


@dataclass(frozen=True)
class Ended:
    """A fit in another process that is over."""

    iteration: int
    max_iter: int
    bound: float
    seconds: float


LOG_SECONDS = 10.0
"""Between two lines in a log."""

WORTH_SECONDS = 3.0
"""A wait that deserves a bar, or the first line in a log."""

_STEPS_BETWEEN_CALLS = 50


def say(message: object) -> None:
    """One line on stderr."""
    print(printable(str(message)), file=sys.stderr, flush=True)


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


def is_watched() -> bool:
    """Whether somebody sees stderr change, in a terminal or a notebook; nobody does in CI, workers and threads."""
    is_main = current_process().name == "MainProcess" and threading.current_thread() is threading.main_thread()
    if not is_main or "CI" in os.environ:
        return False
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    is_terminal = getattr(sys.stderr, "isatty", lambda: False)() and os.environ.get("TERM") != "dumb"
    return is_terminal or hasattr(shell, "kernel")


class ProgressBar:
    """A callback that shows steps, time left and the bound: as a bar where it `is_watched`, else as lines in a log.

    A bar with `auto` appears only when there is still a while to wait, and is removed at the end.

    Parameters
    ----------
    fits : int
        Models that train, one after another or at once.
    label : str
    auto : bool

    Attributes
    ----------
    models : int
        Models that train in one program, each of whose steps is one for all of them.
    """

    models = 1

    def __init__(self, fits: int, label: str = "training", *, auto: bool = False) -> None:
        self._fits, self._label, self._auto = fits, label, auto
        self._before = self._done = 0.0
        self._width = 0
        self._text, self._is_shown, self._stays = "", False, False
        self._last = time.monotonic()
        self.is_live = is_watched()

    def begin(self, label: str) -> ProgressBar:
        """Announce one of many fits."""
        self._label, self._before = label, self._done
        return self

    def open(self) -> None:
        """Go on where the model before ended."""
        self._before = self._done

    def __call__(self, state: Progressing) -> None:
        """Show the state of training."""
        here = self.models * state.iteration / state.max_iter
        self._done = self._before + here
        now, left = time.monotonic(), state.seconds / here * (self._fits - self._done)
        # The first step takes longer than the others: it only speaks for those until the next call.
        soon = state.seconds * _STEPS_BETWEEN_CALLS / self.models
        is_long = (min(left, soon) if state.iteration == 1 else left) >= WORTH_SECONDS
        share, steps = self._done / self._fits, state.max_iter * self._fits
        percent, done = f"{100 * share:.0f}", "#" * int(20 * share)
        count = f"{percent}%, {round(share * steps)}/{steps}"
        self._text = f"{self._label} [{done:.<20}] {count}, {duration(left)} left, bound {state.bound:.1f}"
        if self.is_live:
            if self._is_shown or is_long or not self._auto:
                self.show()
        elif round(share * steps) < steps and (now - self._last >= LOG_SECONDS or (is_long and not self._is_shown)):
            self._last, self._is_shown = now, True
            say(f"{self._label}: {percent} %, bound {state.bound:.1f}, about {duration(left)} left")

    def show(self) -> None:
        """Draw the bar, or its label while no fit has begun."""
        line = (self._text or self._label)[: shutil.get_terminal_size().columns - 1]
        # What others print next begins at the left.
        _write(f"\r{line.ljust(self._width)}\r")
        self._width, self._is_shown = len(line), True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the bar open from one model to the next."""
        before, self._stays = self._stays, True
        try:
            yield
        finally:
            self._stays = before
            self.close()

    def close(self) -> None:
        """Leave the bar as it is, or with `auto` remove it; one that is held stays open."""
        if self._stays:
            return
        if self.is_live and self._is_shown:
            _write(f"\r{' ' * self._width}\r" if self._auto else "\n")
        elif self._text and not self.is_live:
            say(self._text)
        self._forget()

    def _forget(self) -> None:
        self._text, self._width, self._is_shown = "", 0, False


class _HiddenBar(ProgressBar):
    """A bar that nobody wants to see."""

    def __call__(self, state: Progressing) -> None:
        """Show nothing."""


def _write(text: str) -> None:
    # A terminal that has gone is no reason to end a fit.
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()


@contextmanager
def progress(fits: int, label: str, *, shown: bool = True) -> Iterator[Callable[[str], ProgressBar]]:
    """Progress on stderr over one or more fits: a bar where somebody sees it; elsewhere a line every ten seconds.

    `fits` counts the models of all fits; the label stands alone until the first fit begins. Yields a function to call
    with the label of each fit; it returns a callback for `DeepGPRegressor(callbacks=[...])`.
    """
    bar = ProgressBar(fits, label) if shown else _HiddenBar(fits, label)
    if shown and bar.is_live:
        bar.show()
    with bar.held():
        yield bar.begin
        if not bar.is_live:
            # The command itself says what came of its fits.
            bar._forget()
