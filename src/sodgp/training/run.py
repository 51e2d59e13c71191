"""One fit in scaled units: build the model, train it, hand it back with its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sodgp.architecture import Architecture
from sodgp.draws import FreshDraws
from sodgp.inference.base import Inference, Terms, TrainingSet
from sodgp.inference.sghmc import StochasticGradientHMC
from sodgp.model import DeepGP
from sodgp.training.batches import Batcher
from sodgp.training.loop import Callback, EagerStep, History, Schedule, train
from sodgp.training.sampling import fit_by_sampling


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
    """

    max_iter: int
    batch_rows: int
    n_samples: int
    learning_rate: float
    schedule: str
    device: torch.device
    callbacks: Sequence[Callback] = ()


def fit(
    inference: Inference, architecture: Architecture, data: TrainingSet, settings: Settings, seed: int
) -> tuple[DeepGP, History]:
    """Train a model.

    Parameters
    ----------
    inference : Inference
        The method: it builds the model and states the objective.
    architecture : Architecture
    data : TrainingSet
        In scaled units.
    settings : Settings
    seed : int
        Of the initial values, the batches and the Monte Carlo draws.

    Returns
    -------
    model : DeepGP
        In evaluation mode, gradients off.
    history : History
    """
    model = inference.build(architecture, data, torch.Generator().manual_seed(seed)).to(settings.device)
    draws = FreshDraws(
        torch.Generator(settings.device).manual_seed(seed + 1),
        inference.n_chains if isinstance(inference, StochasticGradientHMC) else settings.n_samples,
        dtype=architecture.dtype,
        device=settings.device,
    )
    batcher = Batcher(data.to(settings.device), settings.batch_rows, [torch.Generator().manual_seed(seed + 2)])
    schedule = Schedule(settings.learning_rate, settings.schedule, settings.max_iter)
    if isinstance(inference, StochasticGradientHMC):
        history = fit_by_sampling(model, inference, batcher, draws, schedule, callbacks=settings.callbacks)
        return model.requires_grad_(False).eval(), history

    def objective() -> Terms:
        return inference.terms(model, batcher.next(), draws)

    history = train(EagerStep(model, objective, settings.learning_rate), model, schedule, callbacks=settings.callbacks)
    return model.requires_grad_(False).eval(), history
