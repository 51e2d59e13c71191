"""The step of a fit by sampling: a transition of u, then a step of Adam on the hyper-parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from sodgp.errors import SamplerDivergedError
from sodgp.inference.contract import Terms
from sodgp.inference.sampler import Sampler, SamplerInfo, SamplerState, flatten, unflatten
from sodgp.linalg.draws import Draws
from sodgp.model.deep_gp import DeepGP
from sodgp.training.batches import Batcher
from sodgp.training.recording import Recording, warn_of_no_recording
from sodgp.training.steps import GuardedAdam, Schedule, Snapshot

# By how much the potential may rise above its start, for every target and every number sampled.
_NATS_A_NUMBER = 10.0
ADVICE = "Try a smaller step_size, a longer burn-in (max_iter), a larger batch_size, or a smaller learning_rate."


class SamplingStep:
    """One transition with adaptation, then one step of Adam at a recent sample of u (moving-window MCEM).

    Both halves see the same batch; `draws` has as many samples as there are chains. The schedule is Adam's: the
    sampler's step size does not follow it, but is halved with it after a roll-back. Everything that a step changes is
    in `parameters`, so that the training loop's roll-back restores the sampler too. A transition that diverges sets its
    log density to NaN, which the loop recognises without a wait for the device inside the step.
    """

    def __init__(self, model: DeepGP, method: Sampler, batcher: Batcher, draws: Draws, schedule: Schedule) -> None:
        self.model, self.method, self.batcher, self.draws, self.schedule = model, method, batcher, draws, schedule
        hyper_parameters = [p for p in model.parameters() if p.requires_grad]
        like = model.last.q_mean
        # On CUDA the rate is a tensor, which a recorded step reads anew at every replay.
        self._rate = None
        if like.is_cuda:
            self._rate = torch.tensor(schedule.learning_rate, dtype=torch.float32, device=like.device)
        self.optimizer: torch.optim.Optimizer = GuardedAdam(
            hyper_parameters, schedule.learning_rate if self._rate is None else self._rate, capturable=like.is_cuda
        )
        origin = flatten([layer.q_mean for layer in model.layers]).unsqueeze(-2)
        origin = origin.expand(*model.replicates, method.n_chains, -1)
        self.state = SamplerState(*(_constant(part) for part in method.start(origin)))
        self.recent = _constant(origin.new_zeros(method.window, *origin.shape))
        self.count = _constant(torch.zeros((), dtype=torch.int64, device=like.device))
        self.iteration = _constant(torch.zeros((), dtype=torch.int64))
        self.step_size = like.new_tensor(method.step_size)
        self._first = origin[..., 0].clone()
        data = batcher.data
        count: int | Tensor = data.y_r.shape[-2:].numel()
        if data.weight_r is not None:
            count = data.y_r.shape[-1] * data.weight_r.sum((-2, -1)).unsqueeze(-1)
        self._margin = _NATS_A_NUMBER * (count + origin.shape[-1])
        self.parameters = [*hyper_parameters, *self._sampler()]
        self._burn_in: Callable[[], Terms] = self._once
        self._frozen: Callable[[], Terms] = self._once_frozen

    def record(self, generators: Sequence[torch.Generator]) -> None:
        """Record both kinds of step as CUDA graphs with the draws' generators; if that fails, warn and do not."""
        try:
            arguments = self.parameters, self.optimizer, generators
            self._burn_in, self._frozen = Recording(self._once, *arguments), Recording(self._once_frozen, *arguments)
        except RuntimeError as error:
            self.fall_back()
            warn_of_no_recording(error)

    @property
    def others(self) -> dict[str, Tensor]:
        """What steps change besides `parameters`, for checkpoints."""
        return {"first": self._first, "step_size": self.step_size}

    def set_learning_rate(self, rate: float) -> None:
        """Use this rate for Adam, and halve the step size as often as the loop has halved the rate."""
        if self._rate is None:
            self.optimizer.param_groups[0]["lr"] = rate
        else:
            self._rate.fill_(rate)
        # The loop rounds its rate to single precision.
        halvings = round(math.log2(self.schedule.at(int(self.iteration) + 1) / rate))
        self.step_size.fill_(0.5**halvings * self.method.step_size)

    def fall_back(self) -> bool:
        """Stop using the recordings, in which a failed factorisation becomes NaN."""
        was_recorded = isinstance(self._burn_in, Recording)
        self._burn_in, self._frozen = self._once, self._once_frozen
        return was_recorded

    def __call__(self) -> Terms:
        """Step once; the terms before the step, averaged over chains, [*replicates].

        A sampler that diverges is a SamplerDivergedError on the CPU; elsewhere the terms are NaN.
        """
        self.batcher.advance()
        self.iteration.add_(1)
        terms = self._burn_in()
        total = torch.stack(list(terms.values())).sum()
        if not total.is_cuda and not bool(torch.isfinite(total)):
            raise SamplerDivergedError(f"the sampler diverged. {ADVICE}")
        return terms

    def sample_frozen(self) -> tuple[Tensor, SamplerInfo]:
        """One transition on the next batch without adaptation; the potential before it, [*replicates, C].

        The next call overwrites the values of a recorded step.
        """
        self.batcher.advance()
        values = self._frozen()
        return values["potential"], SamplerInfo(*(values[name] for name in SamplerInfo._fields))

    def _once(self) -> Terms:
        values, info = self.sample(adapt=True)
        terms = {name: value.mean(-1) for name, value in values.items()}
        # A typical potential under the posterior exceeds that of u = 0 by at most half a nat a coordinate.
        potential = -torch.stack(list(values.values())).sum(0)
        self._first.copy_(torch.where(self.count == 0, potential, self._first))
        terms["log_density"] = torch.where(self.is_sane(potential, info).all(-1), terms["log_density"], torch.nan)
        self._update_hyper_parameters()
        return terms

    def _once_frozen(self) -> Terms:
        values, info = self.sample(adapt=False)
        return {"potential": -torch.stack(list(values.values())).sum(0), **info._asdict()}

    def sample(self, *, adapt: bool) -> tuple[Terms, SamplerInfo]:
        """One transition; minus the potential before it, term by term and chain by chain, [*replicates, C]."""
        position = self.state.position.detach().requires_grad_(True)
        u = unflatten(self.model, position)
        terms = self.method.log_joint(self.model, u, self.batcher.batch(), self.draws)
        (gradient,) = torch.autograd.grad(-torch.stack(list(terms.values())).sum(), position)
        normal = self.draws.subset(1, position.shape[-1]).squeeze(-2)
        with torch.no_grad():
            state, info = self.method.transition(self.state, gradient, normal, self.step_size, adapt=adapt)
            for old, new in zip(self.state, state, strict=True):
                old.copy_(new)
        return {name: value.detach() for name, value in terms.items()}, info

    def is_sane(self, potential: Tensor, info: SamplerInfo) -> Tensor:
        """Whether position and potential of every chain are finite and within bounds, [*replicates, C]."""
        return info.is_sane & (potential < self._first + self._margin)

    def snapshot(self) -> Snapshot:
        """A copy of the sampler, without the hyper-parameters."""
        return Snapshot(self._sampler(), self.optimizer)

    def restore(self, good: Snapshot) -> None:
        """Restore the sampler with half its step size and half its momentum."""
        good.restore(self._sampler(), self.optimizer)
        self.step_size.mul_(0.5)
        self.state.momentum.mul_(0.5)

    def _sampler(self) -> list[nn.Parameter]:
        return [*self.state, self.recent, self.count, self.iteration]  # type: ignore[list-item]

    def _update_hyper_parameters(self) -> None:
        """Add u to the window, and follow the gradient at one sample of the window for each replicate."""
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


def _constant(values: Tensor) -> nn.Parameter:
    """A tensor that the loop can save and restore, without a gradient."""
    return nn.Parameter(values, requires_grad=False)
