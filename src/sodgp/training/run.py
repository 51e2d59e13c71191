"""Fits in scaled units: build models, train them, hand them back with their histories.

Several problems of one shape train in one program, with a leading replicate axis; each gets the result that it would
have had alone, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sodgp.architecture import Architecture
from sodgp.draws import FreshDraws
from sodgp.errors import ConfigurationError, NumericalError
from sodgp.inference.base import Inference, Terms, TrainingSet
from sodgp.inference.sghmc import StochasticGradientHMC
from sodgp.model import DeepGP
from sodgp.training.batches import Batcher
from sodgp.training.loop import Callback, History, Schedule, train
from sodgp.training.posterior import fit_by_sampling
from sodgp.training.steps import CapturedStep, EagerStep, Step


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
    """

    max_iter: int
    batch_rows: int
    n_samples: int
    learning_rate: float
    schedule: str
    device: torch.device
    callbacks: Sequence[Callback] = ()
    capture: bool = True


@dataclass(frozen=True)
class Problem:
    """One model to fit.

    Parameters
    ----------
    architecture : Architecture
    data : TrainingSet
        In scaled units.
    seed : int
        Of the initial values, the batches and the Monte Carlo draws.
    """

    architecture: Architecture
    data: TrainingSet
    seed: int


def fit(inference: Inference, problems: Sequence[Problem], settings: Settings) -> list[tuple[DeepGP, History]]:
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
    list of (DeepGP, History)
        Models in evaluation mode, gradients off.

    Raises
    ------
    ConfigurationError
        For problems of different shapes.
    NumericalError
        When training ran away and could not be brought back.
    """
    singles = [
        inference.build(p.architecture, p.data, torch.Generator().manual_seed(p.seed)).to(settings.device)
        for p in problems
    ]
    if len(problems) == 1:
        model, data = singles[0], problems[0].data
    else:
        model, data = stack(inference, problems, singles).to(settings.device), _stack_data([p.data for p in problems])
    generators = [torch.Generator(settings.device).manual_seed(p.seed + 1) for p in problems]
    draws = FreshDraws(
        generators if len(problems) > 1 else generators[0],
        inference.n_chains if isinstance(inference, StochasticGradientHMC) else settings.n_samples,
        dtype=problems[0].architecture.dtype,
        device=settings.device,
    )
    shuffles = [torch.Generator().manual_seed(p.seed + 2) for p in problems]
    batcher = Batcher(data.to(settings.device), settings.batch_rows, shuffles)
    schedule = Schedule(settings.learning_rate, settings.schedule, settings.max_iter)

    def objective() -> Terms:
        return inference.terms(model, batcher.batch(), draws)

    def handed_back(histories: Sequence[History]) -> list[tuple[DeepGP, History]]:
        if len(problems) > 1:
            unstack(model, singles)
            for index, single in enumerate(singles):
                if hasattr(model, "diagnostics"):
                    single.diagnostics = model.diagnostics.of_replicate(index)
        return [(single.requires_grad_(False).eval(), h) for single, h in zip(singles, histories, strict=True)]

    try:
        if isinstance(inference, StochasticGradientHMC):
            histories = fit_by_sampling(model, inference, batcher, draws, schedule, callbacks=settings.callbacks)
        else:
            step = _make_step(model, objective, batcher, generators, settings)
            histories = train(step, model, schedule, replicates=len(problems), callbacks=settings.callbacks)
    except NumericalError as error:
        # A model to be sampled is none before it has posterior draws.
        if not isinstance(inference, StochasticGradientHMC):
            error.kept = handed_back([History() for _ in problems])
        raise
    return handed_back(histories)


def _make_step(
    model: DeepGP,
    objective: Callable[[], Terms],
    batcher: Batcher,
    generators: Sequence[torch.Generator],
    settings: Settings,
) -> Step:
    """A recorded step where it can be had, else a plain one."""
    if settings.device.type == "cuda" and settings.capture and model.is_captureable:
        return CapturedStep(model, objective, settings.learning_rate, batcher.advance, generators)
    return EagerStep(model, objective, settings.learning_rate, batcher.advance)


def stack(inference: Inference, problems: Sequence[Problem], singles: Sequence[DeepGP]) -> DeepGP:
    """One model with a leading replicate axis, holding the parameters of all `singles`.

    Raises
    ------
    ConfigurationError
        When the problems differ in shape.
    """
    replicates = torch.Size([len(problems)])
    shapes = {(p.data.X_s.shape, p.data.X_r.shape, p.data.y_r.shape, tuple(p.architecture.widths)) for p in problems}
    if len(shapes) > 1:
        raise ConfigurationError("replicates must have equal numbers of rows, columns, outputs and subset rows.")
    architectures = [p.architecture for p in problems]
    weights = [torch.stack(W) for W in zip(*(a.mean_weights for a in architectures), strict=True)]
    together = replace(architectures[0], mean_weights=weights, replicates=replicates)
    # The initial values come from the single models; `data=None` only sizes this one.
    model = inference.build(together, None, torch.Generator())
    parts = [_tensors(single) for single in singles]
    with torch.no_grad():
        for name, tensor in _tensors(model).items():
            if tensor.shape != parts[0][name].shape:
                stacked = torch.stack([part[name] for part in parts])
                # Tensors with a row for each data point (mean-field's q(Z)) have no rows yet without data.
                tensor.data = stacked.reshape(tensor.shape) if tensor.numel() == stacked.numel() else stacked
    return model


def unstack(model: DeepGP, singles: Sequence[DeepGP]) -> None:
    """Give every single model its replicate's parameters."""
    together = _tensors(model)
    with torch.no_grad():
        for index, single in enumerate(singles):
            for name, tensor in _tensors(single).items():
                if together[name].shape != tensor.shape:
                    tensor.copy_(together[name][index].reshape(tensor.shape))


def _tensors(model: DeepGP) -> dict[str, Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _stack_data(sets: Sequence[TrainingSet]) -> TrainingSet:
    names = ("X_s", "y_s", "X_r", "y_r")
    return TrainingSet(*(torch.stack([getattr(data, name) for data in sets]) for name in names))
