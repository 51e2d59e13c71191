"""The products of an M x M factor with the M x B covariance of a batch: all of a step's cost.

Their gradients are written by hand: automatic differentiation would give the same numbers with about twice the products
and passes over [..., M, B]. The gradient of a factor L is that of E in L (I + E), see `sodgp.linalg.cholesky`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sodgp.linalg.context import Context

Square = Float[Tensor, "*e M M"]
Wide = Float[Tensor, "*k M B"]

# Elements of the largest temporary where outputs go in groups: near the caches on a CPU, few launches on a GPU.
_GROUP_ELEMENTS = 2**22
_GROUP_ELEMENTS_CUDA = 2**26
# The same where rows go in blocks: within the caches, and far below what the allocator maps anew at every use.
_BLOCK_ELEMENTS = 2**19
# Of all samples: 512 kB.
_AT_ONCE_ELEMENTS = 2**16


class HiddenRows(torch.autograd.Function):
    """(E, L^-1, K, w) -> A' w and the column sums of A * A, with A = L^-1 K: one product forward, two backward.

    Where L^-1 and K have a sample axis of size 1 (layer 1), the samples of w are columns of one product. dA = -E A.
    """

    @staticmethod
    def forward(
        ctx: Context, E: Square, L_inv: Square, K: Wide, w: Float[Tensor, "*w M D"]
    ) -> tuple[Float[Tensor, "*f B D"], Float[Tensor, "*a B"]]:
        """A is kept for the backward pass."""
        A = L_inv @ K
        ctx.save_for_backward(L_inv, A, w)
        return transpose_times(A, w), A.square().sum(-2)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Context, grad_f: Float[Tensor, "*f B D"], grad_sum: Float[Tensor, "*a B"]
    ) -> tuple[Tensor, None, Tensor, Tensor]:
        """grad_A = w grad_f' + 2 A grad_sum, then through A = L^-1 K."""
        L_inv, A, w = ctx.saved_tensors
        grad_A = _add_outer(A * (2.0 * grad_sum).unsqueeze(-2), w, grad_f)
        return -(grad_A @ A.mT), None, L_inv.mT @ grad_A, _times(A, grad_f)


class TotalRows(torch.autograd.Function):
    """(E, L^-1, K, w) -> A' w and A A', with A = L^-1 K: two products forward, one backward."""

    @staticmethod
    def forward(
        ctx: Context, E: Square, L_inv: Square, K: Wide, w: Float[Tensor, "*w M P"]
    ) -> tuple[Float[Tensor, "*f B P"], Float[Tensor, "*a M M"]]:
        """A is not kept."""
        A = L_inv @ K
        gram = A @ A.mT
        ctx.save_for_backward(L_inv, K, w, gram)
        return transpose_times(A, w), gram

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Context, grad_f: Float[Tensor, "*f B P"], grad_gram: Float[Tensor, "*a M M"]
    ) -> tuple[Tensor, None, Tensor, Tensor]:
        """With H = G + G' and q = A grad_f: grad_K = L^-T (H L^-1 K + w grad_f'), grad_E = -H A A' - w q'."""
        L_inv, K, w, gram = ctx.saved_tensors
        H = grad_gram + grad_gram.mT
        grad_K = _add_outer((L_inv.mT @ (H @ L_inv)) @ K, L_inv.mT @ w, grad_f)
        q = L_inv @ _times(K, grad_f)
        return -(H @ gram) - (w @ q.mT).sum_to_size(gram.shape), None, grad_K, q


class SpreadRows(torch.autograd.Function):
    """(E, L^-1, K, w, F) -> A' w and A_n' (I - F_p F_p') A_n, with A = L^-1 K: two products forward, two backward.

    Where w has the covariance F_p F_p', the second is what the values at the subset explain of the variance of row n.
    Outputs go in groups, as in `OutputVariances`, with two products for each.
    """

    @staticmethod
    def forward(
        ctx: Context, E: Square, L_inv: Square, K: Wide, w: Float[Tensor, "*w M P"], F: Float[Tensor, "*w P M M"]
    ) -> tuple[Float[Tensor, "*f B P"], Float[Tensor, "*f B P"]]:
        """A is kept for the backward pass."""
        A = L_inv @ K
        S = torch.eye(A.shape[-2], dtype=A.dtype, device=A.device) - F @ F.mT
        ctx.save_for_backward(L_inv, A, w, F, S)
        return A.mT @ w, explained_variances(A, S)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Context, grad_f: Float[Tensor, "*f B P"], grad_x: Float[Tensor, "*f B P"]
    ) -> tuple[Tensor, None, Tensor, Tensor, Tensor]:
        """With A_p = A diag(grad_p) and G_p = A_p A': grad_K = L^-T (w grad_f' + 2 sum_p S_p A_p), grad_F = -2 G_p F_p.

        G_p also spares the factor a product of its own: grad_E = -w (A grad_f)' - 2 sum_p S_p G_p.
        """
        L_inv, A, w, F, S = ctx.saved_tensors
        size, grad_w, left = _group(A), A @ grad_f, 2.0 * (L_inv.mT.unsqueeze(-3) @ S)
        grad_K, grams = (L_inv.mT @ w) @ grad_f.mT, []
        for left_g, grad_g in zip(left.split(size, -3), grad_x.mT.split(size, -2), strict=True):
            A_g = A.unsqueeze(-3) * grad_g.unsqueeze(-2)
            grams.append(A_g @ A.mT.unsqueeze(-3))
            # The sum over the group's outputs is the inner axis of one product.
            grad_K.add_(left_g.transpose(-3, -2).flatten(-2) @ A_g.flatten(-3, -2))
        G = torch.cat(grams, -3)
        grad_E = -(w @ grad_w.mT) - 2.0 * (S @ G).sum(-3)
        return grad_E, None, grad_K, grad_w, -2.0 * (G @ F)


class QuadraticTrace(torch.autograd.Function):
    """(G, F) -> tr(F_p' G F_p) for a symmetric G."""

    @staticmethod
    def forward(ctx: Context, G: Float[Tensor, "*g M M"], F: Float[Tensor, "*f P M M"]) -> Float[Tensor, "*out P"]:
        """G F is half the gradient of F."""
        GF = G.unsqueeze(-3) @ F
        ctx.save_for_backward(F, GF)
        ctx.shape = G.shape
        return (GF * F).sum((-2, -1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Float[Tensor, "*out P"]) -> tuple[Tensor, Tensor]:
        """grad_G = sum_p grad_p F_p F_p', grad_F = 2 grad G F."""
        F, GF = ctx.saved_tensors
        weight = grad[..., None, None]
        grad_G = ((weight * F) @ F.mT).sum(-3).sum_to_size(ctx.shape)
        return grad_G, (2.0 * weight * GF).sum_to_size(F.shape)


class Gram(torch.autograd.Function):
    """X -> X' X: one product in the backward pass instead of two."""

    @staticmethod
    def forward(ctx: Context, X: Float[Tensor, "*x N M"]) -> Float[Tensor, "*x M M"]:
        """X is kept for the backward pass."""
        ctx.save_for_backward(X)
        return X.mT @ X

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Float[Tensor, "*x M M"]) -> Float[Tensor, "*x N M"]:
        """X (grad + grad')."""
        (X,) = ctx.saved_tensors
        return X @ (grad + grad.mT)


class OutputVariances(torch.autograd.Function):
    """(A, W) -> |W_d' A_n|^2 for every row n and output d: for each output one product forward, two backward.

    On a CPU rows go in blocks, elsewhere and in compiled steps outputs in groups: memory stays a few times that of A.
    """

    @staticmethod
    def forward(ctx: Context, A: Float[Tensor, "*a M B"], W: Float[Tensor, "*w D M M"]) -> Float[Tensor, "*out B D"]:
        """W_d' A is not kept."""
        ctx.save_for_backward(A, W)
        if _rows_go_in_blocks(A):
            return _output_variances(A, W)
        parts = [(W_g.mT @ A.unsqueeze(-3)).square_().sum(-2) for W_g in W.split(_group(A), -3)]
        return torch.cat(parts, -2).mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, grad: Float[Tensor, "*out B D"]) -> tuple[Tensor, Tensor]:
        """With A_d = A diag(grad_d): grad_A = 2 sum_d W_d W_d' A_d, and grad_W_d = 2 A_d A' W_d."""
        A, W = ctx.saved_tensors
        if _rows_go_in_blocks(A):
            return _output_variances_back(A, W, grad)
        size = _group(A)
        grad_A: Tensor | float = 0.0
        grad_W = []
        for W_g, grad_g in zip(W.split(size, -3), grad.mT.split(size, -2), strict=True):
            A_g = A.unsqueeze(-3) * (2.0 * grad_g).unsqueeze(-2)
            # The sum over the group's outputs is the inner axis of one product.
            grad_A = grad_A + (W_g @ W_g.mT).transpose(-3, -2).flatten(-2) @ A_g.flatten(-3, -2)
            grad_W.append((A_g @ A.unsqueeze(-3).mT) @ W_g)
        return torch.as_tensor(grad_A).sum_to_size(A.shape), torch.cat(grad_W, -3).sum_to_size(W.shape)


def _rows_go_in_blocks(A: Tensor) -> bool:
    """Whether a loop over rows pays: on a GPU launches cost more, and a compiled step would unroll it."""
    return A.device.type == "cpu" and not torch.compiler.is_compiling()


def _output_variances(A: Float[Tensor, "*a M B"], W: Float[Tensor, "*w D M M"]) -> Float[Tensor, "*out B D"]:
    """Forward pass of `OutputVariances`, a block of rows at a time."""
    A_each, W_each, batch = _each(A, W)
    out = A.new_empty(len(A_each), W.shape[-3], A.shape[-1])
    for A_t, W_t, out_t in zip(A_each, W_each, out, strict=True):
        tall = W_t.mT.flatten(0, 1)
        for rows in _blocks(A_t, W_t):
            torch.sum((tall @ A_t[:, rows]).square_().unflatten(0, (len(W_t), -1)), 1, out=out_t[:, rows])
    return out.reshape(*batch, *out.shape[1:]).mT


def _output_variances_back(
    A: Float[Tensor, "*a M B"], W: Float[Tensor, "*w D M M"], grad: Float[Tensor, "*out B D"]
) -> tuple[Float[Tensor, "*a M B"], Float[Tensor, "*w D M M"]]:
    """Backward pass of `OutputVariances`, a block of rows at a time."""
    A_each, W_each, batch = _each(A, W)
    grad_each = (2.0 * grad).mT.reshape(len(A_each), W.shape[-3], 1, A.shape[-1])
    grad_A, grad_W = torch.empty_like(A_each), torch.empty_like(W_each)
    for A_t, W_t, grad_t, grad_A_t, grad_W_t in zip(A_each, W_each, grad_each, grad_A, grad_W, strict=True):
        wide = (W_t @ W_t.mT).transpose(0, 1).flatten(1)
        gram = A.new_zeros(wide.shape[1], wide.shape[0])
        for rows in _blocks(A_t, W_t):
            A_b, grad_b = A_t[:, rows], grad_t[..., rows]
            # Into a new tensor: the product of slices would be laid out like them, and flattened by a copy.
            A_d = torch.mul(A_b, grad_b, out=A.new_empty(len(W_t), *A_b.shape)).flatten(0, 1)
            # The sum over the outputs is the inner axis of one product.
            torch.mm(wide, A_d, out=grad_A_t[:, rows])
            gram.addmm_(A_d, A_b.mT)
        torch.bmm(gram.view_as(W_t), W_t, out=grad_W_t)
    return (
        grad_A.reshape(*batch, *A.shape[-2:]).sum_to_size(A.shape),
        grad_W.reshape(*batch, *W.shape[-3:]).sum_to_size(W.shape),
    )


def _each(
    A: Float[Tensor, "*a M B"], W: Float[Tensor, "*w D M M"]
) -> tuple[Float[Tensor, "b M B"], Float[Tensor, "b D M M"], torch.Size]:
    """A and W with their leading axes made equal and flattened, and those axes."""
    batch = torch.broadcast_shapes(A.shape[:-2], W.shape[:-3])
    A_each = A.expand(*batch, *A.shape[-2:]).reshape(batch.numel(), *A.shape[-2:])
    return A_each, W.expand(*batch, *W.shape[-3:]).reshape(batch.numel(), *W.shape[-3:]), batch


def _blocks(A: Float[Tensor, "M B"], W: Float[Tensor, "D M M"]) -> Iterator[slice]:
    """Blocks of rows of A, each for all outputs of W."""
    size = max(1, _BLOCK_ELEMENTS // (len(W) * len(A)))
    return (slice(start, start + size) for start in range(0, A.shape[1], size))


def explained_variances(A: Float[Tensor, "*a M B"], S: Float[Tensor, "*s P M M"]) -> Float[Tensor, "*out B P"]:
    """A_n' S_p A_n for every row n and output p; outputs in groups."""
    rows = A.unsqueeze(-3)
    return torch.cat([(S_g @ rows).mul_(rows).sum(-2) for S_g in S.split(_group(A), -3)], -2).mT


@runtime_checkable
class Sampled(Protocol):
    """Anything but a tensor that has a part for each sample."""

    def of_sample(self, index: int) -> Any:
        """The part of one sample."""


def by_sample(
    work: Callable[..., tuple[Tensor, ...]], samples: int, elements: int, *parts: Tensor | Sampled
) -> tuple[Tensor, ...]:
    """The results of ``work(*parts)``, on a CPU from one of so many samples at a time.

    What `work` makes of one sample then stays in the caches, and its products are several times as fast as one product
    for all samples. Where the arrays of one sample have so few `elements` that those of all samples stay there, too,
    they are made at once: a loop would take longer than the products. Samples are axis -3 of the tensors and of the
    results; a tensor with one there serves them all.

    Examples
    --------
    >>> A, B = torch.ones(4, 2, 3), torch.ones(1, 3, 5)
    >>> (product,) = by_sample(lambda a, b: (a @ b,), 4, 10, A, B)
    >>> product.shape
    torch.Size([4, 2, 5])
    """
    if (
        samples == 1
        or samples * elements <= _AT_ONCE_ELEMENTS
        or any(isinstance(part, Tensor) and part.is_cuda for part in parts)
    ):
        return work(*parts)
    results = [work(*(_of_sample(part, index) for part in parts)) for index in range(samples)]
    return tuple(torch.cat(values, -3) for values in zip(*results, strict=True))


def _of_sample(part: Tensor | Sampled, index: int) -> Any:
    if not isinstance(part, Tensor):
        return part.of_sample(index)
    return part if part.shape[-3] == 1 else part[..., index : index + 1, :, :]


def _group(A: Tensor) -> int:
    """How many outputs are taken at a time."""
    return max(1, (_GROUP_ELEMENTS_CUDA if A.is_cuda else _GROUP_ELEMENTS) // max(A.numel(), 1))


def _is_shared(matrix: Tensor, columns: Tensor) -> bool:
    """Whether one matrix serves several samples of columns."""
    return matrix.shape[-3] == 1 and columns.shape[-3] > 1


def _merge(columns: Float[Tensor, "*batch T N D"]) -> Float[Tensor, "*batch 1 N TD"]:
    """The columns of all samples in one matrix."""
    return columns.movedim(-3, -2).flatten(-2).unsqueeze(-3)


def transpose_times(matrix: Float[Tensor, "*m M B"], columns: Float[Tensor, "*c M D"]) -> Float[Tensor, "*out B D"]:
    """Matrix' columns for every sample."""
    if not _is_shared(matrix, columns):
        return matrix.mT @ columns
    product = matrix.mT @ _merge(columns)
    return product.squeeze(-3).unflatten(-1, (columns.shape[-3], columns.shape[-1])).movedim(-2, -3)


def _times(matrix: Float[Tensor, "*m M B"], columns: Float[Tensor, "*c B D"]) -> Float[Tensor, "*out M D"]:
    """Matrix columns for every sample."""
    return transpose_times(matrix.mT, columns)


def _add_outer(
    base: Float[Tensor, "*base M B"], left: Float[Tensor, "*left M D"], right: Float[Tensor, "*right B D"]
) -> Float[Tensor, "*base M B"]:
    """Sum of base and left right', summed over the samples that share one base; `base` may be overwritten."""
    if _is_shared(base, left):
        left, right = _merge(left), _merge(right)
    # The compiler fuses the sum itself, and that of PyTorch 2.6 cannot ask for the layout in the backward pass.
    if torch.compiler.is_compiling() or base.shape[:-2] != left.shape[:-2] or not base.is_contiguous():
        return base + left @ right.mT
    base.flatten(0, -3).baddbmm_(left.flatten(0, -3), right.flatten(0, -3).mT)
    return base
