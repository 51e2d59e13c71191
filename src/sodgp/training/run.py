"""Fits in scaled units: build models, train them, hand them back with their histories.

Problems of one shape train in one program, with a leading replicate axis; each gets the result that it would have had
alone, to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from sodgp.errors import ConfigurationError, NumericalError
from sodgp.inference.contract import Inference
from sodgp.inference.diagnostics import SamplerDiagnostics
from sodgp.inference.sampler import Sampler
from sodgp.linalg.draws import FreshDraws, TapeDraws
from sodgp.model.deep_gp import DeepGP
from sodgp.training.batches import Batcher
from sodgp.training.checkpoint.journal import CheckpointJournal, Plan
from sodgp.training.distributed.contract import ALONE, Ranks
from sodgp.training.held_out import HeldOut
from sodgp.training.history import Callback, History
from sodgp.training.loop import train
from sodgp.training.moving import Moving
from sodgp.training.recording import CapturedStep, warn_of_no_recording
from sodgp.training.restart.comparison import bound_of
from sodgp.training.restart.warm import warm
from sodgp.training.sampling.posterior import fit_by_sampling
from sodgp.training.sampling.step import SamplingStep
from sodgp.training.stacking import Problem, stack, stack_data, unstack
from sodgp.training.steps import EagerStep, Objective, Schedule, Step

__all__ = ["FitResult", "Settings", "fit"]


@dataclass(frozen=True)
class Settings:
    """How to train.

    Parameters
    ----------
    max_iter : int
    batch_rows : int
        Rows of the rest in a step.
    n_samples : int
        Monte Carlo samples T.
    learning_rate : float
    schedule : {"constant", "cosine"}
    device : torch.device
    callbacks : sequence of functions of TrainingState
    capture : bool
        Record the step as a CUDA graph where there is a CUDA device.
    compile : bool
        Let PyTorch's compiler fuse small operations first: 10 to 60 seconds once, for long runs.
    max_seconds : float, optional
        Of training, after which it ends.
    checkpoint : Plan, optional
        Where and when to write checkpoints, and which to continue from.
    held_out : HeldOut, optional
        Rows by which the model is judged at logged iterations; for a single problem.
    compares : bool
        Whether the models will be compared by their bounds, where a step sees a part of the rows only.
    ranks : Ranks
        The processes that train the model; all must be given the same problem.

    Examples
    --------
    >>> cpu = torch.device("cpu")
    >>> Settings(10, batch_rows=5, n_samples=5, learning_rate=0.03, schedule="cosine", device=cpu).compile
    False
    """

    max_iter: int
    batch_rows: int
    n_samples: int
    learning_rate: float
    schedule: str
    device: torch.device
    callbacks: Sequence[Callback] = ()
    capture: bool = True
    compile: bool = False
    max_seconds: float | None = None
    checkpoint: Plan | None = None
    held_out: HeldOut | None = None
    compares: bool = False
    ranks: Ranks = ALONE


@dataclass(frozen=True)
class FitResult:
    """A trained model with its history.

    Attributes
    ----------
    model : DeepGP
        In evaluation mode, gradients off.
    history : History
    final_bound : float or None
        The bound over more rows than a step sees, for models that are to be compared.
    diagnostics : SamplerDiagnostics or None
        Of a sampler that was not stopped early.

    Examples
    --------
    >>> from sodgp.inference.sod import SoD
    >>> from sodgp.model.architecture import Architecture
    >>> FitResult(SoD().build(Architecture(1, 1, 5, []), None, torch.Generator()), History()).history.stopped
    'max_iter'
    """

    model: DeepGP
    history: History
    final_bound: float | None = None
    diagnostics: SamplerDiagnostics | None = None


def fit(inference: Inference, problems: Sequence[Problem], settings: Settings) -> list[FitResult]:
    """Train one model for each problem, all in one program.

    Parameters
    ----------
    inference : Inference
        The method: it builds the models and states the objective.
    problems : sequence of Problem
        Of one shape: equal numbers of rows, columns, outputs and subset rows, and equal widths.
    settings : Settings

    Returns
    -------
    list of FitResult
        One for each problem.

    Raises
    ------
    ConfigurationError
        For problems of different shapes.
    NumericalError
        When training diverged and could not be brought back.
    CheckpointError
        When the checkpoint to continue from belongs to other data or settings.

    Examples
    --------
    >>> from sodgp.model.architecture import Architecture
    >>> from sodgp.inference.contract import TrainingSet
    >>> from sodgp.inference.sod import SoD
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> data = TrainingSet(X[::4], X[::4].sign(), X[1::4], X[1::4].sign())
    >>> cpu = torch.device("cpu")
    >>> settings = Settings(10, batch_rows=5, n_samples=5, learning_rate=0.03, schedule="cosine", device=cpu)
    >>> (result,) = fit(SoD(), [Problem(Architecture(1, 1, 5, []), data, seed=0)], settings)
    >>> result.history.iteration, len(result.model.layers)
    ([1, 10], 1)
    """
    run = _Run(inference, problems, settings)
    sampler = inference.sampler
    if sampler is not None:
        return run.results(*run.sample(sampler))
    try:
        return run.results(run.optimize())
    except NumericalError as error:
        error.kept = run.results(error.histories or [History() for _ in problems])
        raise


class _Run:
    """One fit: the models, stacked where there are many, and everything that moves while they train."""

    def __init__(self, inference: Inference, problems: Sequence[Problem], settings: Settings) -> None:
        self.inference, self.problems, self.settings = inference, problems, settings
        check_divides(inference, settings, len(problems))
        self.seeds = [problem.seed for problem in problems]
        self.singles = [_initial_model(inference, problem, settings) for problem in problems]
        self.model, data = self.singles[0], problems[0].data
        if len(problems) > 1:
            self.model = stack(inference, problems, self.singles).to(settings.device)
            data = stack_data([problem.data for problem in problems])
        orders = [torch.Generator().manual_seed(seed + 2) for seed in self.seeds]
        self.batcher = Batcher(data.to(settings.device), settings.batch_rows, orders)
        self.generators = _generators(self.seeds, settings.device)
        self.journal = None
        if settings.checkpoint is not None:
            self.journal = CheckpointJournal(
                settings.checkpoint,
                problems,
                settings.device,
                self.batcher,
                self.generators,
                settings.callbacks,
                settings.held_out,
                writes=settings.ranks.rank == 0,
            )
        settings.ranks.together(lambda: None, same=self._common(), what="data, options or initial parameters")

    def optimize(self) -> list[History]:
        settings, model, batcher = self.settings, self.model, self.batcher
        step = training_step(self.inference, model, batcher, self.seeds, settings, self.generators)
        held_out = settings.held_out
        histories = train(
            step,
            model,
            Schedule(settings.learning_rate, settings.schedule, settings.max_iter),
            replicates=len(self.problems),
            callbacks=settings.callbacks,
            journal=self.journal,
            max_seconds=settings.max_seconds,
            validation=None if held_out is None else held_out.judge(self.inference, model, batcher),
            ranks=settings.ranks,
        )
        if self.journal is not None and histories[0].stopped in ("max_iter", "callback"):
            self.journal.finish(step)
        return histories

    def _common(self) -> list[Tensor | str]:
        """What every process must have."""
        if self.settings.ranks.count == 1:
            return []
        s, data = self.settings, self.batcher.data
        known = [part for part in (data.precision_r, data.weight_s, data.weight_r) if part is not None]
        options = (self.seeds, s.max_iter, s.batch_rows, s.n_samples, s.learning_rate, s.schedule)
        return [
            repr((self.inference, options)),
            *(data.X_s, data.y_s, data.X_r, data.y_r, *known),
            *self.model.parameters(),
            *self.model.buffers(),
        ]

    def sample(self, sampler: Sampler) -> tuple[list[History], SamplerDiagnostics | None]:
        settings, model = self.settings, self.model
        draws = FreshDraws(_one_or_many(self.generators), sampler.n_chains, dtype=model.dtype, device=settings.device)
        schedule = Schedule(settings.learning_rate, settings.schedule, settings.max_iter)
        step = SamplingStep(model, sampler, self.batcher, draws, schedule)
        if _is_to_be_recorded(model, settings):
            step.record(self.generators)
        return fit_by_sampling(
            step, self.inference, callbacks=settings.callbacks, journal=self.journal, max_seconds=settings.max_seconds
        )

    def results(self, histories: Sequence[History], diagnostics: SamplerDiagnostics | None = None) -> list[FitResult]:
        """What each problem gets of the run as it is now."""
        is_stacked = len(self.problems) > 1
        if is_stacked:
            unstack(self.model, self.singles)
        needs_bound = self.settings.compares and self.inference.uses_subset and not self.batcher.is_full
        results = []
        for index, (single, problem, history) in enumerate(zip(self.singles, self.problems, histories, strict=True)):
            bound = _final_bound(self.inference, single, problem, self.settings) if needs_bound else None
            of_one = diagnostics.of_replicate(index) if diagnostics is not None and is_stacked else diagnostics
            single.requires_grad_(False).eval()
            results.append(FitResult(single, history, bound, of_one))
        return results


def check_divides(inference: Inference, settings: Settings, models: int = 1) -> None:
    """Raise ConfigurationError for what many processes cannot train; one can train everything."""
    if settings.ranks.count == 1:
        return
    inference.sums_over_rows()
    if models > 1 or settings.compile:
        raise ConfigurationError("many processes train one model at a time, without PyTorch's compiler.")


def _initial_model(inference: Inference, problem: Problem, settings: Settings) -> DeepGP:
    """The model of a problem before training: at its initial values, or where an earlier fit ended."""
    generator = torch.Generator().manual_seed(problem.seed)
    model = inference.build(problem.architecture, problem.data, generator).to(settings.device)
    if problem.start is None:
        return model
    rows, n_samples = settings.batch_rows, settings.n_samples
    return warm(model, problem.start, inference, problem.data, batch_rows=rows, n_samples=n_samples, seed=problem.seed)


def _final_bound(inference: Inference, model: DeepGP, problem: Problem, settings: Settings) -> float | None:
    """A number to compare models by, not worth losing what was trained: None where it cannot be computed."""
    rows, n_samples = settings.batch_rows, settings.n_samples
    with suppress(NumericalError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
        value = bound_of(model, inference, problem.data, problem.chosen, batch_rows=rows, n_samples=n_samples, seed=0)
        return value if math.isfinite(value) else None
    return None


def training_step(
    inference: Inference,
    model: DeepGP,
    batcher: Batcher,
    seeds: Sequence[int],
    settings: Settings,
    generators: list[torch.Generator] | None = None,
) -> Step:
    """The whole step of a variational method: batch, draws, forward, backward and Adam.

    Recorded as a CUDA graph where the settings ask for it and nothing in the model waits for the device; else plain.
    The Monte Carlo draws come from `generators`, one for each replicate; without them they are made from the seeds.
    """
    generators = _generators(seeds, settings.device) if generators is None else generators
    tape = TapeDraws(_one_or_many(generators), settings.n_samples, dtype=model.dtype, device=settings.device)
    ranks = settings.ranks
    objective = Objective(inference, model, batcher, tape, compile=settings.compile, ranks=ranks)
    others = TapeDraws(_one_or_many(generators), settings.n_samples, dtype=model.dtype, device=settings.device)
    moving = Moving(inference, model, batcher, others)
    if _is_to_be_recorded(model, settings):
        try:
            return CapturedStep(model, objective, settings.learning_rate, batcher.advance, generators, moving)
        except RuntimeError as error:
            warn_of_no_recording(error)
    return EagerStep(model, objective, settings.learning_rate, batcher.advance, moving=moving, ranks=ranks)


def _is_to_be_recorded(model: DeepGP, settings: Settings) -> bool:
    is_one = settings.ranks.count == 1
    return settings.device.type == "cuda" and settings.capture and model.is_captureable and is_one


def _generators(seeds: Sequence[int], device: torch.device) -> list[torch.Generator]:
    return [torch.Generator(device).manual_seed(seed + 1) for seed in seeds]


def _one_or_many(generators: list[torch.Generator]) -> torch.Generator | list[torch.Generator]:
    """A single model has no replicate axis."""
    return generators if len(generators) > 1 else generators[0]
