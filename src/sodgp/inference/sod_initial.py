"""Means of q at which training of SoD-VI starts, where they are not zero."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.layers.subset import SubsetLayer

__all__ = ["prior_means", "uniform_means"]


def prior_means(layers: list[SubsetLayer], X_s: Float[Tensor, "*replicates M D"]) -> None:
    """Set the means of the paper's q to the prior means of the subset; for the whitened q these are at zero."""
    Z_s = X_s.unsqueeze(-3)
    with torch.no_grad():
        for layer in layers:
            Z_s = layer.mean(Z_s)
            layer.q_mean.copy_(Z_s.squeeze(-3))


def uniform_means(layers: list[SubsetLayer], generator: torch.Generator) -> None:
    """Set the means of q to uniform numbers on [0, 1), the same in every layer, as in the authors' program."""
    widest = max(layer.q_mean.shape[-1] for layer in layers)
    numbers = torch.rand(layers[0].q_mean.shape[-2], widest, generator=generator, dtype=layers[0].q_mean.dtype)
    with torch.no_grad():
        for layer in layers:
            layer.q_mean.copy_(numbers[:, : layer.q_mean.shape[-1]])
