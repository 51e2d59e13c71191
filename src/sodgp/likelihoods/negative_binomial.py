"""Counts with the mean exp(f) and a variance above it: negative binomial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from gpytorch.constraints import GreaterThan
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from sodgp.layers.prior import register_floored
from sodgp.likelihoods.contract import Elementwise, Likelihood, RowLikelihood, Sizes
from sodgp.likelihoods.latent import QuadratureLikelihood, QuadratureOptions, QuadratureRows, Values, start_of
from sodgp.likelihoods.poisson import log_rate
from sodgp.likelihoods.quadrature import Rule, expectation, nodes_under
from sodgp.linalg.draws import Draws
from sodgp.predictive.counts import CountMixture
from sodgp.system.validation import check_positive

__all__ = ["NegativeBinomial", "NegativeBinomialLikelihood"]


@dataclass(frozen=True, kw_only=True)
class NegativeBinomial(QuadratureOptions):
    """Counts that vary more than Poisson allows: mean mu = exp(f + offset), variance mu + dispersion mu^2.

    The dispersion is trained; at zero the distribution is Poisson.

    Parameters
    ----------
    dispersion : float
        Initial dispersion.
    quadrature_order : int
        As in `QuadratureOptions`.

    Examples
    --------
    >>> likelihood = NegativeBinomial(dispersion=0.2).build(Sizes(subset=5, input_dim=2, n_outputs=1))
    >>> likelihood.dispersion.item(), likelihood.n_parameters
    (0.2..., 2)
    """

    dispersion: float = 0.1

    name: ClassVar[str] = "negative_binomial"
    targets: ClassVar[str] = "counts"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("dispersion", self.dispersion)

    def build(self, sizes: Sizes) -> Likelihood:
        """The module; its offset starts at the log of the mean count."""
        return NegativeBinomialLikelihood(start_of(sizes, log_rate), self.dispersion, self.quadrature_order)


class NegativeBinomialLikelihood(QuadratureLikelihood):
    """The module of negative binomial counts.

    Parameters
    ----------
    start : Tensor of shape [*replicates, P]
        Initial offset.
    dispersion : float
        Initial dispersion of every output.
    order : int
        Of the quadrature.
    """

    raw_dispersion: nn.Parameter
    raw_dispersion_constraint: GreaterThan

    def __init__(self, start: Float[Tensor, "*replicates P"], dispersion: float, order: int) -> None:
        super().__init__(start, order)
        register_floored(self, "raw_dispersion", torch.full_like(start, dispersion))

    @property
    def dispersion(self) -> Float[Tensor, "*replicates P"]:
        """(variance - mean) / mean^2 of y given f."""
        return self.raw_dispersion_constraint.transform(self.raw_dispersion)

    def rows(self, draws: Draws) -> RowLikelihood:
        """As in `LatentLikelihood`."""
        offset, dispersion = (values[..., None, None, :] for values in (self.offset, self.dispersion))
        return NegativeBinomialRows(offset, dispersion, self.rule)


class NegativeBinomialRows(QuadratureRows):
    """log p = log G(y + r) - log G(r) - log y! + y g - (y + r) log(1 + exp(g)).

    Here g = f + offset - log r, r = 1 / dispersion, and G is the gamma function.
    """

    def __init__(
        self, offset: Float[Tensor, "*batch 1 1 P"], dispersion: Float[Tensor, "*batch 1 1 P"], rule: Rule
    ) -> None:
        super().__init__(rule)
        self.offset, self.r = offset, dispersion.reciprocal()
        self._shift = offset + dispersion.log()

    def log_density(self, y: Elementwise, f: Elementwise) -> Values:
        """As in `RowLikelihood`."""
        g = f + self._shift
        return self._constant(y) + y * g - (y + self.r) * softplus(g)

    def expected(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> Values:
        """As in `LatentRows`: all but E log(1 + exp(g)) is closed."""
        g, log_weights = nodes_under(mean + self._shift, variance, self.rule)
        expected = expectation(softplus(g), log_weights)
        return self._constant(y) + y * (mean + self._shift) - (y + self.r) * expected

    def predictive(self, mean: Float[Tensor, "T N P"], variance: Float[Tensor, "#T #N P"]) -> CountMixture:
        """A mixture over samples and nodes of f."""
        f, log_weights = self.components(mean, variance)
        return CountMixture(log_weights, (f + self.offset.flatten(0, -2)).exp(), self.r.reciprocal().flatten())

    def _constant(self, y: Elementwise) -> Values:
        return torch.lgamma(y + self.r) - torch.lgamma(self.r) - torch.lgamma(y + 1.0)
