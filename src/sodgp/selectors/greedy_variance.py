"""Greedy conditional variance: the partial Cholesky factorisation with complete pivoting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Int64
from torch import Generator, Tensor

from sodgp.kernels.dense import covariance, variance
from sodgp.linalg.cholesky import inverse_triangular
from sodgp.selectors.base import (
    Chosen,
    Rows,
    RowSelector,
    all_rows,
    check_at_least,
    check_request,
    check_rows,
    kernel_or_default,
    row_chunks,
    take_distinct,
)

ROUNDING = 1e-12
"""A conditional variance below this fraction of the largest prior variance is rounding error."""


class Selection(NamedTuple):
    """Rows in the order of selection; ``traces[m]`` is that of K - K_NS K_SS^-1 K_SN for the first m + 1 rows."""

    indices: Chosen
    traces: Float[Tensor, " M"]


@dataclass(frozen=True)
class GreedyVariance(RowSelector):
    """The row of largest variance given the rows chosen before, again and again.

    The order is that of Cholesky with complete pivoting, and of greedy maximisation of det K_SS. Cost: O(N M^2 + N M D)
    time and O(N M) memory, N x M kernel entries. A conditional variance only falls as rows are chosen, so an old value
    is an upper bound: ``pool_size`` leading rows are followed exactly, and the other rows are brought up to date,
    several choices at once, only when one of them could overtake.

    Where the conditional variance of every row is at rounding level the kernel can tell no more rows apart, and the
    rest of the subset is filled with other rows of different values in a fixed shuffled order. The generator is not
    used.

    References: D. R. Burt, C. E. Rasmussen and M. van der Wilk (2020), Convergence of sparse variational inference in
    Gaussian processes regression; S. Fine and K. Scheinberg (2001), Efficient SVM training using low-rank kernel
    representations; M. Minoux (1978), Accelerated greedy algorithms for maximizing submodular set functions.

    Parameters
    ----------
    pool_size : int
        Rows that are followed exactly between two updates of all rows; changes the time only.

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    >>> GreedyVariance().select(X, None, 5, None, torch.Generator().manual_seed(0)).shape
    torch.Size([5])
    """

    pool_size: int = 512

    def __post_init__(self) -> None:
        check_at_least(self, 1, "pool_size")

    def pick(self, X: Rows, size: int, kernel: Kernel | None, generator: Generator) -> Chosen:
        """The choice of `select`: ``size`` rows in greedy order."""
        return self.select_with_trace(X, size, kernel).indices

    def select_with_trace(self, X: Rows, size: int, kernel: Kernel | None = None) -> Selection:
        """Pick ``size`` rows (at most N) in greedy order, and report the remaining trace after each."""
        check_request(X, None, size)
        size = min(size, X.shape[0])
        indices, traces = self._grow(X, kernel, size, threshold=None)
        if indices.numel() < size:
            shuffled = torch.randperm(X.shape[0], generator=Generator().manual_seed(0)).to(X.device)
            rest = shuffled[~torch.isin(shuffled, indices)]
            indices = take_distinct(X, torch.cat([indices, rest]), size)
            traces = torch.cat([traces, traces[-1:].expand(size - traces.numel())])
        return Selection(indices, traces)

    def select_until(self, X: Rows, kernel: Kernel | None, threshold: float, max_size: int) -> Selection:
        """Pick rows until the remaining trace is below ``threshold``, or ``max_size`` rows are chosen; at least one.

        Fewer rows come back also where further ones would lower the trace by rounding errors only.
        """
        check_request(X, None, max_size)
        return self._grow(X, kernel, min(max_size, X.shape[0]), threshold)

    @torch.no_grad()
    def _grow(self, X: Tensor, kernel: Kernel | None, size: int, threshold: float | None) -> Selection:
        factor = PartialCholesky(X, kernel_or_default(kernel, X), size)
        while factor.rank < size:
            pivots, L = self._leaders(factor, size - factor.rank)
            if pivots.numel() == 0:
                break
            factor.extend(pivots, L)
            if threshold is not None and float(factor.traces[-1]) < threshold:
                break
        indices, traces = factor.pivots, factor.traces
        if indices.numel() == 0:  # a kernel of zero variance: any row is as good as another
            return Selection(all_rows(X)[:1], factor.residual.sum()[None])
        if threshold is not None:
            enough = int((traces >= threshold).sum()) + 1  # traces fall, so this many rows reach the threshold first
            indices, traces = indices[:enough], traces[:enough]
        return Selection(indices, traces)

    def _leaders(self, factor: PartialCholesky, limit: int) -> tuple[Tensor, Tensor]:
        """Next pivots, as many as can be known without touching all rows, and the Cholesky factor of their residual."""
        residual = factor.residual
        N = residual.numel()
        leaders = residual.argmax()[None]
        bound = factor.tolerance
        if self.pool_size < N:
            top = residual.topk(self.pool_size + 1)
            pool = torch.cat([leaders, top.indices[:-1][top.indices[:-1] != leaders].sort().values])
            bound = max(bound, float(top.values[-1]))
        else:
            pool = all_rows(factor.X)
        S = factor.residual_covariance(pool)
        left = residual[pool].clone()
        G = S.new_zeros(limit, pool.numel())
        chosen: list[int] = []
        for m in range(min(limit, pool.numel())):
            j = int(left.argmax())
            # The first pivot is the largest of all; a later one must beat every row outside the pool.
            if float(left[j]) <= (bound if m else factor.tolerance):
                break
            G[m] = (S[j] - G[:m, j] @ G[:m]) / left[j].sqrt()
            left = (left - G[m] ** 2).clamp_min_(0.0)
            left[j] = 0.0
            chosen.append(j)
        return pool[chosen], G[: len(chosen), chosen].T.tril()


class PartialCholesky:
    """A growing factorisation K ~ G' G of the kernel matrix of all rows, by at most `size` pivot rows.

    ``residual`` [N] is the conditional variance of every row given the pivots, exactly zero at the pivots and wherever
    it is below its rounding level ``tolerance``. Cost: N (D + M) per pivot, in chunks of rows; O(N M) memory.
    """

    def __init__(self, X: Rows, kernel: Kernel, size: int) -> None:
        check_rows(X)
        self.X = X
        self.kernel = kernel
        self.residual = variance(kernel, X).to(torch.float64).clone()
        self.tolerance = ROUNDING * float(self.residual.max())
        # One pivot a row, so that memory is touched only as pivots come.
        self._G = torch.empty(size, X.shape[0], dtype=torch.float64, device=X.device)
        self._pivots: list[Tensor] = [torch.empty(0, dtype=torch.int64, device=X.device)]
        self._traces: list[Tensor] = [self._G.new_empty(0)]
        self.rank = 0

    @property
    def pivots(self) -> Chosen:
        """Pivot rows in their order."""
        return torch.cat(self._pivots)

    @property
    def traces(self) -> Float[Tensor, " M"]:
        """Sum of the residual after each pivot."""
        return torch.cat(self._traces)

    def residual_covariance(self, rows: Int64[Tensor, " B"]) -> Float[Tensor, "B B"]:
        """Covariance of some rows given the pivots."""
        G = self._G[: self.rank, rows]
        return covariance(self.kernel, self.X[rows], self.X[rows]).to(torch.float64) - G.T @ G

    def extend(self, rows: Int64[Tensor, " B"], L: Float[Tensor, "B B"]) -> None:
        """Make ``rows`` the next pivots; ``L`` is the lower Cholesky factor of their ``residual_covariance``."""
        B = rows.numel()
        old, new = slice(0, self.rank), slice(self.rank, self.rank + B)
        Z, G_Z = self.X[rows], self._G[old, rows]
        L_inv = inverse_triangular(L)
        removed = self._G.new_zeros(B)
        for chunk in row_chunks(self.X.shape[0], 2 * B + self.X.shape[1]):
            K = covariance(self.kernel, Z, self.X[chunk]).to(torch.float64)
            G = L_inv @ (K - G_Z.T @ self._G[old, chunk])
            squares = G**2
            self._G[new, chunk] = G
            self.residual[chunk] -= squares.sum(0)
            removed += squares.sum(1)
        self.residual[rows] = 0.0
        self.residual[self.residual <= self.tolerance] = 0.0
        self.rank += B
        self._pivots.append(rows)
        # Summed from the end, the traces within a block are never negative and never rise.
        later = removed.flip(0).cumsum(0).flip(0)
        self._traces.append(self.residual.sum() + torch.cat([later[1:], later.new_zeros(1)]))
