"""Seconds of one selection against the number of rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from benchmarks.year_like import year_like
from sodgp.selectors import get_selector

ROWS = (1_000, 10_000, 100_000, 500_000)


def selection_times(
    selectors: Sequence[str], rows: Sequence[int] = ROWS, *, size: int = 100, columns: int = 90
) -> Iterator[dict[str, Any]]:
    """Time every selector on standardised synthetic rows, on the CPU.

    Parameters
    ----------
    selectors : sequence of str
    rows : sequence of int
        Values of N.
    size, columns : int
        M and D.

    Yields
    ------
    dict
        ``selector``, ``rows``, ``size``, ``columns`` and ``seconds``.
    """
    for n_rows in rows:
        X = torch.as_tensor(year_like(n_rows, columns, random_state=0).X)
        X = (X - X.mean(0)) / X.std(0)
        for name in selectors:
            began = time.perf_counter()
            get_selector(name).select(X, None, size, None, torch.Generator().manual_seed(0))
            seconds = time.perf_counter() - began
            yield {"selector": name, "rows": n_rows, "size": size, "columns": columns, "seconds": seconds}
