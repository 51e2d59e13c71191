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
from sodgp.likelihoods.latent import LatentLikelihood, QuadratureOptions, QuadratureRows, Values
from sodgp.linalg.draws import Draws
from sodgp.predictive.student import StudentMixture
from sodgp.system.validation import check_positive

__all__ = ["StudentT", "StudentTLikelihood"]

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
        As in `QuadratureOptions`.

    Examples
    --------
    >>> likelihood = StudentT(df=5.0).build(Sizes(subset=5, input_dim=2, n_outputs=1, noise_variance=0.1))
    >>> round(likelihood.df.item(), 4), round(likelihood.noise_variance.item(), 4)
    (5.0, 0.1)
    """

    df: float = 4.0

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


class StudentTLikelihood(LatentLikelihood):
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
        super().__init__(start)
        self.order = order
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
        return StudentTRows(offset, scale, df, self.order)


class StudentTRows(QuadratureRows):
    """log p = log G((df + 1) / 2) - log G(df / 2) - log(pi df scale^2) / 2 - (df + 1) / 2 log(1 + r^2 / (df scale^2)).

    Here r = y - f - offset, and G is the gamma function.
    """

    def __init__(
        self,
        offset: Float[Tensor, "*batch 1 1 P"],
        squared_scale: Float[Tensor, "*batch 1 1 P"],
        df: Float[Tensor, "*batch 1 1 P"],
        order: int,
    ) -> None:
        super().__init__(order)
        self.offset, self.squared_scale, self.df = offset, squared_scale, df

    def log_density(self, y: Elementwise, f: Elementwise) -> Values:
        """As in `RowLikelihood`."""
        width, power = self.df * self.squared_scale, 0.5 * (self.df + 1.0)
        constant = torch.lgamma(power) - torch.lgamma(0.5 * self.df) - 0.5 * (math.log(math.pi) + width.log())
        return constant - power * torch.log1p((y - f - self.offset).square() / width)

    def predictive(self, mean: Float[Tensor, "T N P"], variance: Float[Tensor, "#T #N P"]) -> StudentMixture:
        """A mixture over samples and nodes of f."""
        f, log_weights = self.components(mean, variance)
        location = f + self.offset.flatten(0, -2)
        return StudentMixture(log_weights, location, self.squared_scale.sqrt().flatten(), self.df.flatten())
