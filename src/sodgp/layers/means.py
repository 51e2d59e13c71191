"""Weights of the hidden layers' mean functions: fixed linear maps, or zero."""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["linear_weights", "zero_weights"]


def linear_weights(X: Float[Tensor, "N D"], widths: list[int]) -> list[Float[Tensor, "_ _"]]:
    """Weights of the linear means of a stack of hidden layers (Salimbeni & Deisenroth 2017, section 3).

    The identity where the width stays, the leading principal directions of the (scaled) inputs where it shrinks, and
    the identity padded with zeros where it grows. Later layers see the inputs as mapped by the earlier means.

    Parameters
    ----------
    X : Tensor of shape [N, D]
        Scaled training inputs.
    widths : list of int
        Width of each hidden layer.

    Examples
    --------
    >>> X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> [tuple(W.shape) for W in linear_weights(X, [3, 2])]
    [(3, 3), (3, 2)]
    """
    weights = []
    for width in widths:
        d_in = X.shape[-1]
        if width < d_in:
            # From the covariance, d_in x d_in, so that the cost hardly grows with the number of rows.
            centred = X - X.mean(0)
            _, vectors = torch.linalg.eigh(centred.mT @ centred)
            W = vectors.flip(-1)[:, :width]
            # An eigenvector's sign is arbitrary: fix it, so that a fit does not depend on the LAPACK that is installed.
            W = W * torch.where(W.gather(0, W.abs().argmax(0, keepdim=True)) < 0, -1.0, 1.0)
        else:
            W = torch.eye(d_in, width, dtype=X.dtype, device=X.device)
        weights.append(W)
        X = X @ W
    return weights


def zero_weights(X: Float[Tensor, "N D"], widths: list[int]) -> list[Float[Tensor, "_ _"]]:
    """Weights of zero means for a stack of hidden layers.

    Examples
    --------
    >>> [tuple(W.shape) for W in zero_weights(torch.ones(20, 3), [3, 2])]
    [(3, 3), (3, 2)]
    """
    sizes = [X.shape[-1], *widths]
    return [X.new_zeros(d_in, d_out) for d_in, d_out in pairwise(sizes)]
