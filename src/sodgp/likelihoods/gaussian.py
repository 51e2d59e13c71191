"""Gaussian noise of one variance for each output: the paper's likelihood."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import gpytorch
import torch
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor, nn

from sodgp.errors import ConfigurationError
from sodgp.layers.prior import register_floored
from sodgp.likelihoods.contract import (
    Components,
    Elementwise,
    Likelihood,
    Marginals,
    NaturalSites,
    PerRow,
    RestInputs,
    RowLikelihood,
    Sites,
    Sizes,
    SubsetInputs,
)
from sodgp.likelihoods.rows import CountedRows, RowWeight
from sodgp.linalg.draws import Draws
from sodgp.predictive.density import log_mixture
from sodgp.system.parameters import Parameters
from sodgp.system.validation import check_share

__all__ = [
    "Gaussian",
    "GaussianLikelihood",
    "GaussianOptions",
    "expected_log_density",
    "normal_log_density",
    "total_log_density",
]


@dataclass(frozen=True, kw_only=True)
class GaussianOptions(Parameters):
    """Options of every Gaussian likelihood.

    Parameters
    ----------
    outlier_probability : float or None
        Probability that a new observation is unlike those in the training data; its distribution is then ten times as
        wide. None is 1 / (N + 1) after N training rows where the objective is ``"predictive"`` or
        ``"leave_one_out"``, which make models more confident than N rows can justify, else 0. Not used in training: it
        can be changed without a new fit.
    """

    outlier_probability: float | None = None

    targets: ClassVar[str] = "numbers"
    is_conjugate: ClassVar[bool] = True
    uses_subset: ClassVar[bool] = False

    def __post_init__(self) -> None:
        share = self.outlier_probability
        if share is not None and check_share("outlier_probability", share) == 1.0:
            raise ConfigurationError("outlier_probability=1 would make every observation an outlier.")


@dataclass(frozen=True, kw_only=True)
class Gaussian(GaussianOptions):
    """Gaussian noise with one variance for all rows, and one for each output.

    Parameters
    ----------
    outlier_probability : float or None
        As in `GaussianOptions`.

    Examples
    --------
    >>> Gaussian().build(Sizes(subset=5, input_dim=2, n_outputs=3)).noise_variance.shape
    torch.Size([1, 3])
    """

    name: ClassVar[str] = "gaussian"
    is_plain: ClassVar[bool] = True

    def build(self, sizes: Sizes) -> Likelihood:
        """The module with its initial parameters."""
        return GaussianLikelihood(sizes.n_outputs, sizes.noise_variance, dtype=sizes.dtype, replicates=sizes.replicates)


class GaussianLikelihood(gpytorch.Module):
    """The module of Gaussian noise: y = f + noise, noise ~ N(0, sigma^2).

    Parameters
    ----------
    n_outputs : int
    noise_variance : float or Tensor of shape [*replicates, P]
        Initial sigma^2.
    dtype : torch.dtype
    replicates : torch.Size

    Examples
    --------
    >>> GaussianLikelihood(2, 0.1).noise_variance
    tensor([[0.1000, 0.1000]], dtype=torch.float64, grad_fn=<UnsqueezeBackward0>)
    """

    # Labels are centred; one component for each sample of f, and the same noise for all rows.
    offset: ClassVar[float] = 0.0
    n_levels: ClassVar[int] = 1
    varies: ClassVar[bool] = False

    raw_noise: nn.Parameter
    raw_noise_constraint: GreaterThan

    def __init__(
        self,
        n_outputs: int,
        noise_variance: float | Float[Tensor, "*replicates P"],
        *,
        dtype: torch.dtype = torch.float64,
        replicates: torch.Size = torch.Size(),
    ) -> None:
        super().__init__()
        self.n_outputs = n_outputs
        start = torch.as_tensor(noise_variance, dtype=dtype).expand(*replicates, n_outputs)
        register_floored(self, "raw_noise", start.clone())

    @property
    def noise_variance(self) -> Float[Tensor, "*replicates 1 P"]:
        """sigma^2 of every output; where the noise varies over rows, the variance at g = 0."""
        return self.raw_noise_constraint.transform(self.raw_noise).unsqueeze(-2)

    @noise_variance.setter
    def noise_variance(self, value: Float[Tensor, "*replicates 1 P"]) -> None:
        raw = self.raw_noise_constraint.inverse_transform(value.squeeze(-2)).to(self.raw_noise)
        with torch.no_grad():
            self.raw_noise.copy_(raw)

    @property
    def mean_noise_variance(self) -> Float[Tensor, "*replicates 1 P"]:
        """Equal to `noise_variance`."""
        return self.noise_variance

    @property
    def n_parameters(self) -> int:
        """One number for each output."""
        return self.n_outputs

    @property
    def kernels(self) -> list[Kernel]:
        """No kernels."""
        return []

    def at(
        self, X_s: SubsetInputs, X: RestInputs, draws: Draws, precision: PerRow | None = None
    ) -> tuple[RowLikelihood, RowLikelihood]:
        """The same noise at all rows."""
        rows = GaussianRows(self)
        return rows, rows

    def kl(self, weight: RowWeight | None = None) -> Float[Tensor, "*replicates 1"] | None:
        """None: there are no latent variables."""
        return None

    def continues(self, old: Likelihood) -> bool:
        """From any likelihood of the same kind, unless it has latent variables: those belong to the rows of one fit."""
        return type(old) is type(self) and self.kl() is None


class NoiseRows(CountedRows, ABC):
    """Base of the Gaussian likelihoods at given rows, p(y_n | f_n) = N(f_n, noise variance of row n)."""

    @abstractmethod
    def noise_variance(self, *, drawn: bool) -> Float[Tensor, "*batch #T #N P"]:
        """As in `RowLikelihood`."""

    @abstractmethod
    def expected_log_density(self, y: Elementwise, f: Marginals) -> Float[Tensor, "*replicates"]:
        """As in `RowLikelihood`."""

    @abstractmethod
    def sites(self, y: Float[Tensor, "*#batch 1 M P"]) -> Sites:
        """The labels, and their noise variances in q_hat, divided by the rows' weights."""

    def natural_sites(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> NaturalSites:
        """The natural parameters of `sites`, y/v and 1/v, whatever the moments of f."""
        label, v = self.sites(y)
        shape = torch.broadcast_shapes(mean.shape, label.shape)
        return NaturalSites((label / v).expand(shape), v.reciprocal().expand(shape))

    def sites_with(self, y: Float[Tensor, "*#batch 1 M P"], variance: Float[Tensor, "*#batch 1 #M P"]) -> Sites:
        """Sites of labels with these noise variances: those of w_n observations have the variance v_n / w_n."""
        return Sites(y, variance if self.weight is None else variance / self.weight)

    def expected_with(
        self, y: Elementwise, f: Marginals, sigma2: Float[Tensor, "*#batch 1 1 P"], g: RelativeNoise
    ) -> Float[Tensor, "*replicates"]:
        """Of log N(y_n; f_n, sigma^2 exp(g_n)), summed over rows, also over g, which is independent of f."""
        with_sites = f.over_sites()
        mean, variance = f.rows() if with_sites is None else (with_sites[0], 0.0)
        squares = ((y - mean).square() + variance) * (g.precision / sigma2)
        value = -0.5 * (math.log(2.0 * math.pi) + sigma2.log() + g.mean + squares)
        total = self.counted(value).sum((-2, -1)).mean(-1)
        # The sites of such rows have the variance sigma^2 / precision, over the weight.
        return total if with_sites is None else total - 0.5 * with_sites[1].sum((-2, -1)).mean(-1)

    def log_density(self, y: Elementwise, f: Elementwise) -> Float[Tensor, "*batch N P"]:
        """As in `RowLikelihood`."""
        return normal_log_density(y, f, self.noise_variance(drawn=True))

    def log_predictive_density(
        self, y: Elementwise, mean: Elementwise, variance: Elementwise
    ) -> Float[Tensor, "*batch N P"]:
        """As in `RowLikelihood`."""
        return normal_log_density(y, mean, variance + self.noise_variance(drawn=False))

    def predictive(self, mean: Elementwise, variance: Elementwise) -> tuple[Components, Components]:
        """One component for each sample of f."""
        return mean, variance + self.noise_variance(drawn=False)

    def log_mixture_density(self, y: Elementwise, f: Marginals) -> Float[Tensor, "*replicates"]:
        """As in `RowLikelihood`."""
        return self.total(log_mixture(self.log_predictive_density(y, *f.rows())))


class GaussianRows(NoiseRows):
    """One noise variance for all rows, which needs no more than sums over rows for its bound."""

    def __init__(self, likelihood: GaussianLikelihood) -> None:
        self._likelihood = likelihood
        self.sigma2 = likelihood.noise_variance[..., None, :]

    def noise_variance(self, *, drawn: bool) -> Float[Tensor, "*batch 1 1 P"]:
        """The trained sigma^2."""
        return self.sigma2

    def expected_log_density(self, y: Elementwise, f: Marginals) -> Float[Tensor, "*replicates"]:
        """As in `RowLikelihood`."""
        if self.weight is None:
            return total_log_density(y, *f.totals(), self.sigma2)
        zero = torch.zeros_like(self.weight)
        return self.expected_with(y, f, self.sigma2, _Relative(zero, 1.0 + zero))

    def sites(self, y: Float[Tensor, "*#batch 1 M P"]) -> Sites:
        """The labels with noise variance sigma^2."""
        # Not `sigma2`, whose gradient would be summed in another order.
        return self.sites_with(y, self._likelihood.noise_variance[..., None, :])


@runtime_checkable
class RelativeNoise(Protocol):
    """E g and E exp(-g) at N rows, where the noise variance of row n is sigma^2 exp(g_n)."""

    @property
    def mean(self) -> PerRow:
        """E g."""

    @property
    def precision(self) -> PerRow:
        """E exp(-g): the expected precision of an observation, relative to 1 / sigma^2."""


class _Relative(NamedTuple):
    """E g and E exp(-g), as given."""

    mean: PerRow
    precision: PerRow


class VaryingRows(NoiseRows):
    """Base of noise variances sigma^2 exp(g_n) that differ between rows, for given sigma^2 and marginals of g."""

    def __init__(self, sigma2: Float[Tensor, "*#batch 1 1 P"], g: RelativeNoise) -> None:
        self.sigma2, self.g = sigma2, g

    def expected_log_density(self, y: Elementwise, f: Marginals) -> Float[Tensor, "*replicates"]:
        """As in `RowLikelihood`."""
        return self.expected_with(y, f, self.sigma2, self.g)

    def sites(self, y: Float[Tensor, "*#batch 1 M P"]) -> Sites:
        """The labels with the noise variances sigma^2 / E[exp(-g_n)]."""
        return self.sites_with(y, self.sigma2 / self.g.precision)


def normal_log_density(
    y: Float[Tensor, "*#shape"], mean: Float[Tensor, "*#shape"], variance: Float[Tensor, "*#shape"]
) -> Float[Tensor, "*shape"]:
    """Log N(y; mean, variance), elementwise."""
    return -0.5 * (math.log(2.0 * math.pi) + variance.log() + (y - mean).square() / variance)


def expected_log_density(
    y: Float[Tensor, "*#shape"],
    mean: Float[Tensor, "*#shape"],
    variance: Float[Tensor, "*#shape"],
    noise_variance: Float[Tensor, "*#shape"],
) -> Float[Tensor, "*shape"]:
    """E log N(y; f, noise) for f ~ N(mean, variance), elementwise.

    Examples
    --------
    >>> zero, one = torch.zeros(3, 1), torch.ones(3, 1)
    >>> expected_log_density(zero, zero, one, one)[0].item()  # -0.5 (log 2 pi + 1)
    -1.4189...
    """
    return -0.5 * (math.log(2.0 * math.pi) + noise_variance.log() + ((y - mean).square() + variance) / noise_variance)


def total_log_density(
    y: Float[Tensor, "*#batch #T N P"],
    mean: Float[Tensor, "*#batch T N P"],
    total_variance: Float[Tensor, "*#batch #T 1 P"],
    noise_variance: Float[Tensor, "*#batch 1 1 P"],
) -> Float[Tensor, "*batch"]:
    """E log N(y; f, noise), summed over rows and outputs and averaged over the Monte Carlo samples.

    Parameters
    ----------
    y, mean : Tensor of shape [..., 1 or T, N, P]
    total_variance : Tensor of shape [..., T, 1, P]
        Variances summed over rows.
    noise_variance : Tensor of shape [..., 1, 1, P]

    Examples
    --------
    >>> y, noise = torch.zeros(1, 3, 1), torch.ones(1, 1, 1)
    >>> total_log_density(y, y, torch.full((1, 1, 1), 3.0), noise).item()  # three times -1.4189
    -4.2568...
    """
    squares = (y - mean).square().sum(-2, keepdim=True) + total_variance
    constant = y.shape[-2] * (math.log(2.0 * math.pi) + noise_variance.log())
    return (-0.5 * (constant + squares / noise_variance)).sum((-2, -1)).mean(-1)
