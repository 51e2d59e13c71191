"""Observation noise whose size varies: the log of its variance is a GP over the inputs, or differs from row to row."""

from __future__ import annotations

from typing import NamedTuple

import gpytorch
import torch
from gpytorch.constraints import Positive
from gpytorch.kernels import Kernel
from torch import Tensor, nn

from sodgp.layers.conditional import condition
from sodgp.layers.families import Gaussian, kl_to_standard_normal
from sodgp.layers.products import OutputVariances
from sodgp.linalg import Jitter, log_diagonal

__all__ = ["HeavyTails", "LogNoise", "NoiseProcess"]

# The first variance of g: noise that varies by a third of itself, until the data ask for more.
START_VARIANCE = 0.1
# The same for rows that differ without a reason: with 0 no gradient would ever lead away from equal rows.
START_SPREAD = 0.5
# Equally likely values of g that stand for its normal law in the likelihood of a row.
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
    >>> from sodgp.kernels import make_kernel
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
        size, width = self.q_mean.shape[-2:]
        replicates = self.q_mean[..., 0, 0].numel()
        others = sum(p.numel() for name, p in self.named_parameters() if not name.startswith("q_")) // replicates
        return size * width + width * size * (size + 1) // 2 + others

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


class HeavyTails(gpytorch.Module):
    """g_n ~ N(0, s^2), on its own for every row: noise with heavier tails than a normal law, Gaussian at s = 0.

    Rows of the subset have a q(g_n) = N(s m_n, s^2 c_n^2) each, with m = 0 and c = 1 to begin with; so a label far off
    loses its weight. Of any other row nothing is known: there g is taken out of the density (`levels`).

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
    >>> X = torch.linspace(-1, 1, 10, dtype=torch.float64)[None, :, None]
    >>> at_subset, at_rest = noise.at(X[:, :4], X[:, 4:])
    >>> at_subset.mean.shape, at_rest.variance.shape, noise.kl().item()
    (torch.Size([1, 4, 1]), torch.Size([1, 1, 1]), 0.0)
    >>> noise.levels().shape
    torch.Size([8, 1, 1, 1])
    """

    raw_spread: nn.Parameter
    raw_spread_constraint: Positive
    q_mean: nn.Parameter
    q_log_std: nn.Parameter

    def __init__(self, *, size: int, n_outputs: int, dtype: torch.dtype, replicates: torch.Size = torch.Size()) -> None:
        super().__init__()
        constraint = Positive()
        start = constraint.inverse_transform(torch.full((*replicates, n_outputs), START_SPREAD, dtype=dtype))
        self.register_parameter("raw_spread", nn.Parameter(start))
        self.register_constraint("raw_spread", constraint)
        for name in ("q_mean", "q_log_std"):
            self.register_parameter(name, nn.Parameter(torch.zeros(*replicates, size, n_outputs, dtype=dtype)))

    @property
    def spread(self) -> Tensor:
        """Standard deviation s of g, [..., 1, 1, P]."""
        return self.raw_spread_constraint.transform(self.raw_spread)[..., None, None, :]

    @property
    def n_parameters(self) -> int:
        """Trained numbers of one replicate."""
        size, n_outputs = self.q_mean.shape[-2:]
        return (2 * size + 1) * n_outputs

    @property
    def kernels(self) -> list[Kernel]:
        """None."""
        return []

    def at(self, X_s: Tensor, X_b: Tensor) -> tuple[LogNoise, LogNoise]:
        """Marginals of g at the subset's rows, and of any other row; the inputs do not matter."""
        spread = self.spread
        subset = LogNoise(spread * self.q_mean.unsqueeze(-3), (spread * self.q_log_std.exp().unsqueeze(-3)).square())
        return subset, _Tails(torch.zeros_like(spread), spread.square())

    def levels(self) -> Tensor:
        """Noise variances relative to sigma^2 that are equally likely for a row, [..., K, 1, 1, P]."""
        spread = self.spread.unsqueeze(-4)
        return (
            spread
            * _normal_scores(
                torch.arange(N_LEVELS, dtype=spread.dtype, device=spread.device)[:, None, None, None], N_LEVELS
            )
        ).exp()

    def kl(self) -> Tensor:
        """KL(q(g_S) || p(g_S)), summed over rows and outputs, [..., 1]."""
        log_std = self.q_log_std
        kl = 0.5 * ((2.0 * log_std).exp() + self.q_mean.square() - 1.0) - log_std
        return kl.sum((-2, -1)).unsqueeze(-1)


class _Tails(LogNoise):
    """Marginals that are drawn once for every row: evenly over the samples, so that few of them know the tails."""

    __slots__ = ()

    def draw(self, normal: Tensor | float) -> Tensor:
        """As of `LogNoise`, with the normal numbers of a row replaced by the quantiles in their order."""
        if isinstance(normal, Tensor) and normal.shape[-3] > 1:
            normal = _normal_scores(normal.argsort(-3).argsort(-3).to(normal.dtype), normal.shape[-3])
        return super().draw(normal)


def _normal_scores(ranks: Tensor, count: int) -> Tensor:
    """Standard normal quantiles of the middles of `count` equally likely parts."""
    return torch.special.ndtri((ranks + 0.5) / count)
