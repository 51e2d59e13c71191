"""Outliers of a predictive distribution: a further component, wide and of little weight.

Means and variances of a mixture are ``[T, C]`` for T components and C cells, as in `sodgp.predictive.density`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from sodgp.system.validation import FloatArray, to_numpy

OUTLIER_SCALE = 10.0
"""Standard deviation of an outlier, relative to that of any other observation."""


def widening(outlier_probability: float) -> float:
    """The factor by which outliers increase a variance.

    Examples
    --------
    >>> widening(0.0), round(widening(0.001), 3)
    (1.0, 1.099)
    """
    return 1.0 + outlier_probability * (OUTLIER_SCALE**2 - 1.0)


class Outliers(NamedTuple):
    """Means, variances and probabilities [G, C] of outlier components, one for each of G pooled mixtures.

    Examples
    --------
    >>> strange = Outliers.of(torch.zeros(5, 2), torch.ones(5, 2), 0.01)
    >>> strange.var.tolist(), strange.probability.shape
    ([[100.0, 100.0]], torch.Size([1, 2]))
    """

    mu: Float[Tensor, "G C"]
    var: Float[Tensor, "G C"]
    probability: Float[Tensor, "G C"]

    @classmethod
    def of(cls, mu: Float[Tensor, "T C"], var: Float[Tensor, "T C"], probability: float) -> Outliers:
        """The outliers of components [T, C]; none if the probability is zero."""
        count = 1 if probability else 0
        wide = (OUTLIER_SCALE**2 * variance_of(mu, var)).clamp_max(torch.finfo(var.dtype).max / 4)
        centre = mu.mean(0)
        return cls(*(values[None][:count] for values in (centre, wide, torch.full_like(centre, probability))))

    def affine(self, scale: Float[Tensor, " C"] | float, shift: Float[Tensor, " C"]) -> Outliers:
        """The outliers of ``scale * Y + shift``."""
        return self._replace(mu=scale * self.mu + shift, var=scale**2 * self.var)

    def padded(self, count: int, mu: Float[Tensor, "T C"], var: Float[Tensor, "T C"]) -> Outliers:
        """Filled up to `count` with outlier components of probability zero."""
        none = Outliers.of(mu, var, 1.0)
        more = none._replace(probability=torch.zeros_like(none.probability))
        return Outliers.joined([self, *[more] * (count - len(self.mu))])

    @classmethod
    def joined(cls, parts: Sequence[Outliers], dim: int = 0) -> Outliers:
        """All components of all parts or, with ``dim=1``, the cells of all parts."""
        return cls(*(torch.cat(values, dim=dim) for values in zip(*parts, strict=True)))

    def mean_with(self, mu: Float[Tensor, "T C"]) -> Float[Tensor, " C"]:
        """Mean of the mixture of components with these means, and the outliers."""
        mean = mu.mean(0)
        return mean + (self.probability * (self.mu - mean)).sum(0)

    def variance_with(self, mu: Float[Tensor, "T C"], var: Float[Tensor, "T C"]) -> Float[Tensor, " C"]:
        """Variance of the mixture of these components and the outliers."""
        distance = self.mu - mu.mean(0)
        second = (self.probability * (self.var + distance.square())).sum(0)
        share = 1.0 - self.probability.sum(0)
        return share * variance_of(mu, var) + second - (self.probability * distance).sum(0).square()

    def added_to(
        self, mu: Float[Tensor, "T C"], var: Float[Tensor, "T C"]
    ) -> tuple[Float[Tensor, "K C"], Float[Tensor, "K C"], Float[Tensor, "K C"]]:
        """Means, variances and relative weights of the components and the outliers, K = T + G."""
        if not len(self.mu):
            return mu, var, torch.ones_like(mu)
        weight = len(mu) * self.probability / (1.0 - self.probability.sum(0))
        return torch.cat([mu, self.mu]), torch.cat([var, self.var]), torch.cat([torch.ones_like(mu), weight])

    def put_into(self, draws: FloatArray, normal: FloatArray, uniform: FloatArray) -> FloatArray:
        """Draws [n, C] with outliers where the uniform numbers say so, made from the normal numbers there."""
        below = np.zeros(draws.shape[1])
        for centre, variance, p in zip(*map(to_numpy, self), strict=True):
            chosen = (uniform >= below) & (uniform < below + p)
            draws = np.where(chosen, centre + np.sqrt(variance) * normal, draws)
            below = below + p
        return draws

    def of_cells(self, cells: slice | Int64[Tensor, " K"]) -> Outliers:
        """Those of some cells."""
        return self.map(lambda values: values[:, cells])

    def map(self, function: Callable[[Tensor], Tensor]) -> Outliers:
        """With a function applied to all three."""
        return Outliers(*map(function, self))


def variance_of(mu: Float[Tensor, "T C"], var: Float[Tensor, "T C"]) -> Float[Tensor, " C"]:
    """Variance [C] of equally weighted components [T, C]."""
    spread = mu.var(0, correction=0) if mu.shape[1] else mu[0]  # torch warns about an empty variance
    return var.mean(0) + spread
