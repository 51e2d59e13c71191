"""What a fresh process does first: outside ``__main__``, which it could not import."""

from __future__ import annotations

import torch


def one_thread() -> None:
    """Matrices this small gain nothing by more threads, and processes that share cores lose by them."""
    torch.set_num_threads(1)
