"""Numbers that SoD-VI has in memory at once, in training and in predictions."""

from __future__ import annotations

from sodgp.inference.sod_prediction import LABEL_ROWS
from sodgp.model.architecture import GROUP, Architecture
from sodgp.model.deep_gp import DeepGP

__all__ = ["of_prediction", "of_training"]


def of_training(
    architecture: Architecture, batch_rows: int, n_samples: int, *, coupling: str, separate_kernels: bool
) -> float:
    """Estimate of the largest number of floating-point numbers in a step, without the data."""
    T, M, B, widths = n_samples, architecture.size, batch_rows, architecture.widths
    scratch = 0.0
    if coupling == "marginal":
        scratch = 1.5 * min(T * M * B * max(widths), GROUP)
    elif coupling == "joint":
        # The covariance of the first layer has no samples; of later ones there are several copies for the backward
        # pass.
        hidden = len(widths) - 1
        copies = 1.3 if hidden < 2 else 6.6 + 1.7 * (hidden - 2)
        scratch = copies * T * max(widths[:-1], default=0) * (M + B) ** 2
    return architecture.training_numbers(
        B,
        T,
        further=2.5 if coupling == "ancestral" else 6.0,
        more_kernels=widths[0] - 1 if separate_kernels and len(widths) > 1 else 0,
        subset=True,
        scratch=scratch,
    )


def of_prediction(
    model: DeepGP, n_samples: int, n_given: int, *, samples_differ: bool, prepares_once: bool
) -> tuple[float, float]:
    """The same for a prediction given so many rows: whatever the number of new rows, and for each of a chunk."""
    M, widths = model.layers[0].q_mean.shape[-2], model.widths
    fixed, per_row = model.prediction_numbers(n_samples, subset=True, samples_differ=samples_differ)
    if not prepares_once:
        return fixed + (GROUP if len(widths) > 2 else 0), per_row
    # The factors of all layers are in memory at the same time.
    T = n_samples if samples_differ or model.likelihood.varies else 1
    own = widths[0] if model.has_separate_kernels else 1
    if model.device.type == "cpu":
        # Covariances with the rows are those of one sample at a time, in the last layer of all outputs.
        per_row += M * (1.0 + model.n_outputs - 3.2 * (n_samples if len(widths) > 1 else 1))
    # Rows with labels beyond the subset go through the hidden layers first, in parts.
    labelled = min(max(n_given - M, 0), LABEL_ROWS) if len(widths) > 1 else 0
    drawn = labelled * n_samples * (4.0 * max(widths) + (0.0 if model.device.type == "cpu" else 3.2 * M))
    return fixed + drawn + M * M * (max(len(widths) - 2, 0) * T + own), per_row
