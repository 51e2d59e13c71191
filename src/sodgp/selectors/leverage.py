"""Ridge leverage scores: exact, by recursive Nystrom sketches, and sampling in proportion to them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Int64
from torch import Generator, Tensor

from sodgp.errors import ConfigurationError
from sodgp.kernels.dense import covariance, variance
from sodgp.linalg.cholesky import Jitter, cholesky, inverse_triangular
from sodgp.selectors.base import (
    Chosen,
    Rows,
    RowSelector,
    all_rows,
    check_at_least,
    check_rows,
    kernel_or_default,
    row_chunks,
    take_distinct,
)

_SMALLEST_RIDGE = 1e-10  # of the mean variance; below it K + ridge I cannot be factorised safely


@dataclass(frozen=True)
class Leverage(RowSelector):
    """Rows drawn without replacement in proportion to their ridge leverage scores.

    The score of row n is [K (K + ridge I)^-1]_nn, between 0 and 1: how much the posterior mean at n depends on y_n.
    With the noise variance as ridge the scores add up to the effective number of parameters.

    Cost: up to ``exact_limit`` rows O(N^3) time and O(N^2) memory; above, with s = ``sketch_size``, O(N s^2 + N s D)
    time and O(N) memory besides X. Scores from a sketch are good while s is well above that number of parameters; with
    fewer rows they are too large, and the choice is closer to a uniform one.

    References: A. Alaoui and M. W. Mahoney (2015), Fast randomized kernel ridge regression with statistical guarantees;
    C. Musco and C. Musco (2017), Recursive sampling for the Nystrom method.

    Parameters
    ----------
    noise_variance : float
        The ridge, in units of the standardised targets.
    exact_limit : int
        Number of rows up to which the scores are exact.
    sketch_size : int
        Expected number of rows in a sketch.

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    >>> Leverage(noise_variance=0.1).select(X, None, 5, None, torch.Generator().manual_seed(0)).shape
    torch.Size([5])
    """

    noise_variance: float = 0.01
    exact_limit: int = 2000
    sketch_size: int = 256

    def __post_init__(self) -> None:
        if not self.noise_variance > 0.0:
            raise ConfigurationError(f"Leverage: noise_variance is {self.noise_variance}; it must be positive.")
        check_at_least(self, 1, "exact_limit", "sketch_size")

    def pick(self, X: Rows, size: int, kernel: Kernel | None, generator: Generator) -> Chosen:
        """The choice of `select`: ``size`` rows in the order drawn."""
        scores = self.scores(X, kernel, generator=generator)
        # A race of exponential clocks with these rates is won in the order of successive draws without replacement.
        uniform = torch.rand(len(X), dtype=torch.float64, generator=generator).to(X.device)
        arrival = -torch.log1p(-uniform).clamp_max(-1e-300) / scores
        return take_distinct(X, arrival.argsort(stable=True), size)

    @torch.no_grad()
    def scores(
        self, X: Rows, kernel: Kernel | None = None, ridge: float | None = None, generator: Generator | None = None
    ) -> Float[Tensor, " N"]:
        """Ridge leverage score of every row, by default with ``noise_variance`` as ridge.

        The generator is for the sketches, above ``exact_limit`` rows.
        """
        check_rows(X)
        ridge = self.noise_variance if ridge is None else ridge
        if not ridge > 0.0:
            raise ConfigurationError(f"The ridge of leverage scores is {ridge}; it must be positive.")
        kernel = kernel_or_default(kernel, X)
        if X.shape[0] <= self.exact_limit:
            return exact_scores(covariance(kernel, X, X).to(torch.float64), ridge)
        generator = Generator().manual_seed(0) if generator is None else generator
        return recursive_scores(X, kernel, ridge, self.sketch_size, generator)


@torch.no_grad()
def exact_scores(K: Float[Tensor, "N N"], ridge: float) -> Float[Tensor, " N"]:
    """Diagonal of K (K + ridge I)^-1 = I - ridge (K + ridge I)^-1, in O(N^3)."""
    ridge = max(ridge, _SMALLEST_RIDGE * float(K.diagonal().mean()))
    L_inv = _whitener(K, torch.full_like(K.diagonal(), ridge))
    return (1.0 - ridge * (L_inv**2).sum(0)).clamp(0.0, 1.0)


@torch.no_grad()
def recursive_scores(
    X: Rows, kernel: Kernel, ridge: float, sketch_size: int, generator: Generator
) -> Float[Tensor, " N"]:
    """Approximate ridge leverage scores from weighted sketches of nested random halves of the data.

    The smallest sample of rows is its own sketch. It gives the scores of a sample twice as large, from which a sketch
    of about ``sketch_size`` rows is drawn, and so on; the sketch drawn from all rows gives the answer. A row kept with
    probability p stands for 1/p rows: it is an observation with noise p times the ridge. With v the variance of a row
    given the sketch, its score is v / ridge if it is in the sketch (v includes its own observation) and v / (v + ridge)
    if it is not. A sketch of all rows gives the exact scores.
    """
    N = X.shape[0]
    order = torch.randperm(N, generator=generator).to(X.device)
    sizes = [N]
    while sizes[-1] > sketch_size:
        sizes.append((sizes[-1] + 1) // 2)
    sketch = order[: sizes[-1]]
    kept = torch.ones(sketch.numel(), dtype=torch.float64, device=X.device)
    for n in reversed(sizes[:-1]):
        rows = order[:n]
        scores = _scores_given(X, rows, kernel, ridge, sketch, kept)
        probability = _inclusion(scores, sketch_size)
        drawn = torch.rand(n, dtype=torch.float64, generator=generator).to(X.device) < probability
        drawn[probability.argmax()] = True  # a sketch is never empty
        sketch, kept = rows[drawn], probability[drawn]
    return _scores_given(X, all_rows(X), kernel, ridge, sketch, kept)


def _scores_given(
    X: Rows,
    rows: Int64[Tensor, " n"],
    kernel: Kernel,
    ridge: float,
    sketch: Int64[Tensor, " s"],
    kept: Float[Tensor, " s"],
) -> Float[Tensor, " n"]:
    """Scores of ``rows`` from the rows of a sketch, each kept with its probability ``kept``."""
    Z = X[sketch]
    K_ZZ = covariance(kernel, Z, Z).to(torch.float64)
    noise = (ridge * kept).clamp_min(_SMALLEST_RIDGE * float(K_ZZ.diagonal().mean()))
    L_inv = _whitener(K_ZZ, noise)
    scores = torch.empty(rows.numel(), dtype=torch.float64, device=X.device)
    for chunk in row_chunks(rows.numel(), 2 * sketch.numel() + X.shape[1]):
        X_chunk = X[rows[chunk]]
        K = covariance(kernel, Z, X_chunk).to(torch.float64)
        v = (variance(kernel, X_chunk) - ((L_inv @ K) ** 2).sum(0)).clamp_min_(0.0)
        scores[chunk] = v / (v + ridge)
    place = torch.empty(X.shape[0], dtype=torch.int64, device=X.device)
    place[rows] = torch.arange(rows.numel(), device=X.device)
    # The score of row n within the sketch is 1 - noise_n [(K_ZZ + noise)^-1]_nn.
    scores[place[sketch]] = (noise / ridge * (1.0 - noise * (L_inv**2).sum(0))).clamp(0.0, 1.0)
    return scores


def _whitener(K: Float[Tensor, "s s"], noise: Float[Tensor, " s"]) -> Float[Tensor, "s s"]:
    """L^-1 for the lower Cholesky factor L of K + diag(noise)."""
    return inverse_triangular(cholesky(K + noise.diag(), Jitter(0.0), what="K + noise of the selection"))


def _inclusion(scores: Float[Tensor, " n"], expected: int) -> Float[Tensor, " n"]:
    """Probabilities in proportion to the scores, but at most one, that add up to ``expected`` where they can."""
    sure = torch.zeros_like(scores, dtype=torch.bool)
    while True:
        others = torch.where(sure, 0.0, scores)
        scale = (expected - int(sure.sum())) / others.sum().clamp_min(1e-300)
        probability = torch.where(sure, 1.0, others * scale)
        if not bool((probability > 1.0).any()):
            return probability
        sure |= probability >= 1.0
