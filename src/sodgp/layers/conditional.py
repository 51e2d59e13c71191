"""p(F_R | F_S) of one GP layer, in factored form.

Shared by every inference method: SoD conditions on the subset's own representations, DSVI on learned inducing inputs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from sodgp.covariance import covariance, variance
from sodgp.linalg import Jitter, factorise


class Conditional(NamedTuple):
    """The conditional of a layer's function at B rows given its values at M rows.

    With w = L^-1 (f_S - mean(Z_S)) the conditional of row n is N(mean(z_n) + A_n' w, V_n).

    Attributes
    ----------
    L, L_inv : Tensor of shape [..., M, M]
        K_SS + jitter I = L L', and L^-1.
    A : Tensor of shape [..., M, B]
        L^-1 K_SR.
    V : Tensor of shape [..., B]
        Diagonal of the conditional covariance K_RR - K_RS K_SS^-1 K_SR.
    """

    L: Tensor
    L_inv: Tensor
    A: Tensor
    V: Tensor


def condition(
    kernel: Kernel,
    Z_s: Float[Tensor, "*batch M D"],
    Z_b: Float[Tensor, "*batch2 B D"],
    jitter: Jitter,
    *,
    layer: int | None = None,
    nugget: Tensor | None = None,
) -> Conditional:
    """Condition a GP on its values at Z_s and look at the rows Z_b.

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
    Z_s, Z_b : Tensor of shape [..., M, D] and [..., B, D]
        Layer inputs of the subset (or the inducing inputs) and of the other rows.
    jitter : Jitter
    layer : int, optional
        For error messages.
    nugget : Tensor of shape [..., 1, 1], optional
        Noise variance that sits inside the kernel (DSVI): added to the diagonals of K_SS and K_RR.
    """
    K_ss = covariance(kernel, Z_s)
    k_bb = variance(kernel, Z_b) + jitter.prior_extra
    if nugget is not None:
        K_ss = K_ss + nugget * torch.eye(K_ss.shape[-1], dtype=K_ss.dtype, device=K_ss.device)
        k_bb = k_bb + nugget[..., 0]
    L, L_inv = factorise(K_ss, jitter, layer=layer)
    A = L_inv @ covariance(kernel, Z_s, Z_b)
    # Rounding can push the difference below zero where a row sits on top of the subset.
    V = (k_bb - A.square().sum(-2)).clamp_min(0.0)
    return Conditional(L, L_inv, A, V)
