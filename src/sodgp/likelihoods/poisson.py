"""Counts whose rate is exp(f): Poisson."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.likelihoods.contract import Elementwise, Likelihood, RowLikelihood, Sizes
from sodgp.likelihoods.latent import QuadratureLikelihood, QuadratureOptions, QuadratureRows, Values, start_of
from sodgp.likelihoods.quadrature import Rule
from sodgp.linalg.draws import Draws
from sodgp.predictive.counts import CountMixture

__all__ = ["Poisson", "PoissonLikelihood", "log_rate"]

# The mean count at which the initial offset begins, where all counts are zero.
_SMALLEST_MEAN = 1e-3


def log_rate(mean: Tensor) -> Tensor:
    """The log of a mean count, which is not negative."""
    return mean.clamp_min(_SMALLEST_MEAN).log()


@dataclass(frozen=True, kw_only=True)
class Poisson(QuadratureOptions):
    """Counts: y ~ Poisson(exp(f + offset)).

    The expected log density is closed, and so are the sites: lambda_2 = exp(m + offset + v/2).

    Parameters
    ----------
    quadrature_order : int
        As in `QuadratureOptions`; used by the predictive density.

    Examples
    --------
    >>> sizes = Sizes(subset=5, input_dim=2, n_outputs=1, target_mean=torch.tensor([10.0]))
    >>> Poisson().build(sizes).offset.exp().item()
    10.0...
    """

    name: ClassVar[str] = "poisson"
    targets: ClassVar[str] = "counts"

    def build(self, sizes: Sizes) -> Likelihood:
        """The module; its offset starts at the log of the mean count."""
        return PoissonLikelihood(start_of(sizes, log_rate), self.quadrature_order)


class PoissonLikelihood(QuadratureLikelihood):
    """The module of Poisson counts.

    Parameters
    ----------
    start : Tensor of shape [*replicates, P]
        Initial offset.
    order : int
        Of the quadrature.
    """

    def rows(self, draws: Draws) -> RowLikelihood:
        """As in `LatentLikelihood`."""
        return PoissonRows(self.offset[..., None, None, :], self.rule)


class PoissonRows(QuadratureRows):
    """log p = y (f + offset) - exp(f + offset) - log y!."""

    def __init__(self, offset: Float[Tensor, "*batch 1 1 P"], rule: Rule) -> None:
        super().__init__(rule)
        self.offset = offset

    def log_density(self, y: Elementwise, f: Elementwise) -> Values:
        """As in `RowLikelihood`."""
        f = f + self.offset
        return y * f - f.exp() - torch.lgamma(y + 1.0)

    def expected(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> Values:
        """Y (m + offset) - exp(m + offset + v/2) - log y!."""
        m = mean + self.offset
        return y * m - (m + 0.5 * variance).exp() - torch.lgamma(y + 1.0)

    def predictive(self, mean: Float[Tensor, "T N P"], variance: Float[Tensor, "#T #N P"]) -> CountMixture:
        """A mixture over samples and nodes of f."""
        f, log_weights = self.components(mean, variance)
        return CountMixture(log_weights, (f + self.offset.flatten(0, -2)).exp(), None)
