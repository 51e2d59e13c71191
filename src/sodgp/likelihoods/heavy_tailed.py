"""Gaussian noise with one of a few variances in every row: heavier tails than a normal distribution has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from gpytorch.constraints import Positive
from torch import Tensor, nn

from sodgp.likelihoods.contract import Likelihood, Marginals, RowLikelihood, Sites, Sizes
from sodgp.likelihoods.gaussian import (
    GaussianLikelihood,
    GaussianOptions,
    NoiseRows,
    expected_log_density,
    normal_log_density,
    varying_log_density,
)
from sodgp.linalg.draws import Draws

__all__ = ["HeavyTailed", "HeavyTailedLikelihood", "LevelNoise"]

# The first spread of the levels: with 0 no gradient would ever lead away from equal rows.
START_SPREAD = 0.5
# Values of g in a row: every one costs components, and with few of them rare outliers widen the noise of all.
N_LEVELS = 8


@dataclass(frozen=True, kw_only=True)
class HeavyTailed(GaussianOptions):
    """y_n ~ N(f_n, sigma^2 exp(g_n)) with g_n one of eight equally likely values, in every row on its own.

    For data with outliers: a label of the subset that is far off loses its weight in q_hat.

    Parameters
    ----------
    outlier_probability : float or None
        As of `Gaussian`.

    Examples
    --------
    >>> likelihood = HeavyTailed().build(Sizes(subset=4, input_dim=2, n_outputs=1))
    >>> likelihood.n_levels, likelihood.kl().item()
    (8, 0.0)
    """

    name: ClassVar[str] = "heavy_tailed"
    is_plain: ClassVar[bool] = False

    def build(self, sizes: Sizes) -> Likelihood:
        """The module at its initial values."""
        return HeavyTailedLikelihood(
            sizes.n_outputs,
            sizes.noise_variance,
            subset=sizes.subset,
            dtype=sizes.dtype,
            replicates=sizes.replicates,
        )


class LevelNoise(NamedTuple):
    """What is known of g at some rows where it takes one of a few values, [..., 1, N, P] each: E g and E exp(-g).

    Examples
    --------
    >>> noise = HeavyTailedLikelihood(1, 0.1, subset=4)
    >>> noise.at_subset().mean.abs().max().item() < 1e-12  # the values lie evenly around 0
    True
    """

    mean: Tensor
    precision: Tensor


class HeavyTailedLikelihood(GaussianLikelihood):
    """Gaussian noise with variance sigma^2 exp(g_n), g_n one of K equally likely values in every row on its own.

    The values are s times the normal quantiles of the middles of K equal parts; at s = 0 the noise is Gaussian. A row
    of the subset has its own q(g_n), K probabilities that are equal to begin with. Of any other row nothing is known:
    there g is summed out of the density.

    Parameters
    ----------
    n_outputs : int
        Targets P, each with its own s.
    noise_variance : float
        Start of sigma^2.
    subset : int
        Rows M of the subset.
    dtype : torch.dtype
    replicates : torch.Size

    Examples
    --------
    >>> noise = HeavyTailedLikelihood(1, 0.1, subset=4)
    >>> noise.at_subset().mean.shape, noise.levels().shape, noise.kl().item()
    (torch.Size([1, 4, 1]), torch.Size([8, 1, 1, 1]), 0.0)
    """

    scores: Tensor
    raw_spread: nn.Parameter
    raw_spread_constraint: Positive
    q_logits: nn.Parameter

    def __init__(
        self,
        n_outputs: int,
        noise_variance: float,
        *,
        subset: int,
        dtype: torch.dtype = torch.float64,
        replicates: torch.Size = torch.Size(),
    ) -> None:
        super().__init__(n_outputs, noise_variance, dtype=dtype, replicates=replicates)
        parts = (torch.arange(N_LEVELS, dtype=torch.float64) + 0.5) / N_LEVELS
        self.register_buffer("scores", torch.special.ndtri(parts).to(dtype), persistent=False)
        # In single precision, whatever PyTorch's default is.
        constraint = Positive().float()
        start = constraint.inverse_transform(torch.full((*replicates, n_outputs), START_SPREAD, dtype=dtype))
        self.register_parameter("raw_spread", nn.Parameter(start))
        self.register_constraint("raw_spread", constraint)
        logits = torch.zeros(*replicates, subset, n_outputs, N_LEVELS, dtype=dtype)
        self.register_parameter("q_logits", nn.Parameter(logits))

    @property
    def spread(self) -> Tensor:
        """Standard deviation s of the normal distribution whose quantiles g takes, [*replicates, P]."""
        return self.raw_spread_constraint.transform(self.raw_spread)

    @property
    def mean_noise_variance(self) -> Tensor:
        """Mean of sigma^2 exp(g)."""
        return self.noise_variance * self.levels().mean(-4).squeeze(-3)

    @property
    def n_parameters(self) -> int:
        """sigma^2, s, and K - 1 numbers for the K probabilities of every row and output."""
        size, n_outputs, n_levels = self.q_logits.shape[-3:]
        return super().n_parameters + (size * (n_levels - 1) + 1) * n_outputs

    @property
    def n_levels(self) -> int:
        """K."""
        return N_LEVELS

    @property
    def varies(self) -> bool:
        """G differs from row to row."""
        return True

    def at(
        self, X_s: Tensor, X: Tensor, draws: Draws, precision: Tensor | None = None
    ) -> tuple[RowLikelihood, RowLikelihood]:
        """With q(g) for the rows of the subset, and all levels for the others."""
        sigma2 = self.noise_variance[..., None, :]
        return SubsetLevelRows(sigma2, self.at_subset()), LevelRows(self, draws, X.shape[-2])

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

    def continues(self, old: Likelihood) -> bool:
        """Never: q(g_S) belongs to the rows of one fit."""
        return False


class LevelRows(NoiseRows):
    """p(y_n | f_n) = 1/K sum_k N(f_n, sigma^2 level_k) at rows of which nothing is known."""

    def __init__(self, likelihood: HeavyTailedLikelihood, draws: Draws, n_rows: int) -> None:
        self._likelihood, self._draws, self._n_rows = likelihood, draws, n_rows
        # [..., K, 1, 1, P]
        self.noise = likelihood.noise_variance[..., None, None, :] * likelihood.levels()

    def noise_variance(self, *, drawn: bool) -> Tensor:
        """Its mean, or a level for each row and sample."""
        if not drawn:
            return self._likelihood.mean_noise_variance[..., None, :]
        normal = self._draws.rest(self._n_rows, self._likelihood.n_outputs)
        return self._likelihood.noise_variance[..., None, :] * self._likelihood.draw(normal)

    def log_density(self, y: Tensor, f: Tensor) -> Tensor:
        """Log p(y | f), elementwise."""
        return _over_levels(normal_log_density(y.unsqueeze(-4), f.unsqueeze(-4), self.noise))

    def expected_log_density(self, y: Tensor, f: Marginals) -> Tensor:
        """Log 1/K sum_k exp E log N(y; f, noise_k), below E log p(y | f): the sum of the terms stays a bound."""
        mean, variance = (values.unsqueeze(-4) for values in f.rows())
        return _over_levels(expected_log_density(y.unsqueeze(-4), mean, variance, self.noise)).sum((-2, -1)).mean(-1)

    def log_predictive_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Log E p(y | f) for f ~ N(mean, variance), elementwise."""
        return _over_levels(
            normal_log_density(y.unsqueeze(-4), mean.unsqueeze(-4), variance.unsqueeze(-4) + self.noise)
        )

    def sites(self, y: Tensor) -> Sites:
        """V is the noise at g = 0, before y is seen."""
        return Sites(y, self._likelihood.noise_variance[..., None, :])

    def predictive(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Every one of T components with every one of K levels, K T in all."""
        pair = torch.broadcast_tensors(mean.unsqueeze(-4), variance.unsqueeze(-4) + self.noise)
        return pair[0].flatten(-4, -3), pair[1].flatten(-4, -3)


class SubsetLevelRows(NoiseRows):
    """The rows of the subset, each with its q(g_n)."""

    def __init__(self, sigma2: Tensor, g: LevelNoise) -> None:
        self.sigma2, self.g = sigma2, g

    def noise_variance(self, *, drawn: bool) -> Tensor:
        """sigma^2 over the expected precision."""
        return self.sigma2 / self.g.precision

    def expected_log_density(self, y: Tensor, f: Marginals) -> Tensor:
        """As of `RowLikelihood`."""
        return varying_log_density(y, f, self.g.mean, self.g.precision, self.sigma2)

    def sites(self, y: Tensor) -> Sites:
        """v_n = sigma^2 / E[exp(-g_n)]."""
        return Sites(y, self.noise_variance(drawn=False))


def _over_levels(values: Tensor) -> Tensor:
    """Log of the mean of exp(values) over the levels, [..., K, T, N, P] -> [..., T, N, P]."""
    return values.logsumexp(-4) - math.log(values.shape[-4])
