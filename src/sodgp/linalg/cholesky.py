"""Cholesky factors that do not fail silently.

The jitter is relative to the mean of the diagonal by default, and raised in steps only where a factorisation fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.errors import CholeskyError

__all__ = ["Jitter", "cholesky"]


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

    Examples
    --------
    >>> Jitter.default(torch.float64).amount, Jitter.default(torch.float32).amount
    (1e-06, 0.0001)
    """

    amount: float = 1e-6
    relative: bool = True
    on_draws: bool = False
    steps: int = 4

    @staticmethod
    def default(dtype: torch.dtype) -> Jitter:
        """The smallest jitter that is safe in `dtype`."""
        return Jitter(1e-6 if dtype == torch.float64 else 1e-4)

    @property
    def prior_extra(self) -> float:
        """What is added to the prior variance of rows outside the subset."""
        return self.amount if self.on_draws else 0.0

    @property
    def draw_extra(self) -> float:
        """What is added to the variance of a hidden draw."""
        return 2.0 * self.amount if self.on_draws else 0.0


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


def inverse_triangular(L: Float[Tensor, "*batch M M"]) -> Float[Tensor, "*batch M M"]:
    """L^-1 of a lower-triangular L."""
    eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device)
    return torch.linalg.solve_triangular(L, eye.expand_as(L), upper=False)


def log_diagonal(L: Float[Tensor, "*batch M M"]) -> Float[Tensor, "*batch"]:
    """Sum of log |L_ii|: half the log determinant of L L'. The sign of the diagonal is free."""
    return L.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)


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
