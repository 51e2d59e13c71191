"""Ctrl-C that takes effect between two iterations instead of in the middle of one."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from sodgp.errors import NumericalWarning


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
