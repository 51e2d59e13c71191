"""A Gaussian w that has seen the noisy labels of N rows: the products of a step with every label in q_hat.

As in `sodgp.linalg.products` the gradient is written by hand: automatic differentiation would need about twice the
products with [..., M, N] and several times the memory.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sodgp.linalg.cholesky import Jitter, factorise
from sodgp.linalg.context import Context
from sodgp.linalg.products import Square, Wide

__all__ = ["LabelRows", "posterior_factor"]

PerOutput = Float[Tensor, "*v 1 1 P"]
OfOutputs = Float[Tensor, "*out P M M"]


def posterior_factor(gram: Float[Tensor, "*g M M"], v: PerOutput) -> tuple[OfOutputs, OfOutputs]:
    """The factor L_Q of Q = I + A A' / v for every output, and its inverse, given A A'.

    Examples
    --------
    >>> L, L_inv = posterior_factor(3.0 * torch.eye(2), torch.ones(1, 1, 1))
    >>> L.diagonal(dim1=-2, dim2=-1).tolist(), L_inv.diagonal(dim1=-2, dim2=-1).tolist()
    ([[[2.0, 2.0]]], [[[0.5, 0.5]]])
    """
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    # Q is I plus a positive semi-definite matrix: it needs no jitter.
    Q = factorise(eye + gram.unsqueeze(-3) / v.mT.unsqueeze(-1), Jitter(0.0), what="Q of q_hat")
    return Q.value, Q.inverse_value


class LabelRows(torch.autograd.Function):
    """(E, L^-1, K, y, v) -> A' c, A_n' S_p A_n, |A_n|^2 and log |Q_p|, with A = L^-1 K and Q_p = I + A A' / v_p.

    Where w ~ N(0, I) has seen the labels y = A' w + noise of variance v, it has the mean c_p = S_p A y_p / v_p and the
    covariance S_p = Q_p^-1. Three products with [M, N] forward and four backward; without `with_variances` there is
    None in the place of A_n' S_p A_n, and one product less forward and backward each.
    """

    @staticmethod
    def forward(
        ctx: Context,
        E: Square,
        L_inv: Square,
        K: Wide,
        y: Float[Tensor, "*y N P"],
        v: PerOutput,
        with_variances: bool,
    ) -> tuple[Float[Tensor, "*f N P"], Float[Tensor, "*f N P"] | None, Float[Tensor, "*a N"], Float[Tensor, "*f P"]]:
        """A, and S A where variances are asked for, are kept for the backward pass."""
        ctx.set_materialize_grads(False)
        A = L_inv @ K
        gram, Ay = A @ A.mT, A @ y
        L_Q, L_Q_inv = posterior_factor(gram, v)
        S = L_Q_inv.mT @ L_Q_inv
        c = _each(S, Ay) / v
        SA = S @ A.unsqueeze(-3) if with_variances else None
        ctx.save_for_backward(L_inv, A, S, gram, Ay, c, y, v, *([] if SA is None else [SA]))
        explained = None if SA is None else (SA * A.unsqueeze(-3)).sum(-2).mT
        log_det = 2.0 * L_Q.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return A.mT @ c, explained, A.square().sum(-2), log_det

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Context,
        grad_f: Float[Tensor, "*f N P"],
        grad_x: Float[Tensor, "*f N P"] | None,
        grad_a: Float[Tensor, "*a N"],
        grad_det: Float[Tensor, "*f P"] | None,
    ) -> tuple[Tensor, None, Tensor, Tensor | None, Tensor, None]:
        """Through c, S and Q back to A, and from A to E and K: dA = -E A, grad_K = L^-T grad_A."""
        L_inv, A, S, gram, Ay, c, y, v, *products = ctx.saved_tensors
        grad_c = A @ grad_f
        grad_Ay = _each(S, grad_c) / v
        outer = (grad_c / v).mT.unsqueeze(-1) * Ay.mT.unsqueeze(-2)
        grad_S = 0.5 * (outer + outer.mT)
        grad_A = A * (2.0 * grad_a).unsqueeze(-2) + c @ grad_f.mT + grad_Ay @ y.mT
        if grad_x is not None:
            weight = grad_x.mT.unsqueeze(-2)
            grad_S = grad_S + (A.unsqueeze(-3) * weight) @ A.unsqueeze(-3).mT
            grad_A = grad_A + (products[0] * (2.0 * weight)).sum(-3)
        grad_Q = -(S @ grad_S @ S)
        if grad_det is not None:
            grad_Q = grad_Q + grad_det[..., None, None] * S
        grad_gram = (grad_Q / v.mT.unsqueeze(-1)).sum(-3)
        grad_v = -(grad_Q * gram.unsqueeze(-3)).sum((-2, -1)).unsqueeze(-2) / v.square()
        grad_v = grad_v - (grad_c * c).sum(-2, keepdim=True) / v
        grad_A = grad_A + 2.0 * grad_gram @ A
        grad_y = (A.mT @ grad_Ay).sum_to_size(y.shape) if ctx.needs_input_grad[3] else None
        return -(grad_A @ A.mT), None, L_inv.mT @ grad_A, grad_y, grad_v.sum_to_size(v.shape), None


def _each(S: OfOutputs, columns: Float[Tensor, "*c M P"]) -> Float[Tensor, "*out M P"]:
    """S_p times column p."""
    return (S @ columns.mT.unsqueeze(-1)).squeeze(-1).mT
