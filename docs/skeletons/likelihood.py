"""Skeleton of a likelihood: copy it, rename it, replace the density.

This one works: counts of failures before a success, whose mean is exp(f + offset). It is the negative binomial
likelihood with a dispersion of one, which the tests use as a check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from sodgp.likelihoods.contract import Elementwise, Likelihood, RowLikelihood, Sizes
from sodgp.likelihoods.latent import QuadratureLikelihood, QuadratureOptions, QuadratureRows, Values, start_of
from sodgp.likelihoods.quadrature import Rule
from sodgp.linalg.draws import Draws
from sodgp.predictive.counts import CountMixture


@dataclass(frozen=True, kw_only=True)
class Geometric(QuadratureOptions):
    """Counts with a geometric distribution: p(y | f) = p (1 - p)^y, p = 1 / (1 + exp(f + offset)).

    Parameters
    ----------
    quadrature_order : int
        As in `QuadratureOptions`.
    """

    # Options are fields, as in `NegativeBinomial`; this likelihood needs none of its own.
    name: ClassVar[str] = "geometric"
    # "numbers" are standardised before training, "counts" and "classes" are not.
    targets: ClassVar[str] = "counts"

    def build(self, sizes: Sizes) -> Likelihood:
        """The module with its initial parameters; here the offset starts at the log of the mean count."""
        return GeometricLikelihood(start_of(sizes, lambda mean: mean.clamp_min(1e-3).log()), self.quadrature_order)


class GeometricLikelihood(QuadratureLikelihood):
    """The module: what is trained, each with one number for every output."""

    # `offset` and the quadrature are there already; register what else is trained in __init__.

    def rows(self, draws: Draws) -> RowLikelihood:
        """P(y | f) at given rows, made once a step."""
        return GeometricRows(self.offset[..., None, None, :], self.rule)


class GeometricRows(QuadratureRows):
    """The density: expectations and sites follow from it, by quadrature and by automatic differentiation."""

    def __init__(self, offset: Float[Tensor, "*batch 1 1 P"], rule: Rule) -> None:
        super().__init__(rule)
        self.offset = offset

    def log_density(self, y: Elementwise, f: Elementwise) -> Values:
        """Log p(y | f) = y g - (y + 1) log(1 + exp(g)), g = f + offset."""
        g = f + self.offset
        return y * g - (y + 1.0) * softplus(g)

    # Where a closed form exists, `expected` and `log_predictive_density` go here.

    def predictive(self, mean: Float[Tensor, "T N P"], variance: Float[Tensor, "#T #N P"]) -> CountMixture:
        """The distribution of y: a mixture over samples and nodes of f."""
        f, log_weights = self.components(mean, variance)
        one = torch.ones(f.shape[-1], dtype=f.dtype)
        return CountMixture(log_weights, (f + self.offset.flatten(0, -2)).exp(), one)
