"""Uniform random subset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from gpytorch.kernels import Kernel
from torch import Generator

from sodgp.selectors.base import (
    Chosen,
    Rows,
    RowSelector,
    Targets,
    Weights,
    all_rows,
    check_request,
    take_distinct,
)


@dataclass(frozen=True)
class Random(RowSelector):
    """Rows drawn uniformly without replacement (the paper's SoD*).

    Cost: O(N) time and memory for one permutation. Rows that repeat the values of a chosen row are passed over while
    others are left. Rows with weights are drawn one after the other with probabilities in proportion to these.

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

    def select_weighted(
        self, X: Rows, y: Targets | None, size: int, kernel: Kernel | None, generator: Generator, weight: Weights
    ) -> Chosen:
        """As in `WeightedSelector`."""
        check_request(X, y, size)
        if size >= len(X):
            return all_rows(X)
        # The first of independent exponential clocks with these rates is row n with probability w_n / sum w.
        time = torch.empty(len(X), dtype=torch.float64).exponential_(generator=generator).to(X.device) / weight
        return take_distinct(X, time.argsort(stable=True), size).sort().values
