"""The contract of methods that sample: a transition from state to state, and what it says about itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.inference.contract import Batch, Terms
from sodgp.linalg.draws import Draws
from sodgp.model.deep_gp import DeepGP

__all__ = ["Sampler", "SamplerInfo", "SamplerState", "flatten", "unflatten"]


class SamplerState(NamedTuple):
    """What a sampler carries from one transition to the next, all of shape [..., C, P].

    Attributes
    ----------
    position, momentum : Tensor
        u, and its change in the last transition.
    gradient, square, noise : Tensor
        Moving averages of the gradient, of its square (V_hat), and of its noise: half the squared difference of two
        gradients in succession, between which the position hardly moves.
    window : Tensor
        tau: over how many gradients they average.
    previous : Tensor
        The last gradient.
    """

    position: Tensor
    momentum: Tensor
    gradient: Tensor
    square: Tensor
    noise: Tensor
    window: Tensor
    previous: Tensor


class SamplerInfo(NamedTuple):
    """What a transition says about itself, each of shape [..., C]; nothing depends on it.

    Attributes
    ----------
    temperature : Tensor
        Mean of p^2 over its stationary variance: 1 in equilibrium.
    noise_share : Tensor
        Largest share of the injected noise that the gradients' own noise takes the place of.
    is_sane : Tensor of bool
        Whether position and momentum are finite and within bounds.
    """

    temperature: Tensor
    noise_share: Tensor
    is_sane: Tensor


@runtime_checkable
class Sampler(Protocol):
    """An inference method that samples u, the whitened inducing outputs of all layers."""

    @property
    def step_size(self) -> float:
        """Epsilon."""
        ...

    @property
    def friction(self) -> float:
        """alpha: the share of the momentum that is lost in a transition."""
        ...

    @property
    def window(self) -> int:
        """Recent samples of u from which every update of the hyper-parameters takes one."""
        ...

    @property
    def n_posterior_samples(self) -> int:
        """Draws that are kept over all chains."""
        ...

    @property
    def thinning(self) -> int:
        """Transitions between two draws."""
        ...

    @property
    def n_chains(self) -> int:
        """Chains side by side on the sample axis."""
        ...

    def log_joint(self, model: DeepGP, u: Sequence[Tensor], batch: Batch, draws: Draws) -> Terms:
        """Terms of the log density of data and u for every chain, [*replicates, C]."""
        ...

    def start(self, position: Float[Tensor, "*chains P"]) -> SamplerState:
        """A sampler at rest, before it has seen a gradient."""
        ...

    def transition(
        self,
        state: SamplerState,
        gradient: Float[Tensor, "*chains P"],
        normal: Float[Tensor, "*chains P"],
        step_size: Tensor | float,
        *,
        adapt: bool,
    ) -> tuple[SamplerState, SamplerInfo]:
        """One transition, with standard normal numbers and the gradient of the potential at the position."""
        ...

    def keep(self, model: DeepGP, positions: Float[Tensor, "*replicates C n P"]) -> None:
        """Store draws in the model, which then predicts with them."""
        ...


def flatten(u: Sequence[Tensor]) -> Float[Tensor, "*chains P"]:
    """The u of all layers, [..., C, M, D] each, as one vector per chain."""
    return torch.cat([layer.flatten(-2) for layer in u], -1)


def unflatten(model: DeepGP, position: Float[Tensor, "*chains P"]) -> list[Tensor]:
    """The u of every layer, [..., C, M, D], from one vector per chain."""
    shapes = [layer.q_mean.shape[-2:] for layer in model.layers]
    parts = position.split([shape.numel() for shape in shapes], -1)
    return [part.unflatten(-1, shape) for part, shape in zip(parts, shapes, strict=True)]
