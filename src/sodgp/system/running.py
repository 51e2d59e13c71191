"""The process while a fit or a prediction runs: PyTorch's settings, restored afterwards, and Ctrl-C, which waits.

Settings of PyTorch hold for the whole process; Ctrl-C takes effect between two iterations instead of in the middle of
one.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, TypeVar

import joblib
import torch

from sodgp.errors import NumericalWarning

_STAT = Path("/proc/stat")
C = TypeVar("C", bound=type)


@contextmanager
def gradients() -> Iterator[None]:
    """Record gradients inside the block, wherever it is called: BoTorch conditions models with gradients off."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


@dataclass
class _Threads:
    """Thread counts set by open blocks, and the one before them: a new thread inherits the one in force."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    inside: list[int] = field(default_factory=list)
    outside: int = 1


_THREADS = _Threads()


def idle_cores(seconds: float = 0.1) -> int:
    """Physical cores that this process may use and that nobody else uses, looked at for so long; at least 1.

    It is 1 where the system does not say how busy its cores are (/proc/stat of Linux).
    """
    try:
        before = _busy_ticks()
        time.sleep(seconds)
        after = _busy_ticks()
        allowed = os.sched_getaffinity(0)
    except (OSError, ValueError, AttributeError):
        return 1
    # Ticks are of 10 ms, and a system at rest has some, too.
    busy = sum(after.get(core, 0) - before.get(core, 0) > 1 for core in allowed)
    return max(1, joblib.cpu_count(only_physical_cores=True) - busy)


def _busy_ticks() -> dict[int, int]:
    """Ticks in which each core was not idle since the system started."""
    busy = {}
    for line in _STAT.read_text().splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name != "cpu":
            user, nice, system, _idle, _waiting, *others = map(int, ticks[:8])
            busy[int(name[3:])] = user + nice + system + sum(others)
    return busy


@contextmanager
def cpu_threads(count: int | str | None) -> Iterator[None]:
    """Let PyTorch use `count` threads on the CPU, at most as many as the machine has; None changes nothing.

    What "auto" stands for is found by `idle_cores` where a fit begins; elsewhere it is one thread.
    """
    if count is None:
        yield
        return
    count = min(count, os.cpu_count() or 1) if isinstance(count, int) else 1
    with _THREADS.lock:
        before = torch.get_num_threads()
        is_borrowed = before in _THREADS.inside
        if not _THREADS.inside:
            _THREADS.outside = before
        _THREADS.inside.append(count)
        if count != before:
            torch.set_num_threads(count)
    try:
        yield
    finally:
        with _THREADS.lock:
            _THREADS.inside.remove(count)
            # The count found at the start may be that of another thread's block, which is over by now.
            is_over = is_borrowed and before not in _THREADS.inside
            back = _THREADS.outside if is_over else before
            if back != torch.get_num_threads():
                torch.set_num_threads(back)


def in_own_threads(cls: C) -> C:
    """A class whose public methods and properties compute with the CPU threads that the object's `n_threads` says.

    For objects that compute long after they were made, such as predictive distributions. Constructors and class methods
    have no object yet and use `cpu_threads` themselves.

    Examples
    --------
    >>> @in_own_threads
    ... class Answer:
    ...     n_threads = 1
    ...
    ...     @property
    ...     def threads(self):
    ...         return torch.get_num_threads()
    >>> with cpu_threads(2):
    ...     Answer().threads
    1
    """
    for name, entry in list(vars(cls).items()):
        if name.startswith("_") and name != "__getitem__":
            continue
        if isinstance(entry, property) and entry.fget is not None:
            setattr(cls, name, property(_limited(entry.fget), doc=entry.__doc__))
        elif inspect.isfunction(entry):
            setattr(cls, name, _limited(entry))
    return cls


def _limited(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def limited(self: Any, *arguments: Any, **named: Any) -> Any:
        with cpu_threads(self.n_threads):
            return method(self, *arguments, **named)

    return limited


class _History(Protocol):
    @property
    def stopped(self) -> str: ...


class _Fitted(Protocol):
    @property
    def history_(self) -> _History: ...


@dataclass
class Interrupt:
    """Whether somebody has asked training to stop."""

    requested: bool = False


@contextmanager
def deferred_interrupt() -> Iterator[Interrupt]:
    """Note the first Ctrl-C inside the block; the second raises KeyboardInterrupt at once.

    It works in the main thread, where Python handles signals, and if the program has not set its own handler.
    """
    interrupt = Interrupt()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupt
        return

    def note(number: int, frame: FrameType | None) -> None:
        if interrupt.requested:
            signal.default_int_handler(number, frame)
        interrupt.requested = True

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def only_whole(estimators: Sequence[_Fitted]) -> Iterator[None]:
    """Raise KeyboardInterrupt after a block in which Ctrl-C ended the fit of one of these estimators early.

    For programs that run many fits and have no use for an incomplete one.
    """
    with warnings.catch_warnings():
        # They explain how an incomplete model can be used.
        warnings.filterwarnings("ignore", "(training was interrupted|the sampler was stopped)", NumericalWarning)
        yield
    if any(estimator.history_.stopped == "interrupted" for estimator in estimators):
        raise KeyboardInterrupt
