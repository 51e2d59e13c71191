"""Estimates of the memory of training and prediction, as numbers of floating-point numbers in the largest tensors.

The factors were measured with PyTorch's memory profiler for all methods, and a test compares the estimates with it.
They are accurate enough to choose sizes of chunks and batches, not more.
"""

from __future__ import annotations

from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP

__all__ = ["GROUP", "prediction_numbers", "training_numbers"]

# Tensors of T x M x B numbers that are in memory at once, for the last layer and for the first.
_LAST = 4.0
# Size of the chunks of products over outputs and of psi statistics (see `linalg.products` and `layers.psi`).
GROUP = 2**22


def training_numbers(
    architecture: Architecture,
    batch_rows: int,
    n_samples: int,
    *,
    further: float = 6.0,
    more_kernels: int = 0,
    subset: bool = False,
    scratch: float = 0.0,
) -> float:
    """Numbers that are in memory at once in training.

    Parameters
    ----------
    architecture : Architecture
    batch_rows : int
        Rows of the rest in a step.
    n_samples : int
        Monte Carlo samples T of a step.
    further : float
        Tensors of T x M x B numbers for every hidden layer after the first.
    more_kernels : int
        Kernels of the first layer beyond one.
    subset : bool
        Whether the subset's covariance is factorised for every sample, and Q of q_hat for every output.
    scratch : float
        Further numbers that the method needs.
    """
    T, M, B = n_samples, architecture.size, batch_rows
    widths, P = architecture.widths, architecture.n_outputs
    T_deep = T if len(widths) > 1 else 0
    rows = M * B * (_LAST * (1 + more_kernels) + T_deep * (_LAST + max(len(widths) - 2, 0) * further))
    squares = max(T_deep, 1) * M * M * (8 + 6 * (P - 1)) if subset else M * M * 8
    squares += 8 * more_kernels * M * M
    # Parameters, gradients, two moments of Adam, and a copy for rollbacks.
    factors = 6 * M * sum(widths) * (M + 1)
    return float(rows + squares + factors + scratch)


def prediction_numbers(
    model: DeepGP, n_samples: int, *, subset: bool = False, samples_differ: bool
) -> tuple[float, float]:
    """Numbers that are in memory at once in a prediction: those that do not depend on the rows, and those of each row.

    Parameters
    ----------
    model : DeepGP
        Without replicates.
    n_samples : int
        Monte Carlo samples T.
    subset : bool
        As in `training_numbers`.
    samples_differ : bool
        Whether f has a different distribution in each sample.
    """
    M, P, widths = model.layers[0].q_mean.shape[-2], model.n_outputs, model.widths
    # With one layer nothing is drawn, and covariances are the same for all samples.
    T_deep = n_samples if len(widths) > 1 else 1
    T = n_samples if samples_differ or model.likelihood.varies else 1
    per_row = 3.2 * T_deep * M + T * (4 * max(widths) + 6 * P)
    if model.has_separate_kernels:
        per_row += 3.2 * widths[0] * M
    if model.likelihood.kernels:
        per_row += 3.2 * M + 6 * T * P
    elif model.likelihood.varies:
        per_row += 6 * T * P * model.likelihood.n_levels
    fixed = T_deep * M * M * (4 + 5 * P) if subset else M * M * (8 + max(widths))
    return float(fixed), float(per_row)
