"""Noise with heavier tails than a Gaussian: in every row one of a few variances, equally likely."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from gpytorch.constraints import Positive
from jaxtyping import Float
from torch import Tensor, nn

from sodgp.likelihoods.contract import (
    Components,
    Elementwise,
    Likelihood,
    Marginals,
    PerRow,
    RestInputs,
    RowLikelihood,
    Sites,
    Sizes,
    SubsetInputs,
)
from sodgp.likelihoods.gaussian import (
    GaussianLikelihood,
    GaussianOptions,
    NoiseRows,
    VaryingRows,
    expected_log_density,
    normal_log_density,
)
from sodgp.likelihoods.rows import RowWeight
from sodgp.linalg.draws import Draws
from sodgp.predictive.density import log_mixture

__all__ = ["HeavyTailed", "HeavyTailedLikelihood", "LevelNoise"]

# Initial spread of the levels: at 0 the gradient is zero, and all rows would keep the same noise.
START_SPREAD = 0.5
# Values of g in a row: each adds components to a prediction, but with few of them rare outliers widen the noise of all.
N_LEVELS = 8


@dataclass(frozen=True, kw_only=True)
class HeavyTailed(GaussianOptions):
    """Noise for data with outliers: y_n ~ N(f_n, sigma^2 exp(g_n)), g_n one of eight equally likely values.

    Rows have independent g_n. A label of the subset that is far from f loses its weight in q_hat.

    Parameters
    ----------
    outlier_probability : float or None
        As in `GaussianOptions`.

    Examples
    --------
    >>> likelihood = HeavyTailed().build(Sizes(subset=4, input_dim=2, n_outputs=1))
    >>> likelihood.n_levels, likelihood.kl().item()
    (8, 0.0)
    """

    name: ClassVar[str] = "heavy_tailed"
    is_plain: ClassVar[bool] = False
    uses_subset: ClassVar[bool] = True

    def build(self, sizes: Sizes) -> Likelihood:
        """The module with its initial parameters."""
        return HeavyTailedLikelihood(
            sizes.n_outputs, sizes.noise_variance, subset=sizes.subset, dtype=sizes.dtype, replicates=sizes.replicates
        )


class LevelNoise(NamedTuple):
    """E g and E exp(-g) at N rows, where g takes one of a few values.

    Examples
    --------
    >>> noise = HeavyTailedLikelihood(1, 0.1, subset=4)
    >>> noise.at_subset().mean.abs().max().item() < 1e-12  # the values are symmetric around 0
    True
    """

    mean: Float[Tensor, "*batch 1 N P"]
    precision: Float[Tensor, "*batch 1 N P"]


class HeavyTailedLikelihood(GaussianLikelihood):
    """The module of heavy-tailed noise: sigma^2, and g_n independently one of K equally likely values in every row.

    The values are s times the standard normal quantiles at (k + 1/2) / K; at s = 0 the noise is Gaussian. Every row of
    the subset has a q(g_n), K probabilities that start equal. At all other rows g is summed out of the density.

    Parameters
    ----------
    n_outputs : int
        Columns P of y, each with its own s.
    noise_variance : float
        Initial sigma^2.
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

    # The number K of values of g, which is random in every row.
    n_levels: ClassVar[int] = N_LEVELS
    varies: ClassVar[bool] = True

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
        # Its buffers in single precision, whatever PyTorch's default type is.
        constraint = Positive().float()
        start = constraint.inverse_transform(torch.full((*replicates, n_outputs), START_SPREAD, dtype=dtype))
        self.register_parameter("raw_spread", nn.Parameter(start))
        self.register_constraint("raw_spread", constraint)
        logits = torch.zeros(*replicates, subset, n_outputs, N_LEVELS, dtype=dtype)
        self.register_parameter("q_logits", nn.Parameter(logits))

    @property
    def spread(self) -> Float[Tensor, "*replicates P"]:
        """Standard deviation s of the normal distribution whose quantiles are the values of g."""
        return self.raw_spread_constraint.transform(self.raw_spread)

    @property
    def mean_noise_variance(self) -> Float[Tensor, "*replicates 1 P"]:
        """Mean of sigma^2 exp(g)."""
        return self.noise_variance * self.levels().mean(-4).squeeze(-3)

    @property
    def n_parameters(self) -> int:
        """Those of sigma^2 and s, and K - 1 for the K probabilities of every row and output."""
        size, n_outputs, n_levels = self.q_logits.shape[-3:]
        return super().n_parameters + (size * (n_levels - 1) + 1) * n_outputs

    def at(
        self, X_s: SubsetInputs, X: RestInputs, draws: Draws, precision: PerRow | None = None
    ) -> tuple[RowLikelihood, RowLikelihood]:
        """The noise under q(g) at the subset's rows, and a mixture over all levels at the others."""
        sigma2 = self.noise_variance[..., None, :]
        return SubsetLevelRows(sigma2, self.at_subset()), LevelRows(self, draws, X.shape[-2])

    def at_subset(self) -> LevelNoise:
        """E g and E exp(-g) at the subset's rows under q."""
        g = (self.spread.unsqueeze(-1) * self.scores).unsqueeze(-3)  # [*replicates, 1, P, K]
        q = self.q_logits.softmax(-1)
        return LevelNoise((q * g).sum(-1).unsqueeze(-3), (q * (-g).exp()).sum(-1).unsqueeze(-3))

    def levels(self) -> Float[Tensor, "*replicates K 1 1 P"]:
        """The equally likely noise variances of a row, relative to sigma^2."""
        return (self.spread.unsqueeze(-2) * self.scores.unsqueeze(-1)).exp()[..., None, None, :]

    def draw(self, normal: Float[Tensor, "*#batch T N P"]) -> Float[Tensor, "*batch T N P"]:
        """One of the levels for each of these standard normal numbers, by their quantiles."""
        number = (torch.special.ndtr(normal) * N_LEVELS).long().clamp(0, N_LEVELS - 1)
        return (self.spread[..., None, None, :] * self.scores[number]).exp()

    def kl(self, weight: RowWeight | None = None) -> Float[Tensor, "*replicates 1"]:
        """KL(q(g_S) || p(g_S)), summed over observations and outputs: those of one row have the same q(g_n)."""
        log_q = self.q_logits.log_softmax(-1)
        each = log_q.exp() * (log_q + math.log(N_LEVELS))
        if weight is not None:
            each = each * weight.squeeze(-3).unsqueeze(-1)
        return each.sum((-3, -2, -1)).unsqueeze(-1)


class LevelRows(NoiseRows):
    """Rows outside the subset: p(y_n | f_n) = 1/K sum_k N(f_n, sigma^2 level_k)."""

    def __init__(self, likelihood: HeavyTailedLikelihood, draws: Draws, n_rows: int) -> None:
        self._likelihood, self._draws, self._n_rows = likelihood, draws, n_rows
        # [..., K, 1, 1, P]
        self.noise = likelihood.noise_variance[..., None, None, :] * likelihood.levels()

    def noise_variance(self, *, drawn: bool) -> Float[Tensor, "*batch #T #N P"]:
        """The mean over the levels, or a random level for each row and sample."""
        if not drawn:
            return self._likelihood.mean_noise_variance[..., None, :]
        normal = self._draws.rest(self._n_rows, self._likelihood.n_outputs)
        return self._likelihood.noise_variance[..., None, :] * self._likelihood.draw(normal)

    def log_density(self, y: Elementwise, f: Elementwise) -> Float[Tensor, "*batch N P"]:
        """As in `RowLikelihood`."""
        y = y.expand_as(f)  # with an axis for the samples, behind that of the levels
        return log_mixture(normal_log_density(y.unsqueeze(-4), f.unsqueeze(-4), self.noise), dim=-4)

    def expected_log_density(self, y: Elementwise, f: Marginals) -> Float[Tensor, "*replicates"]:
        """Log 1/K sum_k exp E log N(y; f, noise_k), which is below E log p(y | f): the objective remains a bound."""
        mean, variance = (values.unsqueeze(-4) for values in f.rows())
        values = expected_log_density(y.unsqueeze(-4), mean, variance, self.noise)
        return self.counted(log_mixture(values, dim=-4)).sum((-2, -1)).mean(-1)

    def log_predictive_density(
        self, y: Elementwise, mean: Elementwise, variance: Elementwise
    ) -> Float[Tensor, "*batch N P"]:
        """As in `RowLikelihood`."""
        y = y.expand_as(mean)  # with an axis for the samples, behind that of the levels
        values = normal_log_density(y.unsqueeze(-4), mean.unsqueeze(-4), variance.unsqueeze(-4) + self.noise)
        return log_mixture(values, dim=-4)

    def sites(self, y: Float[Tensor, "*#batch 1 M P"]) -> Sites:
        """The labels with the noise variance at g = 0, since these rows have no q(g_n)."""
        return self.sites_with(y, self._likelihood.noise_variance[..., None, :])

    def predictive(self, mean: Elementwise, variance: Elementwise) -> tuple[Components, Components]:
        """A component for every sample of f and every level, C = K T."""
        pair = torch.broadcast_tensors(mean.unsqueeze(-4), variance.unsqueeze(-4) + self.noise)
        return pair[0].flatten(-4, -3), pair[1].flatten(-4, -3)


class SubsetLevelRows(VaryingRows):
    """Rows of the subset, with q(g_n)."""

    def noise_variance(self, *, drawn: bool) -> Float[Tensor, "*batch 1 N P"]:
        """The inverse of the expected precision, sigma^2 / E[exp(-g_n)]."""
        return self.sigma2 / self.g.precision
