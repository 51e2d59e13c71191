"""Observation noise whose size varies: the log of its variance is a GP over the inputs, or differs from row to row."""

from __future__ import annotations

import math
from typing import NamedTuple

import gpytorch
import torch
from gpytorch.constraints import Positive
from gpytorch.kernels import Kernel
from torch import Tensor, nn

from sodgp.layers.conditional import condition
from sodgp.layers.families import Gaussian, kl_to_standard_normal, trained_numbers
from sodgp.linalg.cholesky import Jitter, log_diagonal
from sodgp.linalg.products import OutputVariances

__all__ = ["HeavyTails", "LevelNoise", "LogNoise", "NoiseProcess"]

# The first variance of g: noise that varies by a third of itself, until the data ask for more.
START_VARIANCE = 0.1
# The same for rows that differ without a reason: with 0 no gradient would ever lead away from equal rows.
START_SPREAD = 0.5
# Values of g in a row: every one costs components, and with few of them rare outliers widen the noise of all.
N_LEVELS = 8


class LogNoise(NamedTuple):
    """Marginals of g at some rows, [..., 1, N, P] each; the noise variance there is sigma^2 exp(g).

    Examples
    --------
    >>> LogNoise(torch.zeros(1, 3, 1), torch.zeros(1, 3, 1)).precision.flatten()
    tensor([1., 1., 1.])
    """

    mean: Tensor
    variance: Tensor

    @property
    def precision(self) -> Tensor:
        """E exp(-g): the expected precision of an observation, relative to 1 / sigma^2."""
        return (0.5 * self.variance - self.mean).exp()

    def draw(self, normal: Tensor | float) -> Tensor:
        """exp(g) for draws of g from standard normal numbers that broadcast to [..., T, N, P]."""
        return (self.mean + self.variance.clamp_min(0.0).sqrt() * normal).exp()


class NoiseProcess(gpytorch.Module):
    """g ~ GP(0, k_g) over the *inputs*, with a Gaussian q(G_S) over the rows of the subset, in whitened form.

    It looks at X itself and not at a hidden layer, so it has no Monte Carlo axis and costs next to nothing beside the
    layers. Where g = 0 the noise is the likelihood's.

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
        k_g.
    size : int
        Rows M of the subset.
    n_outputs : int
        Targets P; each has its own g under the same kernel.
    jitter : Jitter
    dtype : torch.dtype
    replicates : torch.Size

    Examples
    --------
    >>> from sodgp.kernels.make import make_kernel
    >>> noise = NoiseProcess(make_kernel("rbf", 1), size=4, n_outputs=1, jitter=Jitter(), dtype=torch.float64)
    >>> X = torch.linspace(-1, 1, 10, dtype=torch.float64)[None, :, None]
    >>> at_subset, at_rest = noise.at(X[:, :4], X[:, 4:])
    >>> at_subset.mean.shape, at_rest.variance.shape, noise.kl().item()
    (torch.Size([1, 4, 1]), torch.Size([1, 6, 1]), 0.0)
    """

    q_mean: nn.Parameter
    q_factor: nn.Parameter

    def __init__(
        self,
        kernel: Kernel,
        *,
        size: int,
        n_outputs: int,
        jitter: Jitter,
        dtype: torch.dtype,
        replicates: torch.Size = torch.Size(),
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.jitter = jitter
        self.register_parameter("q_mean", nn.Parameter(torch.zeros(*replicates, size, n_outputs, dtype=dtype)))
        factor = torch.eye(size, dtype=dtype).expand(*replicates, n_outputs, size, size)
        self.register_parameter("q_factor", nn.Parameter(factor.clone()))

    @property
    def n_parameters(self) -> int:
        """Trained numbers of one replicate; of a covariance factor only the lower triangle counts."""
        return trained_numbers(self)

    @property
    def kernels(self) -> list[Kernel]:
        """Whose parameters are trained."""
        return [self.kernel]

    def at(self, X_s: Tensor, X_b: Tensor) -> tuple[LogNoise, LogNoise]:
        """Marginals of g at the subset's rows and at other rows.

        Parameters
        ----------
        X_s, X_b : Tensor of shape [..., 1, M, D] and [..., 1, B, D]
        """
        cond = condition(self.kernel, X_s, X_b, self.jitter, what="K_SS of the noise process")
        m, C = self._q()
        image = cond.factor.over_outputs().times(C)
        subset = LogNoise(cond.factor.times(m), image.square().sum(-1).mT)
        rest = LogNoise(cond.A.mT @ m, cond.V.unsqueeze(-1) + OutputVariances.apply(cond.A, C))
        return subset, rest

    def kl(self) -> Tensor:
        """KL(q(G_S) || p(G_S)), summed over outputs, [..., 1]."""
        m, C = self._q()
        return kl_to_standard_normal(Gaussian(m, C), log_diagonal(C).sum(-1))

    def _q(self) -> tuple[Tensor, Tensor]:
        """Mean [..., 1, M, P] and lower-triangular factor [..., 1, P, M, M], with the sample axis in place."""
        return self.q_mean.unsqueeze(-3), self.q_factor.tril().unsqueeze(-4)


class LevelNoise(NamedTuple):
    """What is known of g at some rows where it takes one of a few values, [..., 1, N, P] each: E g and E exp(-g).

    Examples
    --------
    >>> noise = HeavyTails(size=4, n_outputs=1, dtype=torch.float64)
    >>> noise.at_subset().mean.abs().max().item() < 1e-12  # the values lie evenly around 0
    True
    """

    mean: Tensor
    precision: Tensor


class HeavyTails(gpytorch.Module):
    """g_n is one of K equally likely values, in every row on its own: heavier tails than a normal law has.

    The values are s times the normal quantiles of the middles of K equal parts; at s = 0 the noise is Gaussian. A row
    of the subset has its own q(g_n), K probabilities that are equal to begin with; so a label far off loses its weight.
    Of any other row nothing is known: there g is taken out of the density (`levels`).

    Parameters
    ----------
    size : int
        Rows M of the subset.
    n_outputs : int
        Targets P, each with its own s.
    dtype : torch.dtype
    replicates : torch.Size

    Examples
    --------
    >>> noise = HeavyTails(size=4, n_outputs=1, dtype=torch.float64)
    >>> noise.at_subset().mean.shape, noise.levels().shape, noise.kl().item()
    (torch.Size([1, 4, 1]), torch.Size([8, 1, 1, 1]), 0.0)
    """

    scores: Tensor
    raw_spread: nn.Parameter
    raw_spread_constraint: Positive
    q_logits: nn.Parameter

    def __init__(self, *, size: int, n_outputs: int, dtype: torch.dtype, replicates: torch.Size = torch.Size()) -> None:
        super().__init__()
        parts = (torch.arange(N_LEVELS, dtype=torch.float64) + 0.5) / N_LEVELS
        self.register_buffer("scores", torch.special.ndtri(parts).to(dtype), persistent=False)
        # In single precision, whatever PyTorch's default is.
        constraint = Positive().float()
        start = constraint.inverse_transform(torch.full((*replicates, n_outputs), START_SPREAD, dtype=dtype))
        self.register_parameter("raw_spread", nn.Parameter(start))
        self.register_constraint("raw_spread", constraint)
        logits = torch.zeros(*replicates, size, n_outputs, N_LEVELS, dtype=dtype)
        self.register_parameter("q_logits", nn.Parameter(logits))

    @property
    def spread(self) -> Tensor:
        """Standard deviation s of the normal law whose quantiles g takes, [*replicates, P]."""
        return self.raw_spread_constraint.transform(self.raw_spread)

    @property
    def n_parameters(self) -> int:
        """Trained numbers of one replicate; K probabilities are K - 1 numbers."""
        size, n_outputs, n_levels = self.q_logits.shape[-3:]
        return (size * (n_levels - 1) + 1) * n_outputs

    @property
    def kernels(self) -> list[Kernel]:
        """There is none to train."""
        return []

    def at_subset(self) -> LevelNoise:
        """E g and E exp(-g) at the subset's rows under q."""
        g = (self.spread.unsqueeze(-1) * self.scores).unsqueeze(-3)  # [*replicates, 1, P, K]
        q = self.q_logits.softmax(-1)
        return LevelNoise((q * g).sum(-1).unsqueeze(-3), (q * (-g).exp()).sum(-1).unsqueeze(-3))

    def levels(self) -> Tensor:
        """Noise variances relative to sigma^2 that are equally likely for a row, [*replicates, K, 1, 1, P]."""
        return (self.spread.unsqueeze(-2) * self.scores.unsqueeze(-1)).exp()[..., None, None, :]

    def draw(self, normal: Tensor) -> Tensor:
        """One of the levels for each of these standard normal numbers [*replicates, T, N, P], by their quantiles."""
        number = (torch.special.ndtr(normal) * N_LEVELS).long().clamp(0, N_LEVELS - 1)
        return (self.spread[..., None, None, :] * self.scores[number]).exp()

    def kl(self) -> Tensor:
        """KL(q(g_S) || p(g_S)), summed over rows and outputs, [*replicates, 1]."""
        log_q = self.q_logits.log_softmax(-1)
        return (log_q.exp() * (log_q + math.log(N_LEVELS))).sum((-3, -2, -1)).unsqueeze(-1)


def crossed(mean: Tensor, variance: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Every one of T components [..., T, N, P] of f with every one of K noise variances [..., K, 1, 1, P].

    Returns
    -------
    mean, variance : Tensor of shape [..., K T, N, P]
    """
    pair = torch.broadcast_tensors(mean.unsqueeze(-4), variance.unsqueeze(-4) + noise)
    return pair[0].flatten(-4, -3), pair[1].flatten(-4, -3)
