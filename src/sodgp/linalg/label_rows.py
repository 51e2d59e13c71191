"""Means and variances at N rows given the noisy labels of all of them: the products of a step with every label in q_hat.

As in `sodgp.linalg.products` the gradient is written by hand: automatic differentiation would need about twice the
products with [..., M, N] and several times the memory.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sodgp.linalg.context import Context
from sodgp.linalg.products import Square, Wide

__all__ = ["LabelRows", "posterior_factor"]

PerOutput = Float[Tensor, "*v 1 1 P"]


def posterior_factor(gram: Float[Tensor, "*g M M"], v: PerOutput) -> Float[Tensor, "*out P M M"]:
    """The factor L_Q of Q = I + A A' / v for every output, given A A'.

    Examples
    --------
    >>> posterior_factor(3.0 * torch.eye(2), torch.ones(1, 1, 1)).diagonal(dim1=-2, dim2=-1).tolist()
    [[2.0, 2.0]]
    """
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    # I plus a positive semi-definite matrix: no jitter.
    return torch.linalg.cholesky_ex(eye + gram.unsqueeze(-3) / v.mT.unsqueeze(-1))[0]


class LabelRows(torch.autograd.Function):
    """(E, L^-1, K, y, v) -> A' c, A_n' S_p A_n and |A_n|^2, with A = L^-1 K.

    Where w ~ N(0, I) has seen the labels y = A' w + noise of variance v, it has the mean c_p = S_p A y_p / v_p and the
    covariance S_p = (I + A A' / v_p)^-1. Three products with [M, N] forward and four backward.
    """

    @staticmethod
    def forward(
        ctx: Context, E: Square, L_inv: Square, K: Wide, y: Float[Tensor, "*y N P"], v: PerOutput
    ) -> tuple[Float[Tensor, "*f N P"], Float[Tensor, "*f N P"], Float[Tensor, "*a N"]]:
        """A and S A are kept for the backward pass."""
        A = L_inv @ K
        gram, Ay = A @ A.mT, A @ y
        S = torch.cholesky_inverse(posterior_factor(gram, v))
        c = _each(S, Ay) / v
        SA = S @ A.unsqueeze(-3)
        explained = (SA * A.unsqueeze(-3)).sum(-2).mT
        ctx.save_for_backward(L_inv, A, SA, S, gram, Ay, c, y, v)
        return A.mT @ c, explained, A.square().sum(-2)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Context, grad_f: Float[Tensor, "*f N P"], grad_x: Float[Tensor, "*f N P"], grad_a: Float[Tensor, "*a N"]
    ) -> tuple[Tensor, None, Tensor, Tensor | None, Tensor]:
        """Through c, S and Q back to A, and from A to E and K: dA = -E A, grad_K = L^-T grad_A."""
        L_inv, A, SA, S, gram, Ay, c, y, v = ctx.saved_tensors
        by_output = v.mT.unsqueeze(-1)
        grad_c = A @ grad_f
        grad_Ay = _each(S, grad_c) / v
        # Of S: A diag(grad_x) A' + grad_c (A y)' / v, made symmetric; then of Q = S^-1.
        weighted = A.unsqueeze(-3) * grad_x.mT.unsqueeze(-2)
        outer = (grad_c / v).mT.unsqueeze(-1) * Ay.mT.unsqueeze(-2)
        grad_S = weighted @ A.unsqueeze(-3).mT + 0.5 * (outer + outer.mT)
        grad_Q = -(S @ grad_S @ S)
        grad_gram = (grad_Q / by_output).sum(-3)
        grad_v = -(grad_Q * gram.unsqueeze(-3)).sum((-2, -1)).unsqueeze(-2) / v.square()
        grad_v = grad_v - (grad_c * c).sum(-2, keepdim=True) / v
        grad_A = (SA.mul_(2.0 * grad_x.mT.unsqueeze(-2))).sum(-3)
        grad_A.add_(A * (2.0 * grad_a).unsqueeze(-2)).add_(c @ grad_f.mT).add_(grad_Ay @ y.mT)
        grad_A.add_(2.0 * grad_gram @ A)
        grad_y = (A.mT @ grad_Ay).sum_to_size(y.shape) if ctx.needs_input_grad[3] else None
        return -(grad_A @ A.mT), None, L_inv.mT @ grad_A, grad_y, grad_v.sum_to_size(v.shape)


def _each(S: Float[Tensor, "*s P M M"], columns: Float[Tensor, "*c M P"]) -> Float[Tensor, "*out M P"]:
    """S_p times column p."""
    return (S @ columns.mT.unsqueeze(-1)).squeeze(-1).mT
