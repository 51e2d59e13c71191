"""Covariances of one fixed set of points with many others: what depends on the fixed points is computed once."""

from __future__ import annotations

import torch
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from jaxtyping import Float
from torch import Tensor

from sodgp.kernels.dense import covariance, variance

__all__ = ["PreparedCovariance"]


class PreparedCovariance:
    """The function X -> k(Z, X) for fixed points Z and a kernel whose parameters stay as they are.

    An RBF kernel, scaled or not, is one matrix product and one exponential for each set of rows; others are evaluated
    by `sodgp.kernels.dense.covariance`. The numbers equal those of `covariance` to rounding; gradients are those of X.

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
    Z : Tensor of shape [..., T or 1, M, D]

    Examples
    --------
    >>> import gpytorch
    >>> Z, X = torch.zeros(4, 3, 2).double(), torch.ones(4, 5, 2).double()
    >>> k = PreparedCovariance(gpytorch.kernels.RBFKernel().double(), Z)
    >>> k(X).shape, k.of_sample(1)(X[1:2]).shape
    (torch.Size([4, 3, 5]), torch.Size([1, 3, 5]))
    """

    @torch.no_grad()
    def __init__(self, kernel: Kernel, Z: Float[Tensor, "*z M D"]) -> None:
        self.kernel, self.Z = kernel, Z
        # What rows are multiplied by, what is added, k(Z, .) without them, and the prior variance.
        self._prepared: tuple[Tensor, ...] | None = None
        base = kernel.base_kernel if type(kernel) is ScaleKernel else kernel
        if type(base) is not RBFKernel or base.active_dims is not None or kernel.active_dims is not None:
            return
        # As in `covariance`: both sets are shifted by one point, and half the squared norms are two more columns.
        factor, shift = 1.0 / base.lengthscale, Z.mean(-2, keepdim=True)
        a = (Z - shift) * factor
        norm = -0.5 * a.square().sum(-1, keepdim=True)
        if kernel is not base:
            norm = norm + kernel.outputscale.log()[..., None, None]
        left = torch.cat([a, norm, torch.ones_like(norm)], -1)
        factor = factor.expand(*shift.shape[:-2], *factor.shape[-2:])
        self._prepared = (factor.mT, -(shift * factor).mT, left, variance(kernel, Z[..., :1, :]).unsqueeze(-1))

    def __call__(self, X: Float[Tensor, "*x N D"], out: Tensor | None = None) -> Float[Tensor, "*out M N"]:
        """k(Z, X), without gradients in the memory of `out` where that can be used."""
        if self._prepared is None:
            return covariance(self.kernel, self.Z, X)
        factor, shift, left, _ = self._prepared
        # Rows as columns, so that what differs between inputs is the outer axis.
        b = torch.addcmul(shift, X.mT, factor)
        norm = -0.5 * b.square().sum(-2, keepdim=True)
        right = torch.cat([b, torch.ones_like(norm), norm], -2)
        return (left @ right).exp() if torch.is_grad_enabled() else torch.matmul(left, right, out=out).exp_()

    def variance(self, X: Float[Tensor, "*x N D"]) -> Float[Tensor, "*out #N"]:
        """The diagonal of k(X, X), or its one value."""
        return variance(self.kernel, X) if self._prepared is None else self._prepared[-1][..., 0]

    def of_sample(self, index: int) -> PreparedCovariance:
        """The same for one of the samples of Z, axis -3."""
        part = object.__new__(PreparedCovariance)
        part.kernel, part.Z, part._prepared = self.kernel, _sample(self.Z, index), None
        if self._prepared is not None:
            part._prepared = tuple(_sample(tensor, index) for tensor in self._prepared)
        return part

    @property
    def tensors(self) -> list[Tensor]:
        """What is kept beside Z."""
        return list(self._prepared or ())


def _sample(tensor: Tensor, index: int) -> Tensor:
    return tensor if tensor.shape[-3] == 1 else tensor[..., index : index + 1, :, :]
