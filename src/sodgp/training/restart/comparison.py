"""Bounds to compare models by: at the same rows and the same random numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from sodgp.inference.contract import Batch, Inference, TrainingSet, bound, rest_of
from sodgp.linalg.draws import FreshDraws
from sodgp.model.deep_gp import DeepGP

# Rows of the rest in such a bound, where a step does not see more.
_ROWS = 2000


def compared_rows(order: Tensor, batch_rows: int) -> Tensor:
    """The rows of the rest that a bound is compared at: the first of a fixed random order, or all of a few.

    Parameters
    ----------
    order : Tensor of shape [N - M]
        Rows of the rest, shuffled: a table may be sorted.
    batch_rows : int
        Rows of the rest that a step sees.
    """
    return order[: max(batch_rows, _ROWS)]


@torch.no_grad()
def bound_at(model: DeepGP, inference: Inference, batch: Batch, *, n_samples: int, seed: int) -> float:
    """The bound, or what is trained in its place, at these rows and fixed random numbers.

    Parameters
    ----------
    model : DeepGP
        Without replicates.
    inference : Inference
    batch : Batch
        On the model's device.
    n_samples : int
        Monte Carlo samples T.
    seed : int
        Of the draws.
    """
    generator = torch.Generator(model.device).manual_seed(seed)
    draws = FreshDraws(generator, n_samples, dtype=model.dtype, device=model.device)
    return float(bound(inference.terms(model, batch, draws)))


def bound_of(
    model: DeepGP,
    inference: Inference,
    data: TrainingSet,
    chosen: Tensor | None,
    *,
    batch_rows: int,
    n_samples: int,
    seed: int,
) -> float:
    """The bound of a model at 2,000 rows of the rest, drawn at random, or as many as a step sees where that is more.

    Parameters
    ----------
    model, inference, n_samples
        As in `bound_at`.
    data : TrainingSet
        Without replicates.
    chosen : Tensor of shape [M] or None
        Which rows of the data the subset is: models with other subsets are compared at the same rows, but for these.
    batch_rows : int
        Rows of the rest that a step sees.
    seed : int
        Of the rows and of the draws.
    """
    device = model.device
    order = _shuffled_rest(data.n_rest, torch.arange(0) if chosen is None else chosen, seed)
    # In their own order, so that where all take part they are what a full step sees.
    rows = compared_rows(order, batch_rows).sort().values
    parts = [data.X_s, data.y_s, data.X_r[rows], data.y_r[rows]]
    parts += [] if data.precision_r is None else [data.precision_r[rows]]
    X_s, y_s, X_b, y_b, *precision = (part.to(device).unsqueeze(0) for part in parts)
    batch = Batch(X_s, y_s, X_b, y_b, data.n_rest / len(rows) if len(rows) else 0.0, *precision)
    return bound_at(model, inference, batch, n_samples=n_samples, seed=seed)


def _shuffled_rest(n_rest: int, chosen: Tensor, seed: int) -> Tensor:
    """Positions in the rest, [N - M], in a random order of all N rows that does not depend on the subset."""
    n_rows = n_rest + len(chosen)
    place = torch.full((n_rows,), -1)
    place[rest_of(n_rows, chosen)] = torch.arange(n_rest)
    shuffled = place[torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed))]
    return shuffled[shuffled >= 0]
