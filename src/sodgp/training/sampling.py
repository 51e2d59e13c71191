"""Fitting by sampling: SGHMC on u and Adam on the hyper-parameters in turn, then posterior draws with both frozen."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sodgp.draws import Draws
from sodgp.errors import CholeskyError, NumericalError, SamplerDivergedError
from sodgp.inference.base import Terms
from sodgp.inference.diagnostics import FloatArray, SamplerDiagnostics, over_chains
from sodgp.inference.sghmc import (
    SamplerInfo,
    SamplerState,
    StochasticGradientHMC,
    flatten,
    start,
    transition,
    unflatten,
)
from sodgp.model import DeepGP
from sodgp.training.batches import Batcher
from sodgp.training.loop import Callback, History, Schedule, train
from sodgp.training.steps import Snapshot

# By how much the potential may rise above its start, for every target and every number sampled.
_NATS_A_NUMBER = 10.0
# Mean p^2 over its stationary variance: a sampler this hot jumps about, even where it stays within bounds.
_LARGEST_TEMPERATURE = 10.0
_DIAGNOSED_ROWS = 16
_MAX_HALVINGS = 6
_ADVICE = "Try a smaller step_size, a longer burn-in (max_iter), a larger batch_size, or a smaller learning_rate."


class SamplingStep:
    """One transition with adaptation, then one step of Adam at a recent sample of u (moving-window MCEM).

    Everything that a step changes is in `parameters`, so that the training loop's roll-back restores the sampler too. A
    transition that leaves the sane region makes its log density NaN, which the loop takes for what it is without a wait
    for the device inside the step.

    Parameters
    ----------
    model : DeepGP
    method : StochasticGradientHMC
    batcher : Batcher
        Both halves of a step see the same batch.
    draws : Draws
        Fresh ones, with as many samples as there are chains.
    schedule : Schedule
        Of Adam. The sampler's step size does not follow it, but shrinks with it after a roll-back.
    """

    def __init__(
        self, model: DeepGP, method: StochasticGradientHMC, batcher: Batcher, draws: Draws, schedule: Schedule
    ) -> None:
        self.model, self.method, self.batcher, self.draws, self.schedule = model, method, batcher, draws, schedule
        hyper_parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer: torch.optim.Optimizer = torch.optim.Adam(
            hyper_parameters, lr=schedule.learning_rate, fused=True
        )
        like = model.last.q_mean
        origin = flatten([layer.q_mean for layer in model.layers]).unsqueeze(-2)
        origin = origin.expand(*model.replicates, method.n_chains, -1)
        self.state = SamplerState(*(_constant(part) for part in start(origin)))
        self.recent = _constant(origin.new_zeros(method.window, *origin.shape))
        self.count = _constant(torch.zeros((), dtype=torch.int64, device=like.device))
        self.iteration = _constant(torch.zeros((), dtype=torch.int64))
        self.step_size = like.new_tensor(method.step_size)
        self._first = origin[..., 0].clone()
        self._margin = _NATS_A_NUMBER * (batcher.data.y_r.shape[-2:].numel() + origin.shape[-1])
        self.parameters = [*hyper_parameters, *self._sampler()]

    def set_learning_rate(self, rate: float) -> None:
        """Use this rate for Adam, and the step size divided by what the loop has divided its rate by."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        shrink = rate / self.schedule.at(int(self.iteration) + 1)
        self.step_size.fill_(shrink * self.method.step_size)

    def __call__(self) -> Terms:
        """Step once; the terms before the step, averaged over chains, [*replicates].

        Raises
        ------
        SamplerDivergedError
            On the CPU, at once; elsewhere the terms are NaN.
        """
        self.batcher.advance()
        self.iteration.add_(1)
        values, info = self.sample(adapt=True)
        terms = {name: value.mean(-1) for name, value in values.items()}
        # The posterior's typical potential is below that of u = 0 but for half a nat a coordinate.
        potential = -torch.stack(list(values.values())).sum(0)
        self._first.copy_(torch.where(self.count == 0, potential, self._first))
        terms["log_density"] = torch.where(self.is_sane(potential, info).all(-1), terms["log_density"], torch.nan)
        total = torch.stack(list(terms.values())).sum()
        if not total.is_cuda and not bool(torch.isfinite(total)):
            raise SamplerDivergedError(f"the sampler left every sane region. {_ADVICE}")
        self._update_hyper_parameters()
        return terms

    def sample(self, *, adapt: bool) -> tuple[Terms, SamplerInfo]:
        """One transition; minus the potential before it, term by term and chain by chain, [*replicates, C]."""
        position = self.state.position.detach().requires_grad_(True)
        u = unflatten(self.model, position)
        terms = self.method.log_joint(self.model, u, self.batcher.batch(), self.draws)
        (gradient,) = torch.autograd.grad(-torch.stack(list(terms.values())).sum(), position)
        normal = self.draws.subset(1, position.shape[-1]).squeeze(-2)
        with torch.no_grad():
            state, info = transition(self.state, gradient, normal, self.step_size, self.method.friction, adapt=adapt)
            for old, new in zip(self.state, state, strict=True):
                old.copy_(new)
        return {name: value.detach() for name, value in terms.items()}, info

    def is_sane(self, potential: Tensor, info: SamplerInfo) -> Tensor:
        """Whether position and potential of every chain are finite and within bounds, [*replicates, C]."""
        return info.is_sane & (potential < self._first + self._margin)

    def snapshot(self) -> Snapshot:
        """The sampler as it is; hyper-parameters stay out."""
        return Snapshot(self._sampler(), self.optimizer)

    def restore(self, good: Snapshot) -> None:
        """Put the sampler back, with half its step size and a momentum that fits."""
        good.restore(self._sampler(), self.optimizer)
        self.step_size.mul_(0.5)
        self.state.momentum.mul_(0.5)

    def _sampler(self) -> list[nn.Parameter]:
        return [*self.state, self.recent, self.count, self.iteration]  # type: ignore[list-item]

    def _update_hyper_parameters(self) -> None:
        """Put u into the window, take one sample of the window for each replicate, and follow its gradient."""
        size = self.recent.shape[0]
        self.recent.index_copy_(0, (self.count % size).unsqueeze(0), self.state.position.unsqueeze(0))
        self.count.add_(1)
        filled = self.count.clamp_max(size)
        uniform = torch.special.ndtr(self.draws.subset(1, 1)[..., 0, 0, 0])
        chosen = torch.minimum((uniform * filled).long(), filled - 1)
        position = torch.take_along_dim(self.recent, chosen[None, ..., None, None], 0).squeeze(0)
        u = unflatten(self.model, position)
        terms = self.method.log_joint(self.model, u, self.batcher.batch(), self.draws)
        loss = -terms["log_density"].mean(-1).sum()
        prior = self.model.log_prior()
        if prior is not None:
            loss = loss - prior.sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def fit_by_sampling(
    model: DeepGP,
    method: StochasticGradientHMC,
    batcher: Batcher,
    draws: Draws,
    schedule: Schedule,
    *,
    callbacks: Sequence[Callback] = (),
) -> list[History]:
    """Burn in for `schedule.max_iter` iterations, then fill the model's ``posterior_draws`` and ``diagnostics``.

    Hyper-parameters and adaptation move in burn-in only. Progress and callbacks see burn-in; the
    ``n_draws / n_chains * thinning`` transitions behind it are about half as dear each. One `History` a replicate.

    Raises
    ------
    SamplerDivergedError
        When the sampler runs away with smaller and smaller steps too.
    """
    step = SamplingStep(model, method, batcher, draws, schedule)
    try:
        histories = train(step, model, schedule, replicates=model.replicates.numel(), callbacks=callbacks)
    except (CholeskyError, SamplerDivergedError):
        raise
    except NumericalError as error:
        raise SamplerDivergedError(f"{error.args[0]} The sampler left every sane region. {_ADVICE}") from error
    model.requires_grad_(False)
    positions, potential, info = collect(step)
    keep(model, positions)
    model.diagnostics = _diagnose(step, potential, info)
    return histories


def collect(step: SamplingStep) -> tuple[Tensor, Tensor, SamplerInfo]:
    """Run the frozen sampler and keep every `thinning`-th position.

    Returns
    -------
    positions : Tensor of shape [*replicates, C, n, P]
    potential : Tensor of shape [*replicates, C, n]
    info : SamplerInfo
        Averaged over all transitions, [*replicates, C].
    """
    good = step.snapshot()
    for _ in range(_MAX_HALVINGS + 1):
        kept = _try_to_collect(step)
        if kept is not None:
            return kept
        step.restore(good)
    raise SamplerDivergedError(
        f"the sampler left every sane region after burn-in, and did so again with step sizes down to"
        f" {2.0 * float(step.step_size):.1e}. {_ADVICE}"
    )


def _try_to_collect(step: SamplingStep) -> tuple[Tensor, Tensor, SamplerInfo] | None:
    positions, potentials, temperatures = [], [], []
    for _ in range(step.method.n_draws // step.method.n_chains):
        for _ in range(step.method.thinning):
            step.batcher.advance()
            terms, info = step.sample(adapt=False)
            temperatures.append(info.temperature)
        potential = -torch.stack(list(terms.values())).sum(0)
        # The only wait for the device: once for every draw that is kept.
        if not bool(step.is_sane(potential, info).all()):
            return None
        positions.append(step.state.position.detach().clone())
        potentials.append(potential)
    temperature = torch.stack(temperatures).mean(0)
    if not bool((temperature < _LARGEST_TEMPERATURE).all()):
        return None
    return torch.stack(positions, -2), torch.stack(potentials, -1), info._replace(temperature=temperature)


def keep(model: DeepGP, positions: Tensor) -> None:
    """Store draws [*replicates, C, n, P] in the model, one chain behind the other; q_mean becomes their mean."""
    for layer, u in zip(model.layers, unflatten(model, positions.flatten(-3, -2)), strict=True):
        layer.posterior_draws.copy_(u)
        layer.q_mean.copy_(u.mean(-3))


class _Centre:
    """Draws that are all zero: the hidden layers at their means."""

    def __init__(self, n_samples: int, like: Tensor) -> None:
        self.n_samples, self.like = n_samples, like

    def subset(self, rows: int, width: int) -> Tensor:
        return self.like.new_zeros(self.n_samples, rows, width)

    rest = subset


def _diagnose(step: SamplingStep, potential: Tensor, info: SamplerInfo) -> SamplerDiagnostics:
    method, data = step.method, step.batcher.data
    rows = torch.linspace(0, data.n_rest - 1, min(_DIAGNOSED_ROWS, data.n_rest)).long().to(data.X_r.device)
    X = data.X_r.index_select(-2, rows).unsqueeze(-3)
    mean, _ = method.predict(step.model, X, X, X, _Centre(method.n_draws, X))
    # [*replicates, C n, rows, P] -> [*replicates, rows, C, n]: the first output speaks for the others.
    chains = mean[..., 0].unflatten(-2, (method.n_chains, -1)).movedim(-1, -3)
    ess_potential, r_hat_potential = over_chains(_numpy(potential))
    ess_prediction, r_hat_prediction = over_chains(_numpy(chains))
    return SamplerDiagnostics(
        n_draws=method.n_draws,
        n_chains=method.n_chains,
        thinning=method.thinning,
        step_size=float(step.step_size),
        friction=method.friction,
        potential=_numpy(potential),
        ess_potential=ess_potential,
        r_hat_potential=r_hat_potential,
        ess_prediction=ess_prediction,
        r_hat_prediction=r_hat_prediction,
        temperature=_numpy(info.temperature.mean(-1)),
        noise_share=_numpy(info.noise_share.amax(-1)),
    )


def _constant(values: Tensor) -> nn.Parameter:
    """A tensor that the loop can keep and put back, without a gradient."""
    return nn.Parameter(values, requires_grad=False)


def _numpy(values: Tensor) -> FloatArray:
    return values.detach().double().cpu().numpy()
