"""Cholesky factors that do not fail silently, and whose gradients are made of few matrix products.

The jitter is relative to the mean of the diagonal by default, and raised in steps only where a factorisation fails.

A perturbed factor is written L (I + E) with E lower triangular. Products with L, L' and L^-1 (see
`sodgp.linalg.products`) give the gradient of E directly, without a product by L or its inverse of their own, and one
function at the end turns it into that of K::

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

from sodgp.errors import CholeskyError
from sodgp.linalg.context import Context
from sodgp.linalg.cuda.factor import factor_pair, fits
from sodgp.linalg.products import (
    FactorLogDet,
    FactorSolve,
    FactorTimes,
    FactorTransposeTimes,
    InverseNorm,
    inverse_triangular,
    log_diagonal,
)

__all__ = ["Factor", "Jitter", "cholesky", "factorise", "inverse_triangular", "log_diagonal"]


@dataclass
class Climbs:
    """How many matrices needed more jitter than they were given."""

    count: int = 0


# Whoever counts: a factorisation is too deep in the algebra to be handed a counter.
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
    """How much is added to the diagonal of a covariance matrix before it is factorised.

    Parameters
    ----------
    amount : float
        Added to the diagonal, times the mean diagonal where `relative` is true.
    relative : bool
        The paper authors' program and its fixture use an absolute amount.
    on_draws : bool
        As in that program: also added once to the prior variance of every row outside the subset, and twice to the
        variance of every hidden draw.
    steps : int
        How many times the amount may be multiplied by ten after a failure.

    Attributes
    ----------
    prior_extra, draw_extra : float
        What `on_draws` adds to the prior variance of rows outside the subset, and to that of a hidden draw.

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
        return Jitter(1e-6 if dtype == torch.float64 else 1e-4)


def cholesky(
    K: Float[Tensor, "*batch M M"], jitter: Jitter, *, layer: int | None = None, what: str = "K_SS"
) -> Float[Tensor, "*batch M M"]:
    """Lower Cholesky factor of K + jitter I.

    Matrices that fail get ten times more jitter, step by step; the others keep theirs. While a CUDA graph is recorded
    nothing may wait for the device, so a failed matrix becomes NaN there, and the training loop, which reads the bound
    at intervals, rolls back. `layer`, counted from 1, and `what` are for the error message.

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
            raise _failure(K.detach(), info, jitter, layer, what)
        scale = K.detach().diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None] if jitter.relative else 1.0
        # A matrix that an earlier step rescued keeps what that step gave it.
        climbed = torch.where(info > 0, step, climbed)
        extra = jitter.amount * (10.0 ** climbed.to(K.dtype) - 1.0)[..., None, None]
        L, info = torch.linalg.cholesky_ex(K + extra * scale * torch.eye(K.shape[-1], dtype=K.dtype, device=K.device))
    counter = _COUNTING.get()
    if step and counter is not None:
        counter.count += int((climbed > 0).sum())
    return L


def _failure(K: Tensor, info: Tensor, jitter: Jitter, layer: int | None, what: str) -> CholeskyError:
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
    top = jitter.amount * 10.0**jitter.steps
    wider = "dtype='float64', " if K.dtype == torch.float32 else ""
    return CholeskyError(
        f"{what} of {place}sample {sample} could not be factorised with jitter up to {top:.0e}; {cause}."
        f" Try {wider}a smaller learning_rate, a smaller subset_size, or hidden_mean='linear'.",
        layer=layer,
        sample=sample,
        condition=condition,
    )


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
        return FactorTimes.apply(self.E, self.value, X)

    def transpose_times(self, X: Float[Tensor, "*x M N"]) -> Float[Tensor, "*out M N"]:
        """L' X."""
        return FactorTransposeTimes.apply(self.E, self.value, X)

    def solve(self, X: Float[Tensor, "*x M N"]) -> Float[Tensor, "*out M N"]:
        """L^-1 X."""
        return FactorSolve.apply(self.E, self.inverse_value, X)

    def log_det(self) -> Float[Tensor, "*batch"]:
        """Sum of log L_ii: half the log determinant of K, [...]."""
        return FactorLogDet.apply(self.E, self.value)

    def inverse_norm(self) -> Float[Tensor, "*batch"]:
        """|L^-1|^2 = tr(K^-1), [...]."""
        return InverseNorm.apply(self.E, self.inverse_value)


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
    if _has_kernel(K):
        L, L_inv, info = factor_pair(K)
        if nobody_waits(K) or not bool(info.any()):
            return L, L_inv
    L = climb(K, jitter, layer, what)
    return L, inverse_triangular(L)


def _has_kernel(K: Tensor) -> bool:
    """Whether a CUDA kernel of our own takes matrices of this kind."""
    return K.is_cuda and fits(K)


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
