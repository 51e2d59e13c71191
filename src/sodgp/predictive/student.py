"""The predictive distribution of numbers with outliers: a mixture of Student distributions."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from sodgp.predictive.contract import Predictive, Units

__all__ = ["StudentMixture"]


class StudentMixture:
    """Mixture of C Student distributions for every row and output.

    Parameters
    ----------
    log_weights : Tensor of shape [C]
    location : Tensor of shape [C, N, P]
    scale, df : Tensor of shape [P]
    """

    def __init__(self, log_weights: Tensor, location: Tensor, scale: Tensor, df: Tensor) -> None:
        self.log_weights, self.location, self.scale, self.df = log_weights, location, scale, df

    def in_units(self, units: Units) -> Predictive:
        """With the location and the scale of y."""
        scale = torch.as_tensor(units.scale)
        return cast(
            Predictive,
            StudentMixture(
                self.log_weights, self.location * scale + torch.as_tensor(units.shift), self.scale * scale, self.df
            ),
        )
