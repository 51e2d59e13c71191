"""Settings of PyTorch that hold for the whole process, changed while a fit or a prediction runs and then restored."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch


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


@contextmanager
def cpu_threads(count: int | None) -> Iterator[None]:
    """Let PyTorch use `count` threads on the CPU, at most as many as the machine has; None changes nothing."""
    if count is None:
        yield
        return
    count = min(count, os.cpu_count() or 1)
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
