"""K_SS and K_SB of an RBF kernel together, with the gradient by hand.

Scaling, centring and squared norms of the subset are shared by both matrices, and no [M, B] tensor is made twice:
forward three operations touch it, back four.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class RBFPair(torch.autograd.Function):
    """(Z_s, Z_b, lengthscale, log_variance) -> k(Z_s, Z_s), k(Z_s, Z_b) with k = exp(log_variance - |z - z'|^2 / 2).

    Shapes: [..., M, D], [..., B, D], [..., 1, D or 1], [..., 1, 1] -> [..., M, M], [..., M, B]. Distances are in units
    of the lengthscales.
    """

    @staticmethod
    def forward(ctx: Any, Z_s: Tensor, Z_b: Tensor, lengthscale: Tensor, log_variance: Tensor) -> tuple[Tensor, Tensor]:
        """Both inputs are shifted by one common point: far from the origin the difference of squares loses digits."""
        shift = Z_s.mean(-2, keepdim=True)
        a, b = (Z_s - shift) / lengthscale, (Z_b - shift) / lengthscale
        # Half squared norms, each with half of minus the log variance, so that their sum carries it once.
        norm_a = 0.5 * (a.square().sum(-1, keepdim=True) - log_variance)
        norm_b = 0.5 * (b.square().sum(-1, keepdim=True) - log_variance)
        K_ss, K_sb = _correlate(a, a, norm_a, norm_a), _correlate(a, b, norm_a, norm_b)
        ctx.save_for_backward(a, b, lengthscale, K_ss, K_sb)
        ctx.shapes = Z_s.shape, Z_b.shape, log_variance.shape
        return K_ss, K_sb

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_ss: Tensor, grad_sb: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor, Tensor]:
        """With G = grad * K: grad_a = G b - rowsum(G) a, grad_b = G' a - colsum(G) b, and then the chain rule."""
        a, b, lengthscale, K_ss, K_sb = ctx.saved_tensors
        shape_s, shape_b, shape_v = ctx.shapes
        G_sb, G_ss = grad_sb * K_sb, grad_ss * K_ss
        G_ss = G_ss + G_ss.mT
        rows_sb, rows_ss = G_sb.sum(-1, keepdim=True), G_ss.sum(-1, keepdim=True)
        grad_a = G_sb @ b + G_ss @ a - (rows_sb + rows_ss) * a
        grad_b = G_sb.mT @ a - G_sb.sum(-2).unsqueeze(-1) * b
        grad_log = (rows_sb + 0.5 * rows_ss).sum(-2, keepdim=True)
        scaled_a, scaled_b = grad_a / lengthscale, grad_b / lengthscale
        grad_length = -((scaled_a * a).sum(-2, keepdim=True) + (scaled_b * b).sum(-2, keepdim=True))
        return (
            scaled_a.sum_to_size(shape_s) if ctx.needs_input_grad[0] else None,
            scaled_b.sum_to_size(shape_b) if ctx.needs_input_grad[1] else None,
            grad_length.sum_to_size(lengthscale.shape),
            grad_log.sum_to_size(shape_v),
        )


def _correlate(a: Tensor, b: Tensor, norm_a: Tensor, norm_b: Tensor) -> Tensor:
    """exp(a b' - norm_a - norm_b'), with one new tensor of that size."""
    K = norm_a + norm_b.mT
    if a.shape[:-2] != b.shape[:-2]:
        return (a @ b.mT - K).exp_()
    if K.dim() == 2:
        return K.addmm_(a, b.mT, beta=-1.0).exp_()
    K.flatten(0, -3).baddbmm_(a.flatten(0, -3), b.flatten(0, -3).mT, beta=-1.0)
    return K.exp_()
