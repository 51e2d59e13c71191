"""Parameters for variances that stay above a floor."""

from __future__ import annotations

from gpytorch import Module
from gpytorch.constraints import GreaterThan
from jaxtyping import Float
from torch import Tensor, nn

NOISE_FLOOR = 1e-6
"""Smallest noise variance, in scaled units."""


def above(floor: float) -> GreaterThan:
    """A lower bound as a constraint; its buffers are in single precision whatever PyTorch's default type is."""
    return GreaterThan(floor).float()


def register_floored(module: Module, name: str, start: Float[Tensor, "*shape"]) -> None:
    """Register a variance of at least `NOISE_FLOOR` that starts at `start`: the raw parameter and its constraint.

    Examples
    --------
    >>> import torch
    >>> module = Module()
    >>> register_floored(module, "raw_noise", torch.tensor([0.5, 0.0]))
    >>> module.raw_noise_constraint.transform(module.raw_noise).tolist()
    [0.5, 1.0...e-06]
    """
    constraint = above(NOISE_FLOOR)
    raw = constraint.inverse_transform(start.clamp_min(1.01 * NOISE_FLOOR))
    module.register_parameter(name, nn.Parameter(raw))
    module.register_constraint(name, constraint)
