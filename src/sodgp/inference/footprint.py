"""How many numbers training and prediction hold at once, counted by their largest tensors.

The factors were measured with PyTorch's memory profiler on all methods, and a test holds the estimates against it. They
are meant for decisions, not for accounting.
"""

from __future__ import annotations

from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP

__all__ = ["GROUP", "prediction_numbers", "training_numbers"]

# Tensors of T x M x B numbers that training holds at once, in the last layer and in the first.
_LAST = 4.0
# Numbers that products over outputs and psi statistics take at once (see `linalg.products` and `layers.psi`).
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
    """What training holds at once.

    Parameters
    ----------
    architecture : Architecture
    batch_rows : int
        Rows of the rest in a step.
    n_samples : int
        Monte Carlo samples T of a step.
    further : float
        Tensors of T x M x B numbers in each further hidden layer.
    more_kernels : int
        Kernels of the first layer beyond one.
    subset : bool
        Whether the subset's covariance is factorised for every sample, and again for every output with its labels.
    scratch : float
        What the method holds beyond that.
    """
    T, M, B = n_samples, architecture.size, batch_rows
    widths, P = architecture.widths, architecture.n_outputs
    T_deep = T if len(widths) > 1 else 0
    rows = M * B * (_LAST * (1 + more_kernels) + T_deep * (_LAST + max(len(widths) - 2, 0) * further))
    squares = max(T_deep, 1) * M * M * (8 + 6 * (P - 1)) if subset else M * M * 8
    squares += 8 * more_kernels * M * M
    # Parameters, gradients, two moments of Adam, and a copy to go back to.
    factors = 6 * M * sum(widths) * (M + 1)
    return rows + squares + factors + scratch


def prediction_numbers(
    model: DeepGP, n_samples: int, *, subset: bool = False, samples_differ: bool
) -> tuple[float, float]:
    """What a prediction holds, whatever the number of rows, and what every row adds.

    Parameters
    ----------
    model : DeepGP
        Without replicates.
    n_samples : int
        Monte Carlo samples T.
    subset : bool
        As in `training_numbers`.
    samples_differ : bool
        Whether every sample has a component of its own.
    """
    M, P, widths = model.layers[0].q_mean.shape[-2], model.n_outputs, model.widths
    # The first layer has the same covariances for all samples, and nothing is drawn in front of it.
    T_deep = n_samples if len(widths) > 1 else 1
    T = n_samples if samples_differ or model.likelihood.varies else 1
    per_row = 3.2 * T_deep * M + T * (4 * max(widths) + 6 * P)
    if model.has_separate_kernels:
        per_row += 3.2 * widths[0] * M
    if model.likelihood.kernels:
        per_row += 3.2 * M + 6 * T * P
    elif model.likelihood.varies:
        per_row += 6 * T * P * model.likelihood.n_levels
    fixed = T_deep * M * M * (4.0 + 5 * P) if subset else M * M * (8.0 + max(widths))
    return fixed, per_row
