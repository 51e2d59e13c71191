"""Bounds to compare models by: at the same rows and the same random numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from sodgp.inference.contract import Inference, Terms, TrainingSet, bound, rest_of
from sodgp.linalg.draws import FreshDraws
from sodgp.model.deep_gp import DeepGP

_LEAST_ROWS = 2000


@torch.no_grad()
def bound_of(
    model: DeepGP,
    inference: Inference,
    data: TrainingSet,
    chosen: Int64[Tensor, " M"] | None,
    *,
    batch_rows: int,
    n_samples: int,
    seed: int,
    total: Callable[[Terms], Float[Tensor, ""]] = bound,
) -> float:
    """The bound of a model without replicates, at 2,000 random rows of the rest or as many as a step sees if more.

    Parameters
    ----------
    model, inference, data
    chosen : Tensor of shape [M] or None
        Which rows of the data the subset is: models with other subsets are compared at the same rows, but for these.
    batch_rows : int
        Rows of the rest that a step sees.
    n_samples : int
        Monte Carlo samples T.
    seed : int
        Of the rows and of the draws.
    total : function (terms) -> scalar Tensor
        What is compared; by default the sum of all terms.
    """
    device = model.device
    order = _shuffled_rest(data.n_rest, torch.arange(0) if chosen is None else chosen, seed)
    # In their own order, so that where all take part they are what a full step sees.
    rows = order[: max(batch_rows, _LEAST_ROWS)].sort().values
    batch = data.batch(data.rest_at(rows), data.n_rest / len(rows) if len(rows) else 0.0, device)
    generator = torch.Generator(device).manual_seed(seed)
    draws = FreshDraws(generator, n_samples, dtype=model.dtype, device=device)
    return float(total(inference.terms(model, batch, draws)))


def _shuffled_rest(n_rest: int, chosen: Int64[Tensor, " M"], seed: int) -> Int64[Tensor, " R"]:
    """Positions in the rest, in a random order of all N rows that does not depend on the subset."""
    n_rows = n_rest + len(chosen)
    place = torch.full((n_rows,), -1)
    place[rest_of(n_rows, chosen)] = torch.arange(n_rest)
    shuffled = place[torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed))]
    return shuffled[shuffled >= 0]
