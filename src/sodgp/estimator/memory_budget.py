"""How much memory training and prediction need, and what they do when it is not enough.

The methods estimate how many numbers they hold (see `sodgp.model.architecture`). Here this decides how many rows a
prediction takes at once, and whether training can begin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from sodgp.errors import ResourceError
from sodgp.inference.contract import Inference
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP
from sodgp.system import memory
from sodgp.training.run import Settings

# What the tensors of one chunk of a prediction may take on a CPU, which allocates larger ones anew every time; and how
# many times that where a chunk has fixed costs.
CHUNK_BYTES = 2**26
_EXPENSIVE_CHUNK = 4

R = TypeVar("R")


def prediction_bytes(inference: Inference, model: DeepGP, n_samples: int) -> tuple[int, int]:
    """What a prediction takes whatever the number of rows, and what every row adds, in bytes."""
    size = torch.empty((), dtype=model.dtype).element_size()
    fixed, per_row = inference.prediction_numbers(model, n_samples)
    return math.ceil(size * fixed), math.ceil(size * per_row)


def chunk_rows(inference: Inference, model: DeepGP, n_samples: int, device: torch.device) -> int:
    """Rows that a prediction takes at once.

    Raises
    ------
    ResourceError
        There is not enough memory even for one.
    """
    fixed, per_row = prediction_bytes(inference, model, n_samples)
    advice = f"Lower n_predict_samples ({n_samples}): model.set_params(n_predict_samples=...) needs no new fit."
    memory.require_memory(fixed + per_row, "a prediction", advice, device)
    there = memory.available_memory(device)
    wanted = CHUNK_BYTES * (_EXPENSIVE_CHUNK if device.type != "cpu" or not inference.prepares_once else 1)
    budget = wanted if there is None else min(wanted, (there - fixed) // 2)
    return max(1, budget // per_row)


def halving(rows: int, chunk: int, work: Callable[[slice], R], device: torch.device, what: str) -> Iterator[R]:
    """Do `work` on slices of so many rows; where memory runs out, with half of them from there on.

    Raises
    ------
    ResourceError
        There was not enough memory for one row.
    """
    start = 0
    while start < rows:
        stop = min(start + chunk, rows)
        try:
            result = work(slice(start, stop))
        except (RuntimeError, MemoryError) as error:
            if not memory.is_out_of_memory(error):
                raise
            reason, result = memory.first_line(error), None
        if result is None:
            # Outside the handler, whose traceback keeps the tensors of the failed attempt alive.
            if device.type == "cuda":
                torch.cuda.empty_cache()
            if stop - start == 1:
                raise ResourceError(
                    f"{what} ran out of memory on {device.type} ({reason}). Lower n_predict_samples:"
                    " model.set_params(n_predict_samples=...) needs no new fit.",
                    needed=None,
                    available=memory.available_memory(device),
                )
            chunk = (stop - start) // 2
            continue
        yield result
        start = stop


def training_bytes(
    inference: Inference,
    architecture: Architecture,
    n_rows: int,
    batch_rows: int,
    n_samples: int,
    *,
    replicates: int = 1,
) -> int:
    """What training takes, the data included, in bytes: of the rows of data and of a step, for so many models."""
    numbers = inference.training_numbers(architecture, n_rows, batch_rows, n_samples)
    element = torch.empty((), dtype=architecture.dtype).element_size()
    data = 3 * n_rows * (architecture.input_dim + architecture.n_outputs) * 8
    return math.ceil(replicates * (element * numbers + data))


@contextmanager
def enough_for_training(
    inference: Inference, architecture: Architecture, n_rows: int, settings: Settings, *, replicates: int = 1
) -> Iterator[None]:
    """Run a block that trains so many models at once, if there is memory for it.

    Raises
    ------
    ResourceError
        Before the block, where the estimate is more than there is; or out of it, where memory ran out nevertheless.
    """
    device, batch_rows = settings.device, settings.batch_rows
    needed = training_bytes(inference, architecture, n_rows, batch_rows, settings.n_samples, replicates=replicates)
    what = "training" if replicates == 1 else f"training {replicates} models at once"
    fewer = "" if replicates == 1 else "train fewer models at once (n_members, n_restarts, n_jobs), "
    advice = (
        f"A step takes {batch_rows} rows and {architecture.size} of the subset (or inducing points): {fewer}lower"
        " batch_size, subset_size or n_samples, or use dtype='float32'."
    )
    memory.require_memory(needed, what, advice, device)
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not memory.is_out_of_memory(error):
            raise
        raise ResourceError(
            f"{what} ran out of memory on {device.type}; it needs about {needed / memory.GB:.2f} GB. {advice}"
            f" ({memory.first_line(error)})",
            needed=needed,
            available=memory.available_memory(device),
        ) from error
