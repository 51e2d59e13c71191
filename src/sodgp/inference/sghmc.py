"""Stochastic gradient Hamiltonian Monte Carlo over the inducing outputs of a deep GP.

References
----------
Havasi, Hernández-Lobato, Murillo-Fuentes (2018). Inference in deep Gaussian processes using stochastic gradient
Hamiltonian Monte Carlo. NeurIPS. (The method, the moving-window MCEM, and the settings that are the defaults here.)
Springenberg, Klein, Falkner, Hutter (2016). Bayesian optimization with robust Bayesian neural networks. NeurIPS. (The
scale-adapted sampler and its automatic tuning.)
Chen, Fox, Guestrin (2014). Stochastic gradient Hamiltonian Monte Carlo. ICML. (Why the gradients' noise is deducted.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.inference.contract import Batch, Terms, TrainingSet, with_log_prior
from sodgp.inference.inducing import inducing_layers
from sodgp.layers.subset import Points
from sodgp.linalg.draws import Draws
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP

__all__ = ["StochasticGradientHMC"]

# In whitened coordinates the prior is N(0, 1): only a sampler that runs away gets this far, or moves so far at once.
LARGEST_POSITION = 1e3
LARGEST_MOVE = 3.0


class SamplerState(NamedTuple):
    """What the sampler carries from one transition to the next, all of shape [..., C, P].

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


def start(position: Float[Tensor, "*chains P"]) -> SamplerState:
    """A sampler at rest, before it has seen a gradient."""
    zero, one = torch.zeros_like(position), torch.ones_like(position)
    return SamplerState(position.clone(), zero, zero.clone(), one, zero.clone(), one.clone(), zero.clone())


def transition(
    state: SamplerState,
    gradient: Float[Tensor, "*chains P"],
    normal: Float[Tensor, "*chains P"],
    step_size: Tensor | float,
    friction: float,
    *,
    adapt: bool,
) -> tuple[SamplerState, SamplerInfo]:
    """One transition of scale-adapted SGHMC (Springenberg et al. 2016).

    With alpha the friction and V the mean square of every coordinate's gradient::

        p <- (1 - alpha) p - epsilon^2 V^(-1/2) grad U(u) + N(0, 2 epsilon^2 alpha V^(-1/2) - epsilon^4 V^-1 B)
        u <- u + p

    B is the variance of the gradient's noise, which heats the sampler as injected noise does. Springenberg et al. put V
    in its place, which counts the posterior's own spread in; the reference program leaves it out. Here it is estimated
    from gradients in succession: right for independent noise, and up to a share ``noise_share`` too much for batches
    without replacement, whose noise cancels over a pass. For a Gaussian target the stationary variance of u is then
    exact up to a factor 1 / (1 - h / (4 - 2 alpha)), where h is epsilon^2 V^(-1/2) times the curvature.

    Parameters
    ----------
    state : SamplerState
    gradient : Tensor of shape [..., C, P]
        Unbiased estimate of grad U at the position.
    normal : Tensor of shape [..., C, P]
        Standard normal numbers.
    step_size, friction : float
        epsilon, and alpha, the share of the momentum that is lost in a transition.
    adapt : bool
        Tune the moving averages: in burn-in only, since a sampler that goes on tuning leaves its target.

    Returns
    -------
    state : SamplerState
    info : SamplerInfo
    """
    mean, square, noise, window, previous = state[2:]
    if adapt:
        rate = 1.0 / (window + 1.0)
        mean = torch.lerp(mean, gradient, rate)
        square = torch.lerp(square, gradient.square(), rate)
        noise = torch.lerp(noise, 0.5 * (gradient - previous).square(), rate)
        # No shorter than the momentum remembers: else V_hat is whatever the last few gradients happened to be.
        tiny = torch.finfo(square.dtype).tiny
        window = (1.0 + window * (1.0 - mean.square() / square.clamp_min(tiny))).clamp_min(2.0 / friction)
        previous = gradient
    # The whitened prior alone gives a gradient of mean square one, so a smaller V_hat is chance.
    scale = step_size**2 * square.clamp_min(1.0).rsqrt()
    injected = 2.0 * friction * scale
    own = scale.square() * noise
    momentum = (1.0 - friction) * state.momentum - scale * gradient + (injected - own).clamp_min(0.0).sqrt() * normal
    position = state.position + momentum
    info = SamplerInfo(
        temperature=(1.0 - 0.5 * friction) * (momentum.square() / scale).mean(-1),
        noise_share=(own / injected).amax(-1),
        is_sane=((position.abs() < LARGEST_POSITION) & (momentum.abs() < LARGEST_MOVE)).all(-1),
    )
    return SamplerState(position, momentum, mean, square, noise, window, previous), info


@dataclass(frozen=True)
class StochasticGradientHMC:
    """Samples of p(u | y) for the whitened inducing outputs of all layers, hyper-parameters by moving-window MCEM.

    The potential, with one draw of the hidden layers given u and all N rows as data::

        U(u) = - N/B sum_{n in B} log N(y_n; m_n, V_n + sigma^2)  -  sum_l log N(u^l; 0, I)

    m and V are the last layer's moments given u^L and one draw f^(L-1) of the layers below, each row from its own
    marginal N(mean(z) + A'u, V). The likelihood is the log of the last layer's Gaussian predictive at that draw, as in
    the reference program: an unbiased estimate of E log p(y | u, f^(L-1)), not of log p(y | u), so with several layers
    the target is the posterior under that (lower) likelihood. With one layer nothing is estimated.

    Parameters
    ----------
    step_size, friction : float
        epsilon and alpha of `transition`.
    window : int
        Recent samples of u from which every update of the hyper-parameters takes one.
    n_draws, thinning : int
        Posterior draws that are kept over all chains, and transitions between two of them.
    n_chains : int
        Chains side by side on the sample axis, with the same hyper-parameters.
    learn_inducing_inputs : bool

    Examples
    --------
    >>> architecture = Architecture(1, 1, 5, [torch.eye(1, dtype=torch.float64)])
    >>> model = StochasticGradientHMC(n_draws=20).build(architecture, None, torch.Generator())
    >>> model.last.posterior_draws.shape
    torch.Size([20, 5, 1])
    """

    step_size: float = 0.01
    friction: float = 0.05
    window: int = 100
    n_draws: int = 100
    thinning: int = 50
    n_chains: int = 1
    learn_inducing_inputs: bool = True
    name: str = "sghmc"
    uses_subset: bool = False

    def build(self, architecture: Architecture, data: TrainingSet | None, generator: torch.Generator) -> DeepGP:
        """A model at its initial values, u = 0, with room for the posterior draws ([*replicates, S, M, D] a layer)."""
        layers = inducing_layers(
            architecture, data, generator, learn_inducing_inputs=self.learn_inducing_inputs, is_point=True
        )
        for layer in layers:
            # Sampled, never optimised.
            layer.q_mean.requires_grad_(False)
            room = layer.q_mean.new_zeros(*architecture.replicates, self.n_draws, *layer.q_mean.shape[-2:])
            layer.register_buffer("posterior_draws", room)
        return DeepGP(
            layers,
            n_outputs=architecture.n_outputs,
            noise_variance=architecture.initialization.noise_variance,
            replicates=architecture.replicates,
        )

    def log_joint(self, model: DeepGP, u: Sequence[Tensor], batch: Batch, draws: Draws) -> Terms:
        """The two terms of -U(u) for every chain, [*replicates, C]; u of every layer is [*replicates, C, M, D]."""
        points = model.propagate_given(Points(batch.X_s, batch.X_b), draws, "marginal", u)
        last = model.last.marginals(points.rest, u[-1])
        variance = last.variance + model.noise_variance[..., None, :]
        residual = (batch.y_b - last.mean).square() / variance
        density = -0.5 * (math.log(2.0 * math.pi) + variance.log() + residual).sum((-2, -1))
        flat = flatten(u)
        prior = -0.5 * (flat.square().sum(-1) + flat.shape[-1] * math.log(2.0 * math.pi))
        return {"log_density": batch.scale * density, "log_prior_u": prior}

    def terms(self, model: DeepGP, batch: Batch, draws: Draws) -> Terms:
        """Log density of data and u at the layers' current u, each of shape [*replicates]."""
        values = self.log_joint(model, [layer.q_mean.unsqueeze(-3) for layer in model.layers], batch, draws)
        return with_log_prior({name: value.mean(-1) for name, value in values.items()}, model)

    def predict(self, model: DeepGP, X_s: Tensor, y_s: Tensor, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """One Gaussian for each pair (posterior draw, hidden draw); `X_s` and `y_s` are not used.

        Component t of T takes posterior draw floor(t S / T) of S: each once for T = S; evenly spaced ones for T < S;
        and each about T / S times, with another hidden draw every time, for T > S.
        """
        T = draws.n_samples
        chosen = torch.arange(T, device=X.device) * self.n_draws // T
        u = [layer.posterior_draws.index_select(-3, chosen) for layer in model.layers]
        points = model.propagate_given(Points(X_s, X), draws, "marginal", u)
        return model.last.marginals(points.rest, u[-1])

    def predict_joint(self, model: DeepGP, X_s: Tensor, y_s: Tensor, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Mean [..., T, N, P] and covariance [..., T, P, N, N] of f at X, each with a random posterior draw."""
        uniform = torch.special.ndtr(draws.subset(1, 1)[..., 0, 0])
        chosen = (uniform * self.n_draws).long().clamp_max(self.n_draws - 1)
        chosen = chosen.expand(*model.replicates, draws.n_samples)[..., None, None]
        u = [torch.take_along_dim(layer.posterior_draws, chosen, -3) for layer in model.layers]
        points = model.propagate_given(Points(X_s, X), draws, "joint", u)
        mean, covariance = model.last.joint_moments(points.rest, u[-1])
        return mean, covariance.expand(*mean.shape[:-2], *covariance.shape[-3:])


def flatten(u: Sequence[Tensor]) -> Float[Tensor, "*chains P"]:
    """The u of all layers, [..., C, M, D] each, as one vector per chain."""
    return torch.cat([layer.flatten(-2) for layer in u], -1)


def unflatten(model: DeepGP, position: Float[Tensor, "*chains P"]) -> list[Tensor]:
    """The u of every layer, [..., C, M, D], from one vector per chain."""
    shapes = [layer.q_mean.shape[-2:] for layer in model.layers]
    parts = position.split([shape.numel() for shape in shapes], -1)
    return [part.unflatten(-1, shape) for part, shape in zip(parts, shapes, strict=True)]
