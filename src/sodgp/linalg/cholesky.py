"""Cholesky factors that do not fail silently, and whose gradients take few matrix products.

The jitter is relative to the mean of the diagonal by default, and raised in steps only where a factorisation fails.

A perturbed factor is written L (I + E) with E lower triangular. Products with L, L' and L^-1 give the gradient of E
directly, and one function at the end turns it into that of K::

    grad_K = sym(L^-T P(grad_E) L^-1),    P = lower triangle with half the diagonal

which is Murray (2016), "Differentiation of the Cholesky decomposition", in these coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sodgp.linalg.context import Context
from sodgp.linalg.cuda.factor import factor_pair, fits
from sodgp.linalg.failure import failure

__all__ = ["Factor", "Jitter", "cholesky", "factorise", "inverse_triangular", "log_diagonal"]

Square = Float[Tensor, "*batch M M"]


@dataclass
class Climbs:
    """How many matrices needed more jitter than they were given."""

    count: int = 0


# A factorisation is too deep in the algebra to be handed a counter.
_COUNTING: ContextVar[Climbs | None] = ContextVar("climbs", default=None)


@contextmanager
def counting(climbs: Climbs) -> Iterator[None]:
    """Add every matrix that gets more jitter inside the block, in this thread, to `climbs`."""
    token = _COUNTING.set(climbs)
    try:
        yield
    finally:
        _COUNTING.reset(token)


@dataclass(frozen=True)
class Jitter:
    """What is added to the diagonal of a covariance matrix before it is factorised.

    Parameters
    ----------
    amount : float
        Added to the diagonal, times the mean diagonal if `relative`.
    relative : bool
        The authors' program and its fixture use an absolute amount.
    on_draws : bool
        As in that program, also add the amount to the prior variance of rows outside the subset (`prior_extra`), and
        twice the amount to the variance of a hidden draw (`draw_extra`).
    steps : int
        How often the amount may be multiplied by ten after a failure.

    Examples
    --------
    >>> Jitter.default(torch.float64).amount, Jitter.default(torch.float32).amount
    (1e-06, 0.0001)
    """

    amount: float = 1e-6
    relative: bool = True
    on_draws: bool = False
    steps: int = 4
    prior_extra: float = field(init=False, repr=False)
    draw_extra: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Plain numbers: every layer of every step asks for them.
        object.__setattr__(self, "prior_extra", self.amount if self.on_draws else 0.0)
        object.__setattr__(self, "draw_extra", 2.0 * self.amount if self.on_draws else 0.0)

    @staticmethod
    def default(dtype: torch.dtype) -> Jitter:
        """The smallest jitter that is safe in `dtype`."""
        return DEFAULT_JITTER[dtype]


DEFAULT_JITTER = {torch.float64: Jitter(1e-6), torch.float32: Jitter(1e-4)}


def cholesky(K: Square, jitter: Jitter, *, layer: int | None = None, what: str = "K_SS") -> Square:
    """Lower Cholesky factor of K + jitter I.

    Matrices that fail get ten times more jitter, step by step; the others keep theirs. A recorded or compiled step
    cannot wait for the device: there a failed matrix becomes NaN, and the training loop rolls back when it reads the
    bound. `layer`, counted from 1, and `what` are for the error message.

    Raises
    ------
    CholeskyError
        When the largest jitter does not help.

    Examples
    --------
    >>> K = torch.ones(2, 2, dtype=torch.float64)  # singular
    >>> cholesky(K, Jitter(1e-6)).diagonal().round(decimals=4)
    tensor([1.0000, 0.0014], dtype=torch.float64)
    """
    return climb(with_jitter(K, jitter), jitter, layer, what)


def draw_root(covariance: Float[Tensor, "*batch N N"], *, layer: int, what: str, jitter: float = 1e-12) -> Tensor:
    """A root of a covariance of many rows, for joint draws: in float64, with up to 1e8 times `jitter`.

    Such matrices are singular to rounding wherever rows are close; a little more noise in a draw does no harm.
    """
    root = cholesky(covariance.double(), Jitter(jitter, steps=8), layer=layer, what=what)
    return root.to(covariance.dtype)


def log_diagonal(L: Square) -> Float[Tensor, "*batch"]:
    """Sum of log |L_ii|: half the log determinant of L L'. The sign of the diagonal is free.

    Examples
    --------
    >>> log_diagonal(torch.eye(3))
    tensor(0.)
    """
    return L.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)


def inverse_triangular(L: Square) -> Square:
    """L^-1 of a lower-triangular L.

    Examples
    --------
    >>> inverse_triangular(torch.tensor([[2.0, 0.0], [2.0, 1.0]])).tolist()
    [[0.5, 0.0], [-1.0, 1.0]]
    """
    eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device)
    return torch.linalg.solve_triangular(L, eye.expand_as(L), upper=False)


def with_jitter(K: Tensor, jitter: Jitter) -> Tensor:
    """K + jitter I."""
    if not jitter.amount:
        return K
    scale = K.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None] if jitter.relative else 1.0
    return K + jitter.amount * scale * torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)


def nobody_waits(K: Tensor) -> bool:
    """Whether a step is being recorded or compiled, so that nothing in it may depend on a value."""
    return torch.compiler.is_compiling() or (K.is_cuda and torch.cuda.is_current_stream_capturing())


def climb(K: Tensor, jitter: Jitter, layer: int | None, what: str) -> Tensor:
    """Factorise K, which already holds its jitter; matrices that fail get ten times more, step by step."""
    L, info = torch.linalg.cholesky_ex(K)
    if nobody_waits(K):
        return torch.where((info > 0)[..., None, None], torch.nan, L)
    step, climbed = 0, torch.zeros_like(info)
    while bool((info > 0).any()):
        step += 1
        if step > jitter.steps or not jitter.amount:
            raise failure(K.detach(), info, jitter.amount * 10.0**jitter.steps, layer, what)
        scale = K.detach().diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None] if jitter.relative else 1.0
        # A matrix that an earlier step rescued keeps what that step gave it.
        climbed = torch.where(info > 0, step, climbed)
        extra = jitter.amount * (10.0 ** climbed.to(K.dtype) - 1.0)[..., None, None]
        L, info = torch.linalg.cholesky_ex(K + extra * scale * torch.eye(K.shape[-1], dtype=K.dtype, device=K.device))
    counter = _COUNTING.get()
    if step and counter is not None:
        counter.count += int((climbed > 0).sum())
    return L


class Factor:
    """K = L L' and L^-1; unpacks as ``L, L_inv``.

    Parameters
    ----------
    L, L_inv : Tensor of shape [..., M, M]
        Values, without gradient.
    E : Tensor of shape [..., M, M]
        Zero; carries the gradient.

    Examples
    --------
    >>> factor = factorise(4.0 * torch.eye(2, dtype=torch.float64), Jitter(0.0))
    >>> factor.value.diagonal().tolist(), factor.inverse_value.diagonal().tolist()
    ([2.0, 2.0], [0.5, 0.5])
    """

    def __init__(self, L: Square, L_inv: Square, E: Square) -> None:
        self.value, self.inverse_value, self.E = L, L_inv, E
        # PyTorch's compiler cannot trace functools.cached_property before Python 3.12.
        self._L: Tensor | None = None
        self._L_inv: Tensor | None = None

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.L, self.L_inv))

    @property
    def L(self) -> Square:
        """The factor itself, differentiable; prefer the products below."""
        if self._L is None:
            self._L = _Reveal.apply(self.E, self.value, "times")
        return self._L

    @property
    def L_inv(self) -> Square:
        """Its inverse, differentiable; prefer `solve`."""
        if self._L_inv is None:
            self._L_inv = _Reveal.apply(self.E, self.inverse_value, "inverse")
        return self._L_inv

    def over_outputs(self) -> Factor:
        """The same factor with an axis of outputs before the matrix, [..., 1, M, M]."""
        return Factor(self.value.unsqueeze(-3), self.inverse_value.unsqueeze(-3), self.E.unsqueeze(-3))

    def times(self, X: Float[Tensor, "*x M N"]) -> Float[Tensor, "*out M N"]:
        """L X."""
        return _Product.apply(self.E, self.value, X, "times")

    def transpose_times(self, X: Float[Tensor, "*x M N"]) -> Float[Tensor, "*out M N"]:
        """L' X."""
        return _Product.apply(self.E, self.value.mT, X, "transposed")

    def solve(self, X: Float[Tensor, "*x M N"]) -> Float[Tensor, "*out M N"]:
        """L^-1 X."""
        return _Product.apply(self.E, self.inverse_value, X, "inverse")

    def log_det(self) -> Float[Tensor, "*batch"]:
        """Sum of log L_ii: half the log determinant of K, [...]."""
        return _LogDet.apply(self.E, self.value)

    def inverse_norm(self) -> Float[Tensor, "*batch"]:
        """|L^-1|^2 = tr(K^-1), [...]."""
        return _InverseNorm.apply(self.E, self.inverse_value)


def factorise(K: Square, jitter: Jitter, *, layer: int | None = None, what: str = "K_SS") -> Factor:
    """Cholesky factor of K + jitter I with its explicit inverse; arguments and errors as of `cholesky`.

    One triangular solve against the identity and then matrix products is faster than solves against the wide right
    sides that follow. `K` is [..., M, M]; `jitter` says what is added; `layer` and `what` are for the error message.

    Examples
    --------
    >>> factorise(4.0 * torch.eye(2, dtype=torch.float64), Jitter(0.0)).inverse_value.tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    K = with_jitter(K, jitter)
    L, L_inv = _values(K.detach(), jitter, layer, what)
    return Factor(L, L_inv, _Perturbation.apply(K, L_inv))


def _values(K: Square, jitter: Jitter, layer: int | None, what: str) -> tuple[Square, Square]:
    if _has_kernel(K):
        L, L_inv, info = factor_pair(K)
        if nobody_waits(K) or not bool(info.any()):
            return L, L_inv
    L = climb(K, jitter, layer, what)
    return L, inverse_triangular(L)


def _has_kernel(K: Tensor) -> bool:
    return K.is_cuda and fits(K)


class _Perturbation(torch.autograd.Function):
    """E of L (I + E), as a function of K at E = 0.

    The only output: compiled steps of some PyTorch versions lose the gradient where another output has none.
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
    """T = L ("times") or L^-1 ("inverse") at E = 0: dT = L E or -E L^-1."""

    @staticmethod
    def forward(ctx: Context, E: Tensor, T: Tensor, kind: str) -> Tensor:
        ctx.save_for_backward(T)
        ctx.kind = kind
        return T.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None, None]:
        (T,) = ctx.saved_tensors
        return T.mT @ grad if ctx.kind == "times" else -grad @ T.mT, None, None


class _Product(torch.autograd.Function):
    """Y = T X where T is L ("times"), L' ("transposed") or L^-1 ("inverse"): dY = L E X, E' Y or -E Y."""

    @staticmethod
    def forward(ctx: Context, E: Tensor, T: Tensor, X: Tensor, kind: str) -> Tensor:
        Y = T @ X
        ctx.save_for_backward(T, X if kind == "times" else Y)
        ctx.shape, ctx.kind = X.shape, kind
        return Y

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, None, Tensor, None]:
        T, kept = ctx.saved_tensors
        grad_X = T.mT @ grad
        if ctx.kind == "times":
            grad_E = grad_X @ kept.mT
        elif ctx.kind == "transposed":
            grad_E = kept @ grad.mT
        else:
            grad_E = -(grad @ kept.mT)
        return grad_E.sum_to_size(T.shape), None, grad_X.sum_to_size(ctx.shape), None


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
