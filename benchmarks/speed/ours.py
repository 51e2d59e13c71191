"""Our training steps, put together from the parts that `sodgp.training.run.fit` uses."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from benchmarks.speed.shapes import DTYPE, Shape, synthetic_data
from sodgp.inference.contract import Inference, TrainingSet
from sodgp.model.architecture import Architecture, linear_weights
from sodgp.model.deep_gp import DeepGP
from sodgp.training.batches import Batcher
from sodgp.training.run import Settings, training_step
from sodgp.training.stacking import Problem, stack
from sodgp.training.steps import Step

LEARNING_RATE = 0.01


def our_step(
    inference: Inference,
    shape: Shape,
    data: TrainingSet,
    device: torch.device,
    *,
    captured: bool = False,
    compiled: bool = False,
) -> Step:
    """The whole step of one model: batch, forward, backward, Adam.

    Parameters
    ----------
    inference : Inference
    shape : Shape
    data : TrainingSet
    device : torch.device
    captured : bool
        Recorded as a CUDA graph.
    compiled : bool
        Small operations fused by PyTorch's compiler first.
    """
    problem = _problem(inference, shape, data, seed=0)
    model = inference.build(problem.architecture, _start_rows(problem.data, shape), _generator(0)).to(device)
    return _assemble(inference, shape, model, problem.data, device, [0], captured=captured, compiled=compiled)


def our_replicated_step(
    inference: Inference, shape: Shape, device: torch.device, *, replicates: int, captured: bool, compiled: bool = False
) -> Step:
    """The step of several models in one program, each with data of its own; arguments as in `our_step`."""
    problems = [_problem(inference, shape, synthetic_data(shape, device, seed), seed) for seed in range(replicates)]
    singles = [inference.build(p.architecture, _start_rows(p.data, shape), _generator(p.seed)) for p in problems]
    model = stack(inference, problems, singles).to(device)
    names = ("X_s", "y_s", "X_r", "y_r")
    data = TrainingSet(*(torch.stack([getattr(p.data, name) for p in problems]) for name in names))
    return _assemble(
        inference, shape, model, data, device, [p.seed for p in problems], captured=captured, compiled=compiled
    )


def _assemble(
    inference: Inference,
    shape: Shape,
    model: DeepGP,
    data: TrainingSet,
    device: torch.device,
    seeds: Sequence[int],
    *,
    captured: bool,
    compiled: bool,
) -> Step:
    settings = Settings(
        max_iter=1,
        batch_rows=shape.batch,
        n_samples=shape.n_samples,
        learning_rate=LEARNING_RATE,
        schedule="constant",
        device=device,
        capture=captured,
        compile=compiled,
    )
    batcher = Batcher(data, shape.batch, [_generator(seed + 2) for seed in seeds])
    return training_step(inference, model, batcher, seeds, settings)


def _problem(inference: Inference, shape: Shape, data: TrainingSet, seed: int) -> Problem:
    if not inference.uses_subset:
        # The same B rows a step for every method: DSVI's data are the rest.
        data = TrainingSet(data.X_s[:0], data.y_s[:0], data.X_r, data.y_r)
    # Directions from a few rows: the initial values do not change the time of a step.
    weights = linear_weights(data.X_r[: 2 * shape.n_columns].cpu(), shape.hidden_widths)
    architecture = Architecture(shape.n_columns, 1, shape.size, weights, dtype=DTYPE)
    return Problem(architecture, data, seed)


def _start_rows(data: TrainingSet, shape: Shape) -> TrainingSet:
    """As many rows as inducing points: DSVI starts there, and no k-means has to look at all rows."""
    return TrainingSet(data.X_s, data.y_s, data.X_r[: shape.size], data.y_r[: shape.size])


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
