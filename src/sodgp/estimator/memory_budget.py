"""How much memory training and prediction need, and what they do when it is not enough.

The estimates count the largest tensors, with factors measured by PyTorch's memory profiler on all methods (a test
holds them against it). They are meant for decisions, not for accounting: how many rows a prediction takes at once, and
whether to begin at all with something that cannot end well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from sodgp.errors import ResourceError
from sodgp.inference.contract import Inference
from sodgp.likelihoods.noise import NoiseProcess
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP
from sodgp.system import memory

# What the tensors of one chunk of a prediction may take together on a processor, which maps larger ones afresh again
# and again; and how many times that where a chunk costs something of its own.
CHUNK_BYTES = 2**26
_DEAR_CHUNK = 4
# Tensors of T x M x B numbers that training holds at once: in the last layer and the first, in each further one, and in
# each further one of methods that also draw the batch's rows from marginals.
_LAST, _FURTHER, _FURTHER_MARGINAL = 4.0, 2.5, 6.0
# Numbers that products over outputs and psi statistics take at once (see `layers.products` and `layers.psi`).
_GROUP = 2**22


def prediction_bytes(inference: Inference, model: DeepGP, n_samples: int) -> tuple[int, int]:
    """What a prediction takes whatever the number of rows, and what every row adds, in bytes.

    Parameters
    ----------
    inference : Inference
    model : DeepGP
        Without replicates.
    n_samples : int
        Monte Carlo samples T.
    """
    T, M, P = n_samples, model.layers[0].q_mean.shape[-2], model.n_outputs
    widths = [layer.q_mean.shape[-1] for layer in model.layers]
    # The first layer has the same covariances for all samples, and nothing is drawn in front of it.
    T_deep = T if len(widths) > 1 else 1
    T = T if draws_on_the_way(inference, model) else 1
    per_row = 3.2 * T_deep * M + T * (4 * max(widths) + 6 * P)
    if model.has_separate_kernels:
        per_row += 3.2 * widths[0] * M
    if isinstance(model.noise_process, NoiseProcess):
        per_row += 3.2 * M + 6 * T * P
    elif model.noise_process is not None:
        per_row += 6 * T * P * model.n_noise_levels
    # SoD factorises the covariance of every sample's subset, and once more for every output with its labels.
    fixed = T_deep * M * M * (4 + 5 * P) if inference.uses_subset else M * M * (8 + max(widths))
    coupling = getattr(inference, "coupling", "")
    if coupling == "marginal" and len(widths) > 2:
        fixed += _GROUP
    elif coupling in ("ancestral", "joint") and inference.uses_subset:
        # The factors of all layers are there at the same time.
        fixed += M * M * (max(len(widths) - 2, 0) * T + (widths[0] if model.has_separate_kernels else 1))
    size = model.likelihood.raw_noise.element_size()
    return math.ceil(size * fixed), math.ceil(size * per_row)


def draws_on_the_way(inference: Inference, model: DeepGP, *, with_noise: bool = True) -> bool:
    """Whether the samples of a prediction have laws of their own: one law is that of all of them in a plain GP.

    Posterior draws and noise that varies have a component for every sample, however shallow the model.
    """
    varies = with_noise and model.noise_process is not None
    return len(model.layers) > 1 or inference.name == "sghmc" or varies


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
    draws_subset_again = getattr(inference, "coupling", "") == "marginal"
    wanted = CHUNK_BYTES * (_DEAR_CHUNK if device.type != "cpu" or draws_subset_again else 1)
    budget = wanted if there is None else min(wanted, (there - fixed) // 2)
    return max(1, budget // per_row)


def halving(rows: int, chunk: int, work: Callable[[slice], Any], device: torch.device, what: str) -> Iterator[Any]:
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
    """What training takes, the data included, in bytes.

    Parameters
    ----------
    inference : Inference
    architecture : Architecture
    n_rows, batch_rows : int
        Rows of the data, and of the rest in a step.
    n_samples : int
        Monte Carlo samples T of a step.
    replicates : int
        Models in one program.
    """
    T, M, B = n_samples, architecture.size, batch_rows
    widths, P = architecture.widths, architecture.n_outputs
    if inference.name in ("mean_field", "sghmc"):
        T = getattr(inference, "n_chains", 1)
    coupling = getattr(inference, "coupling", "")
    T_deep = T if len(widths) > 1 else 0
    further = max(len(widths) - 2, 0) * (_FURTHER if coupling == "ancestral" else _FURTHER_MARGINAL)
    beside = widths[0] - 1 if architecture.is_separate(0) else 0
    rows = M * B * (_LAST * (1 + beside) + T_deep * (_LAST + further))
    squares = max(T_deep, 1) * M * M * (8 + 6 * (P - 1)) if inference.uses_subset else M * M * 8
    squares += 8 * beside * M * M
    # Parameters, gradients, two moments of Adam, and a copy to go back to.
    factors = 6 * M * sum(widths) * (M + 1)
    scratch = 0.0
    if coupling == "marginal":
        scratch = 1.5 * min(T * M * B * max(widths), _GROUP)
    elif coupling == "joint":
        # The first layer's covariance has no samples; of every further one several copies wait for the way back.
        hidden = len(widths) - 1
        copies = 1.3 if hidden < 2 else 6.6 + 1.7 * (hidden - 2)
        scratch = copies * T * max(widths[:-1], default=0) * (M + B) ** 2
    elif inference.name == "mean_field":
        scratch = 2.0 * min(n_rows * M * M / 2, _GROUP)
    element = torch.empty((), dtype=architecture.dtype).element_size()
    data = 3 * n_rows * (architecture.input_dim + P) * 8
    return math.ceil(replicates * (element * (rows + squares + factors + scratch) + data))


@contextmanager
def enough_for_training(
    inference: Inference,
    architecture: Architecture,
    n_rows: int,
    batch_rows: int,
    n_samples: int,
    *,
    device: torch.device,
    replicates: int = 1,
) -> Iterator[None]:
    """Run a block that trains, if there is memory for it; see `training_bytes` for the arguments.

    Raises
    ------
    ResourceError
        Before the block, where the estimate is more than there is; or out of it, where memory ran out nevertheless.
    """
    needed = training_bytes(inference, architecture, n_rows, batch_rows, n_samples, replicates=replicates)
    what = "training" if replicates == 1 else f"training {replicates} models in one program"
    fewer = "" if replicates == 1 else "train fewer models at once (n_members, n_restarts), "
    advice = (
        f"A step takes {batch_rows} rows beside {architecture.size} of the subset (or inducing points): {fewer}lower"
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
