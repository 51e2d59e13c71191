"""What all p(y | f) at given rows share: how many observations each row stands for."""

from __future__ import annotations

import copy
from typing import Any

from jaxtyping import Float
from torch import Tensor

__all__ = ["CountedRows", "RowWeight"]

# One number for every row, the same for all samples and outputs.
RowWeight = Float[Tensor, "*#batch 1 N 1"]


class CountedRows:
    """Rows that count once each, until `weighted` says how often.

    Examples
    --------
    >>> import torch
    >>> CountedRows().weighted(torch.full((1, 3, 1), 2.0)).counted(torch.ones(1, 3, 1)).sum().item()
    6.0
    """

    weight: RowWeight | None = None

    def weighted(self, weight: RowWeight | None) -> Any:
        """The same rows, each of which stands for `weight` observations; None for one each."""
        if weight is None:
            return self
        rows = copy.copy(self)
        rows.weight = weight
        return rows

    def counted(self, values: Float[Tensor, "*batch N P"]) -> Float[Tensor, "*batch N P"]:
        """Values of single observations times the rows' weights."""
        return values if self.weight is None else values * self.weight

    def total(self, values: Float[Tensor, "*batch N P"]) -> Float[Tensor, "*batch"]:
        """The sum over rows and outputs of values that have no sample axis, each times its row's weight."""
        counted = values if self.weight is None else values * self.weight.squeeze(-3)
        return counted.sum((-2, -1))
