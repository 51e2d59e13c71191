"""Why a matrix could not be factorised, in words."""

from __future__ import annotations

import torch
from torch import Tensor

from sodgp.errors import CholeskyError


def failure(K: Tensor, info: Tensor, top: float, layer: int | None, what: str) -> CholeskyError:
    """The error for matrices K [..., M, M] of which those with info > 0 failed with jitter up to `top`."""
    sample = int(torch.nonzero(info.flatten() > 0)[0, 0])
    matrix = K.reshape(-1, *K.shape[-2:])[sample]
    place = f"layer {layer}, " if layer is not None else ""
    if not bool(torch.isfinite(matrix).all()):
        condition, cause = float("nan"), "it holds NaN or infinite values: a parameter or an input has diverged"
    else:
        eigenvalues = torch.linalg.eigvalsh(matrix.double())
        largest, smallest = float(eigenvalues[-1]), float(eigenvalues[0])
        condition = largest / smallest if smallest > 0 else float("inf")
        cause = (
            f"condition about {condition:.1e}, smallest eigenvalue {smallest:.1e}: rows of the subset are (nearly)"
            " equal in this layer, or the lengthscale has grown far beyond the data"
        )
    wider = "dtype='float64', " if K.dtype == torch.float32 else ""
    return CholeskyError(
        f"{what} of {place}sample {sample} could not be factorised with jitter up to {top:.0e}; {cause}."
        f" Try {wider}a smaller learning_rate, a smaller subset_size, or hidden_mean='linear'.",
        layer=layer,
        sample=sample,
        condition=condition,
    )
