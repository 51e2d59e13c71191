"""K_SS and K_SB of an RBF kernel in one operation, with the gradient by hand.

Scaling, centring and squared norms of the subset are shared by both matrices, and no [M, B] tensor is made twice: three
operations touch it in the forward pass, four in the backward pass.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sodgp.linalg.context import Context

S = Float[Tensor, "*s M D"]
B = Float[Tensor, "*b B D"]
K_SS = Float[Tensor, "*ss M M"]
K_SB = Float[Tensor, "*sb M B"]


class RBFPair(torch.autograd.Function):
    """(Z_s, Z_b, lengthscale, log_variance) -> k(Z_s, Z_s), k(Z_s, Z_b) with k = exp(log_variance - |z - z'|^2 / 2).

    Distances are in units of the lengthscales, of which there are K = D or 1.
    """

    @staticmethod
    def forward(
        ctx: Context, Z_s: S, Z_b: B, lengthscale: Float[Tensor, "*l 1 K"], log_variance: Float[Tensor, "*v 1 1"]
    ) -> tuple[K_SS, K_SB]:
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
    def backward(
        ctx: Context, grad_ss: K_SS, grad_sb: K_SB
    ) -> tuple[S | None, B | None, Float[Tensor, "*l 1 K"], Float[Tensor, "*v 1 1"]]:
        """With G = grad * K: grad_a = G b - rowsum(G) a, grad_b = G' a - colsum(G) b, and then the chain rule."""
        a, b, lengthscale, K_ss, K_sb = ctx.saved_tensors
        shape_s, shape_b, shape_v = ctx.shapes
        G_sb, G_ss = grad_sb * K_sb, grad_ss * K_ss
        G_ss = G_ss + G_ss.mT
        # One subset may serve many samples of the rows: their sums come first.
        rows_ss = G_ss.sum(-1, keepdim=True)
        rows_sb = G_sb.sum(-1, keepdim=True).sum_to_size(rows_ss.shape)
        grad_a = (G_sb @ b).sum_to_size(a.shape) + G_ss @ a - (rows_sb + rows_ss) * a
        grad_b = G_sb.mT @ a - G_sb.sum(-2).unsqueeze(-1) * b
        grad_log = (rows_sb + 0.5 * rows_ss).sum(-2, keepdim=True)
        scaled_a, scaled_b = grad_a / lengthscale, grad_b / lengthscale
        length_a, length_b = (scaled_a * a).sum(-2, keepdim=True), (scaled_b * b).sum(-2, keepdim=True)
        grad_length = -(length_a + length_b.sum_to_size(length_a.shape))
        return (
            scaled_a.sum_to_size(shape_s) if ctx.needs_input_grad[0] else None,
            scaled_b.sum_to_size(shape_b) if ctx.needs_input_grad[1] else None,
            grad_length.sum_to_size(lengthscale.shape),
            grad_log.sum_to_size(shape_v),
        )


def _correlate(a: S, b: B, norm_a: Float[Tensor, "*s M 1"], norm_b: Float[Tensor, "*b B 1"]) -> K_SB:
    """exp(a b' - norm_a - norm_b'), with one new tensor of that size."""
    K = norm_a + norm_b.mT
    if a.shape[:-2] != b.shape[:-2]:
        return (a @ b.mT - K).exp_()
    if K.dim() == 2:
        return K.addmm_(a, b.mT, beta=-1.0).exp_()
    K.flatten(0, -3).baddbmm_(a.flatten(0, -3), b.flatten(0, -3).mT, beta=-1.0)
    return K.exp_()
