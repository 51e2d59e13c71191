"""Cholesky factors whose gradients are made of few matrix products.

A perturbed factor is written L (I + E) with E lower triangular. Products with L, L' and L^-1 give the gradient of E
directly, without a product by L or its inverse of their own, and one function at the end turns it into that of K:

    grad_K = sym(L^-T P(grad_E) L^-1),    P = lower triangle with half the diagonal

which is Murray (2016), "Differentiation of the Cholesky decomposition", in these coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sodgp.linalg.cholesky import Jitter, climb, inverse_triangular, log_diagonal, nobody_waits, with_jitter
from sodgp.linalg.context import Context
from sodgp.linalg.cuda.factor import factor_pair, fits


class Factor:
    """K = L L' and L^-1, of shape [..., M, M]; unpacks as ``L, L_inv``.

    Parameters
    ----------
    L, L_inv : Tensor of shape [..., M, M]
        Values only.
    E : Tensor of shape [..., M, M]
        Zero; carries the gradient.
    """

    def __init__(
        self, L: Float[Tensor, "*batch M M"], L_inv: Float[Tensor, "*batch M M"], E: Float[Tensor, "*batch M M"]
    ) -> None:
        self.value, self.inverse_value, self.E = L, L_inv, E
        # Kept by hand: PyTorch's compiler cannot look into functools.cached_property before Python 3.12.
        self._L: Tensor | None = None
        self._L_inv: Tensor | None = None

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.L, self.L_inv))

    @property
    def L(self) -> Float[Tensor, "*batch M M"]:
        """The factor itself, differentiable; prefer the products below."""
        if self._L is None:
            self._L = _Reveal.apply(self.E, self.value)
        return self._L

    @property
    def L_inv(self) -> Float[Tensor, "*batch M M"]:
        """Its inverse, differentiable; prefer `solve`."""
        if self._L_inv is None:
            self._L_inv = _RevealInverse.apply(self.E, self.inverse_value)
        return self._L_inv

    def over_outputs(self) -> Factor:
        """The same factor with an axis of outputs before the matrix, [..., 1, M, M]."""
        return Factor(self.value.unsqueeze(-3), self.inverse_value.unsqueeze(-3), self.E.unsqueeze(-3))

    def times(self, X: Float[Tensor, "*x M N"]) -> Float[Tensor, "*out M N"]:
        """L X."""
        return _Times.apply(self.E, self.value, X)

    def transpose_times(self, X: Float[Tensor, "*x M N"]) -> Float[Tensor, "*out M N"]:
        """L' X."""
        return _TransposeTimes.apply(self.E, self.value, X)

    def solve(self, X: Float[Tensor, "*x M N"]) -> Float[Tensor, "*out M N"]:
        """L^-1 X."""
        return _Solve.apply(self.E, self.inverse_value, X)

    def log_det(self) -> Float[Tensor, "*batch"]:
        """Sum of log L_ii: half the log determinant of K, [...]."""
        return _LogDet.apply(self.E, self.value)

    def inverse_norm(self) -> Float[Tensor, "*batch"]:
        """|L^-1|^2 = tr(K^-1), [...]."""
        return _InverseNorm.apply(self.E, self.inverse_value)


def factorise(
    K: Float[Tensor, "*batch M M"], jitter: Jitter, *, layer: int | None = None, what: str = "K_SS"
) -> Factor:
    """Cholesky factor of K + jitter I with its explicit inverse; arguments and errors as of `cholesky`.

    One triangular solve against the identity and then matrix products is faster than solving against the wide right
    sides that follow.
    """
    K = with_jitter(K, jitter)
    L, L_inv = _values(K.detach(), jitter, layer, what)
    return Factor(L, L_inv, _Perturbation.apply(K, L_inv))


def _values(
    K: Float[Tensor, "*batch M M"], jitter: Jitter, layer: int | None, what: str
) -> tuple[Float[Tensor, "*batch M M"], Float[Tensor, "*batch M M"]]:
    if fits(K):
        L, L_inv, info = factor_pair(K)
        if nobody_waits(K) or not bool(info.any()):
            return L, L_inv
    L = climb(K, jitter, layer, what)
    return L, inverse_triangular(L)


class _Perturbation(torch.autograd.Function):
    """E of L (I + E), as a function of K at E = 0.

    Its only output: in a compiled step some versions of PyTorch lose the gradient of a function that also has outputs
    without gradient.
    """

    @staticmethod
    def forward(ctx: Context, K: Tensor, L_inv: Tensor) -> Tensor:
        ctx.save_for_backward(L_inv)
        return torch.zeros_like(K)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad_E: Tensor) -> tuple[Tensor, None]:
        (L_inv,) = ctx.saved_tensors
        inner = grad_E.tril()
        inner.diagonal(dim1=-2, dim2=-1).mul_(0.5)
        half = L_inv.mT @ inner @ L_inv
        return 0.5 * (half + half.mT), None


class _Reveal(torch.autograd.Function):
    """L (I + E) at E = 0."""

    @staticmethod
    def forward(ctx: Context, E: Tensor, L: Tensor) -> Tensor:
        ctx.save_for_backward(L)
        return L.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None]:
        (L,) = ctx.saved_tensors
        return L.mT @ grad, None


class _RevealInverse(torch.autograd.Function):
    """(I - E) L^-1 at E = 0."""

    @staticmethod
    def forward(ctx: Context, E: Tensor, L_inv: Tensor) -> Tensor:
        ctx.save_for_backward(L_inv)
        return L_inv.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None]:
        (L_inv,) = ctx.saved_tensors
        return -grad @ L_inv.mT, None


class _Times(torch.autograd.Function):
    """Y = L X: dY = L E X."""

    @staticmethod
    def forward(ctx: Context, E: Tensor, L: Tensor, X: Tensor) -> Tensor:
        ctx.save_for_backward(L, X)
        return L @ X

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None, Tensor]:
        L, X = ctx.saved_tensors
        grad_X = L.mT @ grad
        return (grad_X @ X.mT).sum_to_size(L.shape), None, grad_X.sum_to_size(X.shape)


class _TransposeTimes(torch.autograd.Function):
    """Y = L' X: dY = E' Y."""

    @staticmethod
    def forward(ctx: Context, E: Tensor, L: Tensor, X: Tensor) -> Tensor:
        Y = L.mT @ X
        ctx.save_for_backward(L, Y)
        ctx.shape = X.shape
        return Y

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None, Tensor]:
        L, Y = ctx.saved_tensors
        return (Y @ grad.mT).sum_to_size(L.shape), None, (L @ grad).sum_to_size(ctx.shape)


class _Solve(torch.autograd.Function):
    """Y = L^-1 X: dY = -E Y."""

    @staticmethod
    def forward(ctx: Context, E: Tensor, L_inv: Tensor, X: Tensor) -> Tensor:
        Y = L_inv @ X
        ctx.save_for_backward(L_inv, Y)
        ctx.shape = X.shape
        return Y

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None, Tensor]:
        L_inv, Y = ctx.saved_tensors
        return -(grad @ Y.mT).sum_to_size(L_inv.shape), None, (L_inv.mT @ grad).sum_to_size(ctx.shape)


class _LogDet(torch.autograd.Function):
    """Sum of log L_ii: its gradient in E is the identity."""

    @staticmethod
    def forward(ctx: Context, E: Tensor, L: Tensor) -> Tensor:
        ctx.save_for_backward(L)
        return log_diagonal(L)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None]:
        (L,) = ctx.saved_tensors
        return grad[..., None, None] * torch.eye(L.shape[-1], dtype=grad.dtype, device=grad.device), None


class _InverseNorm(torch.autograd.Function):
    """|L^-1|^2: d = -2 tr(L^-1 L^-T E')."""

    @staticmethod
    def forward(ctx: Context, E: Tensor, L_inv: Tensor) -> Tensor:
        ctx.save_for_backward(L_inv)
        return L_inv.square().sum((-2, -1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None]:
        (L_inv,) = ctx.saved_tensors
        return (-2.0 * grad)[..., None, None] * (L_inv @ L_inv.mT), None
