"""Numbers with outliers: Student's t around f, with trained degrees of freedom."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from gpytorch.constraints import GreaterThan
from jaxtyping import Float
from torch import Tensor, nn

from sodgp.errors import ConfigurationError
from sodgp.layers.prior import above, register_floored
from sodgp.likelihoods.contract import Elementwise, Likelihood, RowLikelihood, Sizes
from sodgp.likelihoods.gaussian import normal_log_density
from sodgp.likelihoods.latent import QuadratureLikelihood, QuadratureOptions, QuadratureRows, Values
from sodgp.likelihoods.quadrature import Rule, log_expectation
from sodgp.linalg.draws import Draws
from sodgp.predictive.student import StudentMixture
from sodgp.system.validation import check_positive

__all__ = ["StudentT", "StudentTLikelihood"]

# Where s of `StudentTRows` begins and ends; outside the integrand is rounding for residuals of up to a million scales.
_REACH = -34.0, 3.7

LEAST_DF = 2.0
"""Bound of the degrees of freedom: below it y has no variance."""


@dataclass(frozen=True, kw_only=True)
class StudentT(QuadratureOptions):
    """Numbers with outliers: y = f + offset + scale t, t of Student's distribution with trained degrees of freedom.

    The density is not log-concave: far labels have sites without curvature, which leave q_hat as it is.

    Parameters
    ----------
    df : float
        Initial degrees of freedom, above 2; training keeps them there, so that y has a variance.
    quadrature_order : int
        Nodes of the expectations over f.

    Examples
    --------
    >>> likelihood = StudentT(df=5.0).build(Sizes(subset=5, input_dim=2, n_outputs=1, noise_variance=0.1))
    >>> round(likelihood.df.item(), 4), round(likelihood.noise_variance.item(), 4)
    (5.0, 0.1)
    """

    df: float = 4.0
    quadrature_order: int = 64

    name: ClassVar[str] = "student_t"
    targets: ClassVar[str] = "numbers"

    def __post_init__(self) -> None:
        super().__post_init__()
        if check_positive("df", self.df) <= LEAST_DF:
            raise ConfigurationError(f"df={self.df!r} must be above {LEAST_DF:g}: with less, y has no variance.")

    def build(self, sizes: Sizes) -> Likelihood:
        """The module, with the initial noise variance of `sizes`."""
        start = torch.zeros(*sizes.replicates, sizes.n_outputs, dtype=sizes.dtype)
        return StudentTLikelihood(start, sizes.noise_variance, self.df, self.quadrature_order)


class StudentTLikelihood(QuadratureLikelihood):
    """The module of Student's t.

    Parameters
    ----------
    start : Tensor of shape [*replicates, P]
        Initial offset.
    noise_variance, df : float
        Initial variance of y given f, and degrees of freedom.
    order : int
        Of the quadrature.
    """

    raw_scale: nn.Parameter
    raw_scale_constraint: GreaterThan
    raw_df: nn.Parameter
    raw_df_constraint: GreaterThan

    def __init__(self, start: Float[Tensor, "*replicates P"], noise_variance: float, df: float, order: int) -> None:
        super().__init__(start, order)
        register_floored(self, "raw_scale", torch.full_like(start, noise_variance * (df - LEAST_DF) / df))
        constraint = above(LEAST_DF)
        self.register_parameter("raw_df", nn.Parameter(constraint.inverse_transform(torch.full_like(start, df))))
        self.register_constraint("raw_df", constraint)

    @property
    def squared_scale(self) -> Float[Tensor, "*replicates P"]:
        """The square of the scale of t."""
        return self.raw_scale_constraint.transform(self.raw_scale)

    @property
    def df(self) -> Float[Tensor, "*replicates P"]:
        """Degrees of freedom."""
        return self.raw_df_constraint.transform(self.raw_df)

    @property
    def noise_variance(self) -> Float[Tensor, "*replicates 1 P"]:
        """Variance of y given f, scale^2 df / (df - 2)."""
        return (self.squared_scale * self.df / (self.df - LEAST_DF)).unsqueeze(-2)

    def rows(self, draws: Draws) -> RowLikelihood:
        """As in `LatentLikelihood`."""
        offset, scale, df = (values[..., None, None, :] for values in (self.offset, self.squared_scale, self.df))
        return StudentTRows(offset, scale, df, self.rule)


class StudentTRows(QuadratureRows):
    """log p = log G((df + 1) / 2) - log G(df / 2) - log(pi w) / 2 - (df + 1) / 2 log(1 + r^2 / w), w = df scale^2.

    Here r = y - f - offset, and G is the gamma function. The density may be much narrower than the distribution of f,
    where Gauss-Hermite nodes of f miss it. So both expectations are integrals of Gaussian ones, which are closed::

        E log(1 + r^2 / w) = int (1 - E exp(-u r^2 / w)) exp(-u) / u du          u = exp(s)
        E p(y | f) = int N(y; m + offset, v + scale^2 / a) Gamma(a; df/2, df/2) da        a = exp(z)

    In s and z the integrands are smooth and vanish at both ends: sums over equally spaced nodes converge fast.
    """

    def __init__(
        self,
        offset: Float[Tensor, "*batch 1 1 P"],
        squared_scale: Float[Tensor, "*batch 1 1 P"],
        df: Float[Tensor, "*batch 1 1 P"],
        rule: Rule,
    ) -> None:
        super().__init__(rule)
        self.offset, self.squared_scale, self.df = offset, squared_scale, df

    def log_density(self, y: Elementwise, f: Elementwise) -> Values:
        """As in `RowLikelihood`."""
        return self._with_mean(torch.log1p((y - f - self.offset).square() / (self.df * self.squared_scale)))

    def expected(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> Values:
        """As in `LatentRows`."""
        width = self.df * self.squared_scale
        squares, spread = (y - mean - self.offset).square() / width, variance / width
        start, end = _REACH
        s = torch.linspace(start, end, len(self.rule.nodes), dtype=mean.dtype, device=mean.device)
        u = s.exp().reshape(-1, *[1] * squares.dim())
        widened = 1.0 + 2.0 * u * spread
        lost = -torch.expm1(-0.5 * widened.log() - u * squares / widened)
        return self._with_mean((lost * (-u).exp()).sum(0) * ((end - start) / (len(self.rule.nodes) - 1)))

    def log_predictive_density(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> Values:
        """As in `RowLikelihood`."""
        # Where the density of z is e^-25 of its largest value or less.
        df = self.df.detach()
        bulk, tail = (100.0 / df).sqrt(), 50.0 / df
        share = torch.linspace(0.0, 1.0, len(self.rule.nodes), dtype=mean.dtype, device=mean.device)
        z = torch.lerp(-(bulk + tail), torch.log1p(bulk + tail), share.reshape(-1, *[1] * df.dim()))
        log_weights = (0.5 * self.df * (z - z.exp())).log_softmax(0)
        full = variance + self.squared_scale * (-z).exp()
        return log_expectation(normal_log_density(y - mean - self.offset, torch.zeros_like(full), full), log_weights)

    def predictive(self, mean: Float[Tensor, "T N P"], variance: Float[Tensor, "#T #N P"]) -> StudentMixture:
        """A mixture over samples and nodes of f."""
        f, log_weights = self.components(mean, variance)
        location = f + self.offset.flatten(0, -2)
        return StudentMixture(log_weights, location, self.squared_scale.sqrt().flatten(), self.df.flatten())

    def _with_mean(self, logs: Values) -> Values:
        """The log density, or its expectation, from log(1 + r^2 / w) or the expectation of that."""
        width, power = self.df * self.squared_scale, 0.5 * (self.df + 1.0)
        constant = torch.lgamma(power) - torch.lgamma(0.5 * self.df) - 0.5 * (math.log(math.pi) + width.log())
        return constant - power * logs
