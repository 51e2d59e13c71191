"""How much time a fit may take: what the levels of `effort` stand for."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EFFORTS", "Effort"]


@dataclass(frozen=True)
class Effort:
    """Rows of the subset, steps of training, rows of the rest in a step, and members.

    Examples
    --------
    >>> EFFORTS["standard"]
    Effort(subset_size=100, max_iter=1400, batch_rows=200, members=1)
    """

    subset_size: int
    max_iter: int
    batch_rows: int
    members: int = 1


EFFORTS = {
    "quick": Effort(50, 450, 150),
    "standard": Effort(100, 1400, 200),
    "thorough": Effort(200, 2000, 500, members=4),
}
