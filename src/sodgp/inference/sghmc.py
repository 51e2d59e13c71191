"""Stochastic gradient Hamiltonian Monte Carlo over the inducing outputs of a deep GP.

References
----------
Havasi, Hernández-Lobato, Murillo-Fuentes (2018). Inference in deep Gaussian processes using stochastic gradient
Hamiltonian Monte Carlo. NeurIPS. (The method, the moving-window MCEM, and the settings that are the defaults here.)
Springenberg, Klein, Falkner, Hutter (2016). Bayesian optimization with robust Bayesian neural networks. NeurIPS. (The
scale-adapted sampler and its automatic tuning.)
Chen, Fox, Guestrin (2014). Stochastic gradient Hamiltonian Monte Carlo. ICML. (The noise of the gradients is subtracted
from the noise to inject.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.errors import ConfigurationError
from sodgp.inference.contract import Batch, Predictor, Terms, TrainingSet
from sodgp.inference.inducing import InducingMethod, InducingPredictor, inducing_layers
from sodgp.inference.sampler import Sampler, SamplerInfo, SamplerState, flatten, unflatten
from sodgp.layers.contract import Points
from sodgp.layers.inducing import InducingLayer
from sodgp.linalg.draws import Draws, place_among_all
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP
from sodgp.system.validation import check_flag, check_integer, check_positive

__all__ = ["SGHMC"]

# In whitened coordinates the prior is N(0, 1): only a diverging sampler gets this far, or moves so far in one step.
LARGEST_POSITION = 1e3
LARGEST_MOVE = 3.0


@dataclass(frozen=True, kw_only=True)
class SGHMC(InducingMethod):
    """Stochastic gradient Hamiltonian Monte Carlo over the whitened inducing outputs of all layers.

    It samples p(u | y), with hyper-parameters by moving-window Monte Carlo EM. The potential, with one draw of the
    hidden layers given u, and B of all N rows::

        U(u) = - N/B sum_{n in B} w_n log N(y_n; m_n, V_n + sigma^2)  -  sum_l log N(u^l; 0, I)

    w_n is how many observations row n stands for, one without weights. m and V are the last layer's moments given u^L
    and one draw f^(L-1) of the layers below, each row from its own marginal N(mean(z) + A'u, V). The likelihood is the
    log of the last layer's Gaussian predictive at that draw, as in the reference program: an unbiased estimate of
    E log p(y | u, f^(L-1)), not of log p(y | u), so with several layers the target is the posterior under that (lower)
    likelihood. With one layer nothing is estimated.

    Parameters
    ----------
    step_size, friction : float
        epsilon and alpha of `transition`.
    window : int
        Number of recent samples of u, of which each update of the hyper-parameters uses one.
    n_posterior_samples, thinning : int
        Posterior draws to keep over all chains, and transitions between two of them.
    n_chains : int
        Chains, which take the sample axis and share the hyper-parameters.
    learn_inducing_inputs : bool
        False keeps the initial inducing inputs.

    Examples
    --------
    >>> architecture = Architecture(1, 1, 5, [torch.eye(1, dtype=torch.float64)])
    >>> model = SGHMC(n_posterior_samples=20).build(architecture, None, torch.Generator())
    >>> model.last.posterior_draws.shape
    torch.Size([20, 5, 1])
    """

    step_size: float = 0.01
    friction: float = 0.05
    window: int = 100
    n_posterior_samples: int = 100
    thinning: int = 50
    n_chains: int = 1
    learn_inducing_inputs: bool = True

    name: ClassVar[str] = "sghmc"
    # Each chain has one hidden sample per transition, and before the draws are taken there is no model to validate.
    unused_options: ClassVar[tuple[str, ...]] = ("subset", "n_samples", "validation_fraction")

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        if not 0.0 < check_positive("friction", self.friction) < 1.0:
            raise ConfigurationError(f"friction must be between 0 and 1, not {self.friction!r}.")
        for name in ("window", "n_posterior_samples", "thinning", "n_chains"):
            check_integer(name, getattr(self, name), minimum=1)
        check_flag("learn_inducing_inputs", self.learn_inducing_inputs)
        if self.n_posterior_samples % self.n_chains:
            raise ConfigurationError(
                f"n_posterior_samples={self.n_posterior_samples} must be a multiple of n_chains={self.n_chains}."
            )

    @property
    def objective(self) -> str:
        """``"posterior"``: the history shows the log density of the draws."""
        return "posterior"

    @property
    def sampler(self) -> Sampler:
        """The method itself."""
        return self

    def build(self, architecture: Architecture, data: TrainingSet | None, generator: torch.Generator) -> DeepGP:
        """A model with u = 0, and in every layer a buffer for posterior draws, [*replicates, S, M, D]."""
        layers = inducing_layers(
            architecture, data, generator, learn_inducing_inputs=self.learn_inducing_inputs, is_point=True
        )
        for layer in layers:
            # Sampled, never optimised.
            layer.q_mean.requires_grad_(False)
            room = layer.q_mean.new_zeros(*architecture.replicates, self.n_posterior_samples, *layer.q_mean.shape[-2:])
            layer.register_buffer("posterior_draws", room)
        return DeepGP(layers, architecture.build_likelihood(), replicates=architecture.replicates)

    def state_shapes(self, size: int, width: int) -> dict[str, tuple[int, ...]]:
        """The tensors u, and its posterior draws."""
        return {"q_mean": (size, width), "posterior_draws": (self.n_posterior_samples, size, width)}

    def log_joint(
        self, model: DeepGP, u: Sequence[Float[Tensor, "*replicates #T M _"]], batch: Batch, draws: Draws
    ) -> dict[str, Float[Tensor, "*replicates T"]]:
        """The two terms of -U(u) for every chain."""
        *hidden, last_layer = _layers(model)
        points = Points(batch.X_s, batch.X_b)
        for layer, u_l in zip(hidden, u[:-1], strict=True):
            points = layer.propagate_given(points, draws, "marginal", u_l)
        last = last_layer.marginals(points.rest, u[-1])
        _, p = model.likelihood.at(batch.X_s, batch.X_b, draws)
        density = p.log_predictive_density(batch.y_b, last.mean, last.variance)
        if batch.weight_b is not None:
            density = density * batch.weight_b
        flat = flatten(u)
        prior = -0.5 * (flat.square().sum(-1) + flat.shape[-1] * math.log(2.0 * math.pi))
        return {"log_density": batch.scale * density.sum((-2, -1)), "log_prior_u": prior}

    def terms(self, model: DeepGP, batch: Batch, draws: Draws) -> Terms:
        """The log density of data and u at the layers' current u."""
        values = self.log_joint(model, [layer.q_mean.unsqueeze(-3) for layer in model.layers], batch, draws)
        return model.with_log_prior({name: value.mean(-1) for name, value in values.items()})

    def predictor(
        self,
        model: DeepGP,
        X_s: Float[Tensor, "*batch 1 M D"],
        y_s: Float[Tensor, "*batch 1 M P"],
        draws: Draws,
        weight_s: Float[Tensor, "*batch 1 M 1"] | None = None,
    ) -> Predictor:
        """One Gaussian for each pair of a posterior draw and a hidden draw."""
        return DrawsPredictor(model, X_s, self.n_posterior_samples)

    def samples_differ(self, model: DeepGP) -> bool:
        """True, also with one layer: every posterior draw is a component."""
        return True

    def training_numbers(self, architecture: Architecture, n_rows: int, batch_rows: int, n_samples: int) -> float:
        """As in the contract, with one sample for each chain."""
        return super().training_numbers(architecture, n_rows, batch_rows, self.n_chains)

    def start(self, position: Float[Tensor, "*chains U"]) -> SamplerState:
        """The state at rest at this position, before the first gradient."""
        zero, one = torch.zeros_like(position), torch.ones_like(position)
        return SamplerState(position.clone(), zero, zero.clone(), one, zero.clone(), one.clone(), zero.clone())

    def transition(
        self,
        state: SamplerState,
        gradient: Float[Tensor, "*chains U"],
        normal: Float[Tensor, "*chains U"],
        step_size: Tensor | float,
        *,
        adapt: bool,
    ) -> tuple[SamplerState, SamplerInfo]:
        """One transition of scale-adapted SGHMC (Springenberg et al. 2016).

        With alpha the friction and V the mean square of every coordinate's gradient::

            p <- (1 - alpha) p - epsilon^2 V^(-1/2) grad U(u) + N(0, 2 epsilon^2 alpha V^(-1/2) - epsilon^4 V^-1 B)
            u <- u + p

        B is the variance of the gradient's noise, which heats the sampler like injected noise. Springenberg et al. use
        V in its place, which includes the spread of the posterior itself; the reference program leaves it out. Here it
        is estimated from consecutive gradients. That is right for independent noise; for batches without replacement,
        whose noise cancels over a pass, it is too large by a share of at most ``noise_share``. For a Gaussian target
        the stationary variance of u is then exact up to a factor 1 / (1 - h / (4 - 2 alpha)), where h is
        epsilon^2 V^(-1/2) times the curvature.

        Parameters
        ----------
        state : SamplerState
        gradient : Tensor of shape [..., C, U]
            Unbiased estimate of grad U at the position.
        normal : Tensor of shape [..., C, U]
            Standard normal numbers.
        step_size : float or Tensor
            epsilon; alpha is `friction`.
        adapt : bool
            Update the moving averages. In burn-in only: a sampler that continues to adapt has another target.

        Returns
        -------
        state : SamplerState
        info : SamplerInfo
        """
        friction = self.friction
        mean, square, noise, window, previous = state[2:]
        if adapt:
            rate = 1.0 / (window + 1.0)
            mean = torch.lerp(mean, gradient, rate)
            square = torch.lerp(square, gradient.square(), rate)
            noise = torch.lerp(noise, 0.5 * (gradient - previous).square(), rate)
            # No shorter than the memory of the momentum: else V_hat depends on the last few gradients only.
            tiny = torch.finfo(square.dtype).tiny
            window = (1.0 + window * (1.0 - mean.square() / square.clamp_min(tiny))).clamp_min(2.0 / friction)
            previous = gradient
        # The whitened prior alone gives a gradient with mean square one: a smaller V_hat is chance.
        scale = step_size**2 * square.clamp_min(1.0).rsqrt()
        injected = 2.0 * friction * scale
        own = scale.square() * noise
        momentum = (
            (1.0 - friction) * state.momentum - scale * gradient + (injected - own).clamp_min(0.0).sqrt() * normal
        )
        position = state.position + momentum
        info = SamplerInfo(
            temperature=(1.0 - 0.5 * friction) * (momentum.square() / scale).mean(-1),
            noise_share=(own / injected).amax(-1),
            is_sane=((position.abs() < LARGEST_POSITION) & (momentum.abs() < LARGEST_MOVE)).all(-1),
        )
        return SamplerState(position, momentum, mean, square, noise, window, previous), info

    def keep(self, model: DeepGP, positions: Float[Tensor, "*replicates C n U"]) -> None:
        """Store draws in the model, chain after chain; q_mean becomes their mean."""
        for layer, u in zip(_layers(model), unflatten(model, positions.flatten(-3, -2)), strict=True):
            cast(Tensor, layer.posterior_draws).copy_(u)
            layer.q_mean.copy_(u.mean(-3))


class DrawsPredictor(InducingPredictor):
    """Predictions with stored posterior draws of u.

    Component t of T uses posterior draw floor(t S / T) of S. For T = S each is used once; for T < S evenly spaced ones;
    for T > S each about T / S times, with different hidden draws. Joint predictions use random posterior draws.

    Parameters
    ----------
    model, X_s
        As in `InducingPredictor`.
    n_posterior_samples : int
        S.
    """

    def __init__(self, model: DeepGP, X_s: Float[Tensor, "*batch 1 M D"], n_posterior_samples: int) -> None:
        super().__init__(model, X_s)
        self._count = n_posterior_samples
        self._draws_of_u = [cast(Tensor, layer.posterior_draws) for layer in self._layers]

    def _sampled(self, draws: Draws, device: torch.device) -> list[Float[Tensor, "*replicates T M _"]]:
        first, count = place_among_all(draws)
        chosen = torch.arange(first, first + draws.n_samples, device=device) * self._count // count
        return [values.index_select(-3, chosen) for values in self._draws_of_u]

    def _sampled_jointly(self, draws: Draws) -> list[Float[Tensor, "*replicates T M _"]]:
        uniform = torch.special.ndtr(draws.subset(1, 1)[..., 0, 0])
        chosen = (uniform * self._count).long().clamp_max(self._count - 1)
        chosen = chosen.expand(*self._model.replicates, draws.n_samples)[..., None, None]
        return [torch.take_along_dim(values, chosen, -3) for values in self._draws_of_u]


def _layers(model: DeepGP) -> list[InducingLayer]:
    return cast("list[InducingLayer]", list(model.layers))
