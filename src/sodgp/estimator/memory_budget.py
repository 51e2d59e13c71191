"""How much memory training and prediction need, and what they do when it is not enough.

The methods estimate how many numbers they hold (see `sodgp.model.architecture`). Here this decides how many rows a
prediction takes at once, and whether training can begin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch

from sodgp.errors import ResourceError
from sodgp.estimator.fitted import Fitted
from sodgp.inference.contract import Inference
from sodgp.model.architecture import Architecture
from sodgp.system import memory
from sodgp.system.readable import check_readable
from sodgp.system.validation import without_tensors
from sodgp.training.run import Settings

# What the tensors of one chunk of a prediction may take on a CPU, which allocates larger ones anew every time; and how
# many times that where a chunk has fixed costs.
CHUNK_BYTES = 2**26
_EXPENSIVE_CHUNK = 4

R = TypeVar("R")


def prediction_bytes(fitted: Fitted, n_samples: int) -> tuple[int, int]:
    """What a prediction takes whatever the number of rows, and what every row adds, in bytes."""
    size = torch.empty((), dtype=fitted.model.dtype).element_size()
    fixed, per_row = fitted.method.prediction_numbers(fitted.model, n_samples, fitted.X_s.shape[1])
    return math.ceil(size * fixed), math.ceil(size * per_row)


def chunk_rows(fitted: Fitted, n_samples: int, device: torch.device) -> int:
    """Rows that a prediction takes at once.

    Raises
    ------
    ResourceError
        There is not enough memory even for one.
    """
    fixed, per_row = prediction_bytes(fitted, n_samples)
    advice = f"Lower n_predict_samples ({n_samples}): model.set_params(n_predict_samples=...) needs no new fit."
    memory.require_memory(fixed + per_row, "a prediction", advice, device)
    there = memory.available_memory(device)
    wanted = CHUNK_BYTES * (_EXPENSIVE_CHUNK if device.type != "cpu" or not fitted.method.prepares_once else 1)
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
    is_copied: bool = False,
) -> int:
    """What training takes beyond the prepared data, in bytes, for so many models: their steps, and copies of the data.

    Many models that train at once, and models on a GPU, have copies.
    """
    numbers = inference.training_numbers(architecture, n_rows, batch_rows, n_samples)
    element = torch.empty((), dtype=architecture.dtype).element_size()
    # The order of a pass through the rows, and the rows.
    columns = architecture.input_dim + architecture.n_outputs if replicates > 1 or is_copied else 0
    data = n_rows * (8 + element * columns)
    return math.ceil(replicates * (element * numbers + data))


def preparation_bytes(X: Any, y: Any, models: int) -> int | None:
    """What the preparation of so many models adds to the user's own X and y, in bytes; None where sizes are unknown.

    Each has the rows in its own units. X is converted once, unless it is an array as it is needed; y always is.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.zeros((1000, 10)), np.zeros(1000)
    >>> preparation_bytes(X, y, 1) / (X.nbytes + y.nbytes)
    1.6...
    """
    check_readable(X, "X")
    check_readable(y, "y")
    if not hasattr(X, "shape") or len(X.shape) != 2 or not hasattr(y, "shape"):
        return None
    n_rows, columns = (int(size) for size in X.shape)
    outputs = int(y.shape[1]) if len(y.shape) > 1 else 1
    values = without_tensors(X, "X") if isinstance(X, torch.Tensor) and X.device.type == "cpu" else X
    is_used = isinstance(values, np.ndarray) and values.dtype == np.float64 and values.flags.c_contiguous
    numbers = (0 if is_used else columns) + outputs + models * (columns + outputs)
    # Numbers of the rows and of the rest; for a moment marks of the cells, and the last copy once more in the making.
    return math.ceil(n_rows * (8 * numbers + 8 * (models + 1) + 3 * columns))


@contextmanager
def enough_for_preparation(X: Any, y: Any, *, models: int) -> Iterator[None]:
    """Run a block that prepares so many models, if there is memory for it.

    Raises
    ------
    ResourceError
        Before the block, where the estimate is more than there is; or out of it, where memory ran out nevertheless.
    """
    needed = preparation_bytes(X, y, models)
    rows = "the rows" if needed is None else f"{X.shape[0]:,} rows and {X.shape[1]} columns"
    what = f"the preparation of {rows}" + (f" for {models} models" if models > 1 else "")
    fewer = "train fewer models (n_members, n_restarts), " if models > 1 else ""
    advice = (
        f"The data are copied in the model's units: {fewer}give X as a C-ordered array of float64, which is not copied"
        " once more, or a random share of the rows, or take a machine with more memory."
    )
    if needed is not None:
        memory.require_memory(needed, what, advice)
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not memory.is_out_of_memory(error):
            raise
        size = "" if needed is None else f"; it needs about {needed / memory.GB:.2f} GB"
        raise ResourceError(
            f"{what} ran out of memory{size}. {advice} ({memory.first_line(error)})",
            needed=needed,
            available=memory.available_memory(),
        ) from error


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
    is_copied = device.type != "cpu"
    needed = training_bytes(
        inference, architecture, n_rows, batch_rows, settings.n_samples, replicates=replicates, is_copied=is_copied
    )
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
