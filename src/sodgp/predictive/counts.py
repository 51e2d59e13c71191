"""The predictive distribution of counts: a mixture of Poisson or negative binomial distributions."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from sodgp.predictive.contract import Predictive, Units

__all__ = ["CountMixture"]


class CountMixture:
    """Mixture of C Poisson distributions for every row and output, or of negative binomials with a dispersion.

    Parameters
    ----------
    log_weights : Tensor of shape [C]
    rate : Tensor of shape [C, N, P]
        Means of the components.
    dispersion : Tensor of shape [P] or None
        (variance - mean) / mean^2; None for Poisson.
    """

    def __init__(self, log_weights: Tensor, rate: Tensor, dispersion: Tensor | None) -> None:
        self.log_weights, self.rate, self.dispersion = log_weights, rate, dispersion

    def in_units(self, units: Units) -> Predictive:
        """The same: counts have no units."""
        return cast(Predictive, self)
