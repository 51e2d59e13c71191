"""Skeleton of a subset selector: copy it, rename it, replace the middle of `select`.

This one works: farthest-first traversal, which always takes the row farthest from those chosen so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Int64
from torch import Generator, Tensor

from sodgp.selectors.base import all_rows, check_request


@dataclass(frozen=True)
class FarthestFirst:
    """Every row as far as possible from the rows before it; O(N M D) time, O(N) memory.

    Options of a selector are fields of a frozen dataclass. It keeps no state, and takes every random number from the
    generator that it is given, so that one seed gives one subset.

    Parameters
    ----------
    start : {"random", "centre"}
        The first row: drawn at random, or the one nearest to the mean.

    Examples
    --------
    >>> X = torch.linspace(-1.0, 1.0, 11, dtype=torch.float64)[:, None]
    >>> FarthestFirst(start="centre").select(X, None, 3, None, torch.Generator().manual_seed(0)).tolist()
    [5, 0, 10]
    """

    start: str = "random"

    def select(
        self,
        X: Float[Tensor, "N D"],
        y: Float[Tensor, "N P"] | None,
        size: int,
        kernel: Kernel | None,
        generator: Generator,
    ) -> Int64[Tensor, " M"]:
        """Pick `size` rows in the order chosen; see `sodgp.selectors.Selector` for the arguments."""
        # 1. The common checks, with the common messages.
        check_request(X, y, size)
        if size >= len(X):
            return all_rows(X)
        # 2. Your own choice. Never form an N x N matrix: N may be half a million.
        if self.start == "centre":
            newest = (X - X.mean(0)).square().sum(-1).argmin()
        else:
            newest = torch.randint(len(X), (), generator=generator).to(X.device)
        chosen, distance = [newest], torch.full_like(X[:, 0], torch.inf)
        while len(chosen) < size:
            distance = torch.minimum(distance, (X - X[newest]).square().sum(-1))
            distance[newest] = -1.0  # never again, even where rows repeat
            newest = distance.argmax()
            chosen.append(newest)
        # 3. Different row numbers, int64, on the device of X.
        return torch.stack(chosen)
