"""Uniform random subset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from gpytorch.kernels import Kernel
from torch import Generator

from sodgp.selectors.base import Chosen, Rows, RowSelector, take_distinct


@dataclass(frozen=True)
class Random(RowSelector):
    """Rows drawn uniformly without replacement (the paper's SoD*).

    Cost: O(N) time and memory for one permutation. Rows that repeat the values of a chosen row are passed over while
    others are left.

    Reference: A. Jain, P. K. Srijith and M. E. Khan (2021), Subset-of-data variational inference for deep Gaussian
    processes regression, which compares it with k-means.

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    >>> Random().select(X, None, 5, None, torch.Generator().manual_seed(0)).shape
    torch.Size([5])
    """

    takes_any_number: ClassVar[bool] = True

    def pick(self, X: Rows, size: int, kernel: Kernel | None, generator: Generator) -> Chosen:
        """The choice of `select`: ``size`` rows at random, ascending."""
        order = torch.randperm(len(X), generator=generator).to(X.device)
        return take_distinct(X, order, size).sort().values
