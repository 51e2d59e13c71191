"""Fitting by sampling: burn-in, posterior draws with hyper-parameters and adaptation frozen, and their diagnostics."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from sodgp.errors import CholeskyError, NumericalError, NumericalWarning, SamplerDivergedError
from sodgp.inference.contract import Inference
from sodgp.inference.diagnostics import SamplerDiagnostics, over_chains
from sodgp.inference.sampler import SamplerInfo
from sodgp.linalg.cholesky import Climbs, counting
from sodgp.system.container import Record
from sodgp.system.running import deferred_interrupt
from sodgp.system.validation import FloatArray
from sodgp.training.checkpoint.journal import CheckpointJournal
from sodgp.training.history import Callback, History
from sodgp.training.loop import train
from sodgp.training.sampling.step import ADVICE, SamplingStep

# Mean p^2 over its stationary variance: a sampler this hot jumps about, even if it stays within bounds.
_LARGEST_TEMPERATURE = 10.0
_DIAGNOSED_ROWS = 16
_MAX_HALVINGS = 6


def fit_by_sampling(
    step: SamplingStep,
    inference: Inference,
    *,
    callbacks: Sequence[Callback] = (),
    journal: CheckpointJournal | None = None,
    max_seconds: float | None = None,
) -> tuple[list[History], SamplerDiagnostics | None]:
    """Burn in for the iterations of the step's schedule, then fill the model's ``posterior_draws``.

    Hyper-parameters and adaptation change in burn-in only. Progress and callbacks see burn-in; the
    ``n_posterior_samples / n_chains * thinning`` transitions after it cost about half as much each. `max_seconds` is
    for both parts; burn-in gets the share that its work has in the whole.

    A sampler that is interrupted, or runs out of time, leaves a model that predicts with the draws that there are (in
    burn-in, with the sampler's recent positions), and warns. Its diagnostics are None.

    Raises
    ------
    SamplerDivergedError
        When the sampler also diverges with smaller and smaller steps.
    """
    model, method, began = step.model, step.method, time.perf_counter()
    work = step.schedule.max_iter, 0.5 * method.thinning * method.n_posterior_samples / method.n_chains
    share = None if max_seconds is None else max_seconds * work[0] / sum(work)
    try:
        histories = train(
            step,
            model,
            step.schedule,
            replicates=model.replicates.numel(),
            callbacks=callbacks,
            journal=journal,
            max_seconds=share,
        )
    except (CholeskyError, SamplerDivergedError):
        raise
    except NumericalError as error:
        raise SamplerDivergedError(f"{error.args[0]} The sampler diverged. {ADVICE}") from error
    model.requires_grad_(False)
    stopped = histories[0].stopped
    if stopped == "interrupted":
        _keep_some(step, [])
        return histories, None
    # The draws after a burn-in that ran out of time are not those of the run that a checkpoint is to continue.
    draws = Collection(step, journal if stopped != "max_minutes" else None)
    with counting(draws.climbs):
        over = draws.take(None if max_seconds is None else began + max_seconds)
    for history in histories:
        history.rollbacks += draws.tries
        history.jitter_climbs += draws.climbs.count
        history.stopped = over or stopped
    if over:
        _keep_some(step, draws.positions)
        return histories, None
    positions, potential, info = draws.result()
    method.keep(model, positions)
    diagnostics = _diagnose(step, inference, potential, info)
    if draws.journal is not None:
        draws.journal.finish(step)
    return histories, diagnostics


def collect(step: SamplingStep) -> tuple[Tensor, Tensor, SamplerInfo]:
    """Run the frozen sampler; positions [*replicates, C, n, P], potentials [*replicates, C, n] and mean info."""
    draws = Collection(step)
    draws.take()
    return draws.result()


class Collection:
    """The draws of a sampler after its burn-in: `positions` [*replicates, C, P] and `potentials` [*replicates, C].

    A sampler that diverges, or runs hot, begins again at the end of burn-in with half its step size, `tries` times so
    far. The draws in the journal's checkpoint, if there are any, are continued.
    """

    def __init__(self, step: SamplingStep, journal: CheckpointJournal | None = None) -> None:
        self.step, self.journal = step, journal
        self.good, self.tries, self.climbs = step.snapshot(), 0, Climbs()
        self._begin()
        if journal is not None and journal.extra.info:
            self._resume(journal.extra)

    @property
    def is_complete(self) -> bool:
        """Whether all draws have been taken."""
        return len(self.positions) == self.step.method.n_posterior_samples // self.step.method.n_chains

    def take(self, deadline: float | None = None) -> str:
        """Take the missing draws until a deadline by `time.perf_counter`; why it stopped early, or an empty string."""
        with deferred_interrupt() as interrupt:
            while not self.is_complete:
                self._advance()
                is_late = deadline is not None and time.perf_counter() >= deadline
                is_over = not self.is_complete and (interrupt.requested or is_late)
                count = self.step.schedule.max_iter + self.transitions
                if self.journal is not None and (is_over or self.journal.is_due(count) or self.is_complete):
                    self.journal.extra = self._record()
                    if not self.is_complete:
                        self.journal.write(self.journal.course, self.step)
                if is_over:
                    return "interrupted" if interrupt.requested else "max_minutes"
        return ""

    def result(self) -> tuple[Tensor, Tensor, SamplerInfo]:
        """As `collect` returns it."""
        info = self.info._replace(temperature=self._mean_temperature())
        return torch.stack(self.positions, -2), torch.stack(self.potentials, -1), info

    def _begin(self) -> None:
        self.positions: list[Tensor] = []
        self.potentials: list[Tensor] = []
        self.transitions, self.temperature = 0, torch.zeros((), dtype=torch.float32, device=self.step.step_size.device)
        self.info: SamplerInfo

    def _advance(self) -> None:
        """One transition; every `thinning`-th gives a draw."""
        step = self.step
        try:
            potential, info = step.sample_frozen()
        except NumericalError:
            return self._begin_again()
        self.temperature = self.temperature + info.temperature
        self.transitions += 1
        if self.transitions % step.method.thinning:
            return None
        # The only wait for the device: once for every draw that is kept.
        if not bool(step.is_sane(potential, info).all()):
            return self._begin_again()
        self.positions.append(step.state.position.detach().clone())
        self.potentials.append(potential.clone())
        self.info = info
        if self.is_complete and not bool((self._mean_temperature() < _LARGEST_TEMPERATURE).all()):
            self._begin_again()
        return None

    def _begin_again(self) -> None:
        self.step.restore(self.good)
        self.tries += 1
        self._begin()
        if self.tries > _MAX_HALVINGS:
            raise SamplerDivergedError(
                f"the sampler diverged after burn-in, and did so again with step sizes down to"
                f" {2.0 * float(self.step.step_size):.1e}. {ADVICE}"
            )

    def _mean_temperature(self) -> Tensor:
        return self.temperature / self.transitions

    def _record(self) -> Record:
        counts = {"transitions": self.transitions, "tries": self.tries, "climbs": self.climbs.count}
        tensors = {f"good.{i}": value for i, value in enumerate(self.good.values)}
        tensors["temperature"] = self.temperature
        if self.positions:
            tensors["positions"], tensors["potentials"] = torch.stack(self.positions), torch.stack(self.potentials)
            tensors |= {f"info.{name}": value for name, value in self.info._asdict().items()}
        return Record(counts, tensors)

    def _resume(self, record: Record) -> None:
        tensors = {name: value.to(self.step.step_size.device) for name, value in record.tensors.items()}
        self.transitions, self.tries = record.info["transitions"], record.info["tries"]
        self.climbs.count = record.info["climbs"]
        for i, value in enumerate(self.good.values):
            value.copy_(tensors[f"good.{i}"])
        self.temperature = tensors["temperature"]
        if "positions" in tensors:
            self.positions, self.potentials = list(tensors["positions"]), list(tensors["potentials"])
            self.info = SamplerInfo(*(tensors[f"info.{name}"] for name in SamplerInfo._fields))


def _recent(step: SamplingStep) -> Tensor:
    """The sampler's last positions in burn-in, at most a window of them, [*replicates, C, n, P]."""
    count = min(int(step.count), len(step.recent))
    recent = step.recent[:count] if count else step.state.position.unsqueeze(0)
    return recent.detach().movedim(0, -2)


def _keep_some(step: SamplingStep, drawn: list[Tensor]) -> None:
    """Fill the model with fewer draws than it has room for, each repeated; without any, with positions of burn-in."""
    positions = torch.stack(drawn, -2) if drawn else _recent(step)
    what = f"{len(drawn)} draws of each chain" if drawn else "recent positions of its burn-in"
    count = step.method.n_posterior_samples // step.method.n_chains
    chosen = torch.arange(count, device=positions.device) * positions.shape[-2] // count
    step.method.keep(step.model, positions.index_select(-2, chosen))
    warnings.warn(
        f"the sampler was stopped before it had its posterior draws: the model predicts with {what}, and there are no"
        " diagnostics. Such a model is a rough preview only; with a checkpoint, fit(X, y, resume=True) takes the rest.",
        NumericalWarning,
        stacklevel=3,
    )


class _Centre:
    """Draws that are all zero, which leave the hidden layers at their means."""

    def __init__(self, n_samples: int, like: Tensor) -> None:
        self.n_samples, self.like = n_samples, like

    def subset(self, rows: int, width: int) -> Tensor:
        return self.like.new_zeros(self.n_samples, rows, width)

    rest = subset


def _diagnose(step: SamplingStep, inference: Inference, potential: Tensor, info: SamplerInfo) -> SamplerDiagnostics:
    method, data = step.method, step.batcher.data
    rows = torch.linspace(0, data.n_rest - 1, min(_DIAGNOSED_ROWS, data.n_rest)).long().to(data.X_r.device)
    X = data.X_r.index_select(-2, rows).unsqueeze(-3)
    draws = _Centre(method.n_posterior_samples, X)
    mean = inference.predictor(step.model, X, X, draws).mean(X, draws)
    # [*replicates, C n, rows, P] -> [*replicates, rows, C, n] for the first output.
    chains = mean[..., 0].unflatten(-2, (method.n_chains, -1)).movedim(-1, -3)
    ess_potential, r_hat_potential = over_chains(_numpy(potential))
    ess_prediction, r_hat_prediction = over_chains(_numpy(chains))
    return SamplerDiagnostics(
        n_draws=method.n_posterior_samples,
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


def _numpy(values: Tensor) -> FloatArray:
    return values.detach().double().cpu().numpy()
