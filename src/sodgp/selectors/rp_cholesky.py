"""Randomly pivoted Cholesky."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel
from torch import Generator, Tensor

from sodgp.selectors.base import Chosen, Rows, RowSelector, check_at_least, kernel_or_default, take_distinct
from sodgp.selectors.greedy_variance import PartialCholesky


@dataclass(frozen=True)
class RPCholesky(RowSelector):
    """Rows drawn one after the other with probability proportional to their variance given the rows drawn before.

    Less attracted by outliers than the greedy choice, at the same cost: O(N M^2 + N M D) time and O(N M) memory. Rows
    are proposed in blocks from the last known variances, and a proposal is kept with probability (its variance now) /
    (the variance it was proposed with): the distribution of one draw at a time, with far fewer passes over the data.

    Where the conditional variance of every row is at rounding level, the rest of the subset is filled with random rows
    of different values.

    References: Y. Chen, E. N. Epperly, J. A. Tropp and R. J. Webber (2025), Randomly pivoted Cholesky: practical
    approximation of a kernel matrix with few entry evaluations; E. N. Epperly, J. A. Tropp and R. J. Webber (2024),
    Embrace rejection: kernel matrix approximation by accelerated randomly pivoted Cholesky.

    Parameters
    ----------
    block_size : int
        Proposals between two passes over the data; changes the time, not the distribution.

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    >>> RPCholesky().select(X, None, 5, None, torch.Generator().manual_seed(0)).shape
    torch.Size([5])
    """

    block_size: int = 64

    def __post_init__(self) -> None:
        check_at_least(self, 1, "block_size")

    @torch.no_grad()
    def pick(self, X: Rows, size: int, kernel: Kernel | None, generator: Generator) -> Chosen:
        """The choice of `select`: ``size`` rows in the order drawn."""
        factor = PartialCholesky(X, kernel_or_default(kernel, X), size)
        while factor.rank < size and float(factor.residual.max()) > 0.0:
            pivots, L = self._accepted(factor, size - factor.rank, generator)
            if pivots.numel():
                factor.extend(pivots, L)
        if factor.rank == size:
            return factor.pivots
        shuffled = torch.randperm(len(X), generator=generator).to(X.device)
        rest = shuffled[~torch.isin(shuffled, factor.pivots)]
        return take_distinct(X, torch.cat([factor.pivots, rest]), size)

    def _accepted(self, factor: PartialCholesky, limit: int, generator: Generator) -> tuple[Tensor, Tensor]:
        """Pivots accepted from one block of proposals, and the Cholesky factor of their residual covariance."""
        cumulative = factor.residual.cumsum(0)
        uniform = torch.rand(2, self.block_size, dtype=torch.float64, generator=generator).to(cumulative.device)
        proposals = torch.searchsorted(cumulative, uniform[0] * cumulative[-1], right=True)
        proposals.clamp_max_(cumulative.numel() - 1)
        S = factor.residual_covariance(proposals)
        proposed = factor.residual[proposals]
        now = proposed.clone()
        G = torch.zeros_like(S)
        chosen: list[int] = []
        for j in range(self.block_size):
            if len(chosen) == limit:
                break
            if float(now[j]) <= factor.tolerance or float(uniform[1, j] * proposed[j]) >= float(now[j]):
                continue
            m = len(chosen)
            G[m] = (S[j] - G[:m, j] @ G[:m]) / now[j].sqrt()
            now = (now - G[m] ** 2).clamp_min_(0.0)
            chosen.append(j)
        return proposals[chosen], G[: len(chosen), chosen].T.tril()
