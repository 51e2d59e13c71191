"""The contract of methods that sample: a transition from state to state, and its diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sodgp.inference.contract import Batch
from sodgp.linalg.draws import Draws
from sodgp.model.deep_gp import DeepGP

__all__ = ["Sampler", "SamplerInfo", "SamplerState", "flatten", "unflatten"]


class SamplerState(NamedTuple):
    """The state of a sampler between two transitions; all tensors have the shape [..., C, U], U the size of u.

    Attributes
    ----------
    position, momentum : Tensor
        u, and its change in the last transition.
    gradient, square, noise : Tensor
        Moving averages of the gradient, of its square (V_hat), and of its noise variance: half the squared difference
        of two consecutive gradients, between which the position hardly changes.
    window : Tensor
        Number of gradients in the moving averages (tau).
    previous : Tensor
        The last gradient.
    """

    position: Float[Tensor, "*chains U"]
    momentum: Float[Tensor, "*chains U"]
    gradient: Float[Tensor, "*chains U"]
    square: Float[Tensor, "*chains U"]
    noise: Float[Tensor, "*chains U"]
    window: Float[Tensor, "*chains U"]
    previous: Float[Tensor, "*chains U"]


class SamplerInfo(NamedTuple):
    """Diagnostics of a transition for every chain, [..., C]; they do not influence the sampler.

    Attributes
    ----------
    temperature : Tensor
        Mean of p^2 relative to its stationary variance: 1 in equilibrium.
    noise_share : Tensor
        Largest share of the noise to inject that the noise of the gradients replaces.
    is_sane : Tensor of bool
        Whether position and momentum are finite and within bounds.
    """

    temperature: Float[Tensor, "*chains"]
    noise_share: Float[Tensor, "*chains"]
    is_sane: Bool[Tensor, "*chains"]


@runtime_checkable
class Sampler(Protocol):
    """An inference method that samples u, the whitened inducing outputs of all layers, in C chains.

    It is itself the answer of its `Inference.sampler`. The training loop owns the state and the random numbers.
    """

    @property
    def step_size(self) -> float:
        """Size of a transition (epsilon)."""

    @property
    def friction(self) -> float:
        """Share of the momentum that is lost in a transition (alpha)."""

    @property
    def window(self) -> int:
        """Number of recent samples of u, of which each update of the hyper-parameters uses one."""

    @property
    def n_posterior_samples(self) -> int:
        """Number of posterior draws to keep, over all chains."""

    @property
    def thinning(self) -> int:
        """Transitions between two draws that are kept."""

    @property
    def n_chains(self) -> int:
        """Number of chains, which take the sample axis."""

    def log_joint(
        self, model: DeepGP, u: Sequence[Float[Tensor, "*replicates #T M _"]], batch: Batch, draws: Draws
    ) -> dict[str, Float[Tensor, "*replicates T"]]:
        """Terms of the log density of data and u for every chain (T = C), given the u of every layer."""

    def start(self, position: Float[Tensor, "*chains U"]) -> SamplerState:
        """The state at rest at this position, before the first gradient."""

    def transition(
        self,
        state: SamplerState,
        gradient: Float[Tensor, "*chains U"],
        normal: Float[Tensor, "*chains U"],
        step_size: Tensor | float,
        *,
        adapt: bool,
    ) -> tuple[SamplerState, SamplerInfo]:
        """One transition, from the gradient of the potential at the position and standard normal numbers.

        With `adapt` the moving averages of the gradients are updated, which is allowed in burn-in only.
        """

    def keep(self, model: DeepGP, positions: Float[Tensor, "*replicates C n U"]) -> None:
        """Store n draws of every chain in the model, for its predictions."""


def flatten(u: Sequence[Float[Tensor, "*chains M _"]]) -> Float[Tensor, "*chains U"]:
    """The u of all layers as one vector for every chain."""
    return torch.cat([layer.flatten(-2) for layer in u], -1)


def unflatten(model: DeepGP, position: Float[Tensor, "*chains U"]) -> list[Float[Tensor, "*chains M _"]]:
    """The u of every layer from one vector for every chain."""
    shapes = [layer.q_mean.shape[-2:] for layer in model.layers]
    parts = position.split([shape.numel() for shape in shapes], -1)
    return [part.unflatten(-1, shape) for part, shape in zip(parts, shapes, strict=True)]
