"""k-DPP: subsets drawn with probability proportional to the determinant of their kernel matrix."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Generator, Tensor

from sodgp.errors import ConfigurationError
from sodgp.kernels.dense import covariance, variance
from sodgp.linalg.cholesky import Jitter, cholesky
from sodgp.selectors.base import Chosen, Rows, RowSelector, check_at_least, kernel_or_default, take_distinct
from sodgp.selectors.greedy_variance import GreedyVariance

_BLOCK = 256  # swaps proposed between two evaluations of the kernel and two fresh inverses


@dataclass(frozen=True)
class DPP(RowSelector):
    """A draw from the k-DPP: P(S) proportional to det K_SS among the subsets of M rows.

    Up to ``exact_limit`` rows the draw is exact: O(N^3) time and O(N^2) memory for the eigenvectors. Above, it is the
    end of a Markov chain of ``n_steps`` proposed swaps of one row, started at the greedy subset: O(N M^2 + N M D) time
    and O(N M) memory for the start, O(M^2) time a step. The distribution of the chain is the k-DPP in the long
    run only; with many more rows than steps the subset is a randomised greedy one.

    References: A. Kulesza and B. Taskar (2011), k-DPPs: fixed-size determinantal point processes; N. Anari, S. Oveis
    Gharan and A. Rezaei (2016), Monte Carlo Markov chain algorithms for sampling strongly Rayleigh distributions and
    determinantal point processes; for sparse GPs D. R. Burt, C. E. Rasmussen and M. van der Wilk (2020).

    Parameters
    ----------
    exact_limit : int
        Number of rows up to which the draw is exact.
    n_steps : int
        Proposed swaps above that; zero leaves the greedy subset.
    jitter : float
        Added to the diagonal of K, times its mean, in case the kernel cannot tell rows apart.

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    >>> DPP().select(X, None, 5, None, torch.Generator().manual_seed(0)).shape
    torch.Size([5])
    """

    exact_limit: int = 1000
    n_steps: int = 10_000
    jitter: float = 1e-8

    def __post_init__(self) -> None:
        check_at_least(self, 0, "exact_limit", "n_steps")
        if not self.jitter > 0.0:
            raise ConfigurationError(f"DPP: jitter is {self.jitter}; it must be positive.")

    @torch.no_grad()
    def pick(self, X: Rows, size: int, kernel: Kernel | None, generator: Generator) -> Chosen:
        """The choice of `select`: ``size`` rows, ascending."""
        kernel = kernel_or_default(kernel, X)
        # Positive also for a kernel of zero variance.
        jitter = max(self.jitter * float(variance(kernel, X).mean()), 1e-300)
        if self.exact_limit >= len(X):
            K = covariance(kernel, X, X).to(torch.float64)
            drawn = sample_k_dpp(K, size, jitter, generator)
            rest = torch.randperm(len(X), generator=generator).to(X.device)
            # Rows of equal values are drawn only where the kernel matrix has too low a rank for the size.
            drawn = take_distinct(X, torch.cat([drawn, rest[~torch.isin(rest, drawn)]]), size)
        else:
            start = GreedyVariance().select_with_trace(X, size, kernel).indices
            drawn = swap_chain(X, kernel, start, self.n_steps, jitter, generator)
        return drawn.sort().values


@torch.no_grad()
def sample_k_dpp(K: Float[Tensor, "N N"], size: int, jitter: float, generator: Generator) -> Chosen:
    """Draw S with probability det (K + jitter I)_SS / e_M, e_M the elementary symmetric polynomial of the eigenvalues.

    First M eigenvectors are drawn, then M rows from the projection onto them, in the order returned. Cost: O(N^3).
    """
    eigenvalues, eigenvectors = torch.linalg.eigh(K)
    uniform = torch.rand(K.shape[0] + size, dtype=torch.float64, generator=generator).numpy()
    log_values = np.log(eigenvalues.clamp_min(0.0).cpu().numpy() + jitter)
    log_e = log_elementary(log_values, size)
    columns: list[int] = []
    for n in range(K.shape[0], 0, -1):
        wanted = size - len(columns)
        if wanted == 0:
            break
        log_probability = log_values[n - 1] + log_e[wanted - 1, n - 1] - log_e[wanted, n]
        if n == wanted or uniform[n - 1] < np.exp(log_probability):
            columns.append(n - 1)
    V = eigenvectors[:, columns].cpu().numpy()
    left = (V**2).sum(1)
    C = np.zeros((size, K.shape[0]))
    rows: list[int] = []
    for m in range(size):
        cumulative = np.cumsum(left)
        row = int(np.searchsorted(cumulative, uniform[K.shape[0] + m] * cumulative[-1], side="right"))
        C[m] = (V @ V[row] - C[:m, row] @ C[:m]) / np.sqrt(left[row])
        left = np.maximum(left - C[m] ** 2, 0.0)
        left[row] = 0.0
        rows.append(row)
    return torch.tensor(rows, device=K.device)


def log_elementary(log_values: np.ndarray, size: int) -> np.ndarray:
    """Logarithms of the elementary symmetric polynomials: entry [k, n] has degree k in the first n variables.

    In logarithms, since a product of a hundred eigenvalues leaves the range of floating-point numbers.
    """
    table = np.full((size + 1, log_values.size + 1), -np.inf)
    table[0] = 0.0
    for n, log_value in enumerate(log_values, start=1):
        table[1:, n] = np.logaddexp(table[1:, n - 1], log_value + table[:-1, n - 1])
    return table


@torch.no_grad()
def swap_chain(X: Rows, kernel: Kernel, start: Chosen, n_steps: int, jitter: float, generator: Generator) -> Chosen:
    """The last state of a Metropolis chain over subsets that swaps one row at a time and leaves the k-DPP invariant.

    A step proposes to replace a random member by a random row, and accepts with the ratio of the determinants (of
    K + jitter I); a row that repeats the values of another member is refused. Cost: O(M^2) a step.
    """
    M = start.numel()
    members = start.clone()
    keys = _row_keys(X[members])
    taken = Counter(keys)
    for first in range(0, n_steps, _BLOCK):
        B = min(_BLOCK, n_steps - first)
        place = torch.randint(M, (B,), generator=generator).tolist()
        proposal = torch.randint(X.shape[0], (B,), generator=generator).to(X.device)
        uniform = torch.rand(B, dtype=torch.float64, generator=generator).tolist()
        proposal_keys = _row_keys(X[proposal])
        rows = torch.cat([members, proposal])
        K_rows = covariance(kernel, X[rows], X[rows]).to(torch.float64)
        K_rows.diagonal().add_(jitter)
        L = cholesky(K_rows[:M, :M], Jitter(0.0), what="the kernel of the selected rows")
        A = torch.cholesky_inverse(L).cpu().numpy()
        K = K_rows.cpu().numpy()
        position = np.arange(M)  # of each member among the rows
        for step, (j, key) in enumerate(zip(place, proposal_keys, strict=True)):
            if taken[key] - (key == keys[j]) > 0:
                continue
            k = K[M + step, position]
            A_k = A @ k
            a = A[j].copy()
            # Variance of the new row, given the members without row j.
            conditional = K[M + step, M + step] - (k @ A_k - A_k[j] ** 2 / a[j])
            if conditional <= 0.0 or uniform[step] >= a[j] * conditional:
                continue
            w = A_k - a * (A_k[j] / a[j])
            w[j] = -1.0
            A -= np.outer(a, a / a[j])
            A[j] = A[:, j] = 0.0
            A += np.outer(w, w / conditional)
            position[j] = M + step
            taken[keys[j]] -= 1
            taken[key] += 1
            keys[j] = key
        members = rows[torch.from_numpy(position).to(X.device)]
    return members


def _row_keys(X: Rows) -> list[bytes]:
    """Bytes that are equal for rows of equal values."""
    return [row.tobytes() for row in (X + 0.0).cpu().numpy()]
