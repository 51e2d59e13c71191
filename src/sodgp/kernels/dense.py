"""Dense evaluation of GPyTorch kernels that never waits for the device.

GPyTorch compares the two inputs with ``torch.equal``, which waits for a GPU and breaks CUDA graphs. The stationary
kernels of deep GPs are therefore evaluated here, from their GPyTorch parameters; every other kernel runs its own code.

Adding a kernel: write a function ``(kernel, X1, X2) -> covariance``, enter it in ``_DENSE``, and its diagonal in
``_DIAGONAL``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from gpytorch.kernels import AdditiveKernel, Kernel, MaternKernel, ProductKernel, RBFKernel, RQKernel, ScaleKernel
from jaxtyping import Float
from linear_operator import to_dense
from torch import Tensor
from torch.autograd.function import once_differentiable

from sodgp.linalg.context import Context

# The smallest squared distance whose root is taken: keeps the gradient of the root finite at equal points.
_TINY = 1e-30
# PyTorch 2.11 lost the gradient of `RBFPair` in compiled steps. On a GPU plain operations are compiled just as well.
_PAIR_COMPILES = torch.__version__ >= "2.13"


Rows1 = Float[Tensor, "*batch1 N1 D"]
Rows2 = Float[Tensor, "*batch2 N2 D"]
Matrix = Float[Tensor, "*out N1 N2"]
Diagonal = Float[Tensor, "*out N1"]
_Subset = Float[Tensor, "*s M D"]
_Batch = Float[Tensor, "*b B D"]
_SubsetMatrix = Float[Tensor, "*ss M M"]
_CrossMatrix = Float[Tensor, "*sb M B"]


def covariance(kernel: Kernel, X1: Rows1, X2: Rows2 | None = None) -> Matrix:
    """Covariance matrix k(X1, X2), or k(X1, X1) if X2 is left out.

    The kernel's batch shape must broadcast with the leading axes of the inputs.

    Examples
    --------
    >>> import torch, gpytorch
    >>> X = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    >>> covariance(gpytorch.kernels.RBFKernel().double(), X).shape
    torch.Size([2, 2])
    """
    X2 = X1 if X2 is None else X2
    if type(kernel) not in _DENSE:
        # GPyTorch selects the active columns itself.
        return kernel(X1, X2).to_dense()
    columns = _active(kernel, X1)
    return _DENSE[type(kernel)](kernel, columns, columns if X2 is X1 else _active(kernel, X2))


def covariance_pair(
    kernel: Kernel, Z_s: Float[Tensor, "*batch M D"], Z_b: Float[Tensor, "*batch2 B D"]
) -> tuple[Float[Tensor, "*out M M"], Float[Tensor, "*out2 M B"]]:
    """k(Z_s, Z_s) and k(Z_s, Z_b); RBF kernels share the work of both."""
    scaled = type(kernel) is ScaleKernel
    base = kernel.base_kernel if scaled else kernel
    if type(base) is not RBFKernel or (torch.compiler.is_compiling() and (Z_s.is_cuda or not _PAIR_COMPILES)):
        return covariance(kernel, Z_s), covariance(kernel, Z_s, Z_b)
    log_variance = kernel.outputscale.log()[..., None, None] if scaled else Z_s.new_zeros(1, 1)
    return RBFPair.apply(_active(kernel, Z_s), _active(kernel, Z_b), base.lengthscale, log_variance)


def variance(kernel: Kernel, X: Rows1) -> Diagonal:
    """Diagonal of k(X, X), without forming the matrix."""
    diagonal = _DIAGONAL.get(type(kernel))
    if diagonal is None:
        return kernel(X, diag=True)
    return diagonal(kernel, _active(kernel, X))


def is_captureable(kernel: Kernel) -> bool:
    """Whether `kernel` and all its parts are evaluated here, without waiting for the device."""
    return all(type(k) in _DENSE for k in kernel.modules() if isinstance(k, Kernel))


def _active(kernel: Kernel, X: Rows1) -> Float[Tensor, "*batch1 N1 A"]:
    """The active columns of X."""
    return X if kernel.active_dims is None else X.index_select(-1, kernel.active_dims)


def _log_correlation(kernel: Kernel, X1: Rows1, X2: Rows2, offset: Float[Tensor, "*o 1 1"] | None = None) -> Matrix:
    """-|x1 - x2|^2 / 2 in units of the lengthscales, plus `offset`, in one matrix product.

    The squared norms are two more columns, so that no [N1, N2] tensor is touched twice. Both inputs are shifted by one
    point first: far from the origin the difference of squares would lose its digits.
    """
    lengthscale = kernel.lengthscale
    shift = X1.detach().mean(-2, keepdim=True)
    a, b = (X1 - shift) / lengthscale, (X2 - shift) / lengthscale
    norm_a, norm_b = -0.5 * a.square().sum(-1, keepdim=True), -0.5 * b.square().sum(-1, keepdim=True)
    if offset is not None:
        norm_a = norm_a + offset
    left = torch.cat([a, norm_a, torch.ones_like(norm_a)], -1)
    right = torch.cat([b, torch.ones_like(norm_b), norm_b], -1)
    return left @ right.mT


def _rbf(kernel: RBFKernel, X1: Rows1, X2: Rows2) -> Matrix:
    return _log_correlation(kernel, X1, X2).exp()


def _scale(kernel: ScaleKernel, X1: Rows1, X2: Rows2) -> Matrix:
    base, outputscale = kernel.base_kernel, kernel.outputscale[..., None, None]
    # GPyTorch gives a scale kernel the active columns of its base: they are selected already.
    if type(base) is RBFKernel:
        return _log_correlation(base, X1, X2, offset=outputscale.log()).exp()
    dense = _DENSE.get(type(base))
    return outputscale * (to_dense(base.forward(X1, X2)) if dense is None else dense(base, X1, X2))


def _square_distance(kernel: Kernel, X1: Rows1, X2: Rows2) -> Matrix:
    square = -2.0 * _log_correlation(kernel, X1, X2)
    if X1 is X2:
        # A point's distance to itself is zero; the root of its rounding error would be 1e-8.
        square = square * (1.0 - torch.eye(X1.shape[-2], dtype=X1.dtype, device=X1.device))
    return square.clamp_min(_TINY)


def _matern(kernel: MaternKernel, X1: Rows1, X2: Rows2) -> Matrix:
    r = math.sqrt(2.0 * kernel.nu) * _square_distance(kernel, X1, X2).sqrt()
    if kernel.nu == 0.5:
        return (-r).exp()
    if kernel.nu == 1.5:
        return (1.0 + r) * (-r).exp()
    return (1.0 + r + r.square() / 3.0) * (-r).exp()


def _rq(kernel: RQKernel, X1: Rows1, X2: Rows2) -> Matrix:
    alpha = kernel.alpha[..., None] if kernel.alpha.dim() > 1 else kernel.alpha
    return (1.0 + _square_distance(kernel, X1, X2) / (2.0 * alpha)).pow(-alpha)


def _sum(kernel: AdditiveKernel, X1: Rows1, X2: Rows2) -> Matrix:
    parts = [covariance(part, X1, X2) for part in kernel.kernels]
    return torch.stack(torch.broadcast_tensors(*parts)).sum(0)


def _product(kernel: ProductKernel, X1: Rows1, X2: Rows2) -> Matrix:
    return math.prod((covariance(part, X1, X2) for part in kernel.kernels), start=X1.new_ones(()))


def _unit_diagonal(kernel: Kernel, X: Rows1) -> Diagonal:
    shape = torch.broadcast_shapes(X.shape[:-2], kernel.batch_shape)
    return X.new_ones(()).expand(*shape, X.shape[-2])


def _scale_diagonal(kernel: ScaleKernel, X: Rows1) -> Diagonal:
    base = kernel.base_kernel
    diagonal = _DIAGONAL.get(type(base))
    return kernel.outputscale[..., None] * (base.forward(X, X, diag=True) if diagonal is None else diagonal(base, X))


def _sum_diagonal(kernel: AdditiveKernel, X: Rows1) -> Diagonal:
    return torch.stack(torch.broadcast_tensors(*(variance(part, X) for part in kernel.kernels))).sum(0)


def _product_diagonal(kernel: ProductKernel, X: Rows1) -> Diagonal:
    return math.prod((variance(part, X) for part in kernel.kernels), start=X.new_ones(()))


_DENSE: dict[type, Callable[[Kernel, Tensor, Tensor], Tensor]] = {
    RBFKernel: _rbf,
    MaternKernel: _matern,
    RQKernel: _rq,
    ScaleKernel: _scale,
    AdditiveKernel: _sum,
    ProductKernel: _product,
}
_DIAGONAL: dict[type, Callable[[Kernel, Tensor], Tensor]] = {
    RBFKernel: _unit_diagonal,
    MaternKernel: _unit_diagonal,
    RQKernel: _unit_diagonal,
    ScaleKernel: _scale_diagonal,
    AdditiveKernel: _sum_diagonal,
    ProductKernel: _product_diagonal,
}


class RBFPair(torch.autograd.Function):
    """(Z_s, Z_b, lengthscale, log_variance) -> k(Z_s, Z_s), k(Z_s, Z_b) with k = exp(log_variance - |z - z'|^2 / 2).

    Both matrices share the scaling, centring and squared norms of the subset, and no [M, B] tensor is made twice: three
    operations touch it in the forward pass, four in the backward pass. Distances are in units of K = D or 1
    lengthscales.
    """

    @staticmethod
    def forward(
        ctx: Context,
        Z_s: _Subset,
        Z_b: _Batch,
        lengthscale: Float[Tensor, "*l 1 K"],
        log_variance: Float[Tensor, "*v 1 1"],
    ) -> tuple[_SubsetMatrix, _CrossMatrix]:
        """Both inputs are shifted by one point, as in `_log_correlation`."""
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
        ctx: Context, grad_ss: _SubsetMatrix, grad_sb: _CrossMatrix
    ) -> tuple[_Subset | None, _Batch | None, Float[Tensor, "*l 1 K"], Float[Tensor, "*v 1 1"]]:
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


def _correlate(a: _Subset, b: _Batch, norm_a: Float[Tensor, "*s M 1"], norm_b: Float[Tensor, "*b B 1"]) -> _CrossMatrix:
    """exp(a b' - norm_a - norm_b'), with one new tensor of that size."""
    K = norm_a + norm_b.mT
    if a.shape[:-2] != b.shape[:-2]:
        return (a @ b.mT - K).exp_()
    if K.dim() == 2:
        return K.addmm_(a, b.mT, beta=-1.0).exp_()
    K.flatten(0, -3).baddbmm_(a.flatten(0, -3), b.flatten(0, -3).mT, beta=-1.0)
    return K.exp_()
