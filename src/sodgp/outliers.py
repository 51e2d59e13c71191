"""Outliers of a predictive distribution: a further component, wide and of little weight.

Means and variances of a mixture are ``[T, C]`` for T components and C cells, as in `sodgp.mixtures`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

OUTLIER_SCALE = 10.0
"""How many times wider the law of an outlier is than that of any other observation, in standard deviations."""


def widening(outlier_probability: float) -> float:
    """The factor by which outliers of that probability widen a variance.

    Examples
    --------
    >>> widening(0.0), round(widening(0.001), 3)
    (1.0, 1.099)
    """
    return 1.0 + outlier_probability * (OUTLIER_SCALE**2 - 1.0)


class Outliers(NamedTuple):
    """Means, variances and probabilities [G, C] of G laws of outliers, one for each pooled mixture that has some.

    Examples
    --------
    >>> strange = Outliers.of(torch.zeros(5, 2), torch.ones(5, 2), 0.01)
    >>> strange.var.tolist(), strange.probability.shape
    ([[100.0, 100.0]], torch.Size([1, 2]))
    """

    mu: torch.Tensor
    var: torch.Tensor
    probability: torch.Tensor

    @classmethod
    def of(cls, mu: torch.Tensor, var: torch.Tensor, probability: float) -> Outliers:
        """Around components [T, C]; none at all for a probability of zero."""
        count = 1 if probability else 0
        wide = (OUTLIER_SCALE**2 * variance_of(mu, var)).clamp_max(torch.finfo(var.dtype).max / 4)
        centre = mu.mean(0)
        return cls(*(values[None][:count] for values in (centre, wide, torch.full_like(centre, probability))))

    def map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Outliers:
        """The same with a function applied to all three."""
        return Outliers(*map(function, self))


def variance_of(mu: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
    """Variance [C] of equally weighted components [T, C].

    Examples
    --------
    >>> variance_of(torch.tensor([[-1.0], [1.0]]), torch.ones(2, 1))
    tensor([2.])
    """
    spread = mu.var(0, correction=0) if mu.shape[1] else mu[0]  # torch warns about an empty variance
    return var.mean(0) + spread
