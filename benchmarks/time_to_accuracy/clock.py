"""CPU time of training alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """CPU seconds of this process and its threads since the clock was made, pauses left out."""

    def __init__(self) -> None:
        self._began, self._paused = time.process_time(), 0.0

    @property
    def seconds(self) -> float:
        """So far."""
        return time.process_time() - self._began - self._paused

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave a block out."""
        began = time.process_time()
        try:
            yield
        finally:
            self._paused += time.process_time() - began
