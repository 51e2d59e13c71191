"""A hidden layer of SoD-VI whose outputs have a kernel each."""

from __future__ import annotations

from torch import Tensor

from sodgp.layers.contract import Points
from sodgp.layers.subset import SubsetLayer
from sodgp.linalg.draws import Draws

__all__ = ["SeparateLayer"]


class SeparateLayer(SubsetLayer):
    """A `SubsetLayer` with a batch of kernels, one for each output: like as many layers with one output each.

    The outputs stand where replicates would, in front of the samples, so that every formula of a layer with one output
    holds as it is. K_SS and L^-1 K_SR are needed for each of them: in the first layer, whose inputs have no samples,
    that costs about as much as the samples do in any further layer.

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
        Made for replicates [*replicates, D].
    mean, size, width, noise_variance, factor_scale, jitter, index, replicates
        As of `SubsetLayer`; the family is the whitened one.

    Examples
    --------
    >>> import torch
    >>> from sodgp.linalg.draws import FreshDraws
    >>> from sodgp.kernels.make import make_kernel
    >>> from sodgp.layers.prior import HiddenMean
    >>> kernel = make_kernel("rbf", 2, replicates=torch.Size([3]))
    >>> layer = SeparateLayer(kernel, HiddenMean(torch.eye(2, 3, dtype=torch.float64)), size=4, width=3)
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64).reshape(1, 10, 2)
    >>> draws = FreshDraws(torch.Generator().manual_seed(0), n_samples=5)
    >>> points, kl = layer.propagate(Points(X[:, :4], X[:, 4:]), draws, "ancestral")
    >>> points.subset.shape, points.rest.shape, kl.shape
    (torch.Size([5, 4, 3]), torch.Size([5, 6, 3]), torch.Size([1]))
    """

    @property
    def has_kernel_per_output(self) -> bool:
        """Every output has its own."""
        return True

    def propagate(self, points: Points, draws: Draws, coupling: str) -> tuple[Points, Tensor]:
        """As of `SubsetLayer`."""
        in_layout = Points(*(self.to_kernel_layout(Z) for Z in points))
        drawn, kl = self._draw(in_layout, self.draws_in_layout(draws), coupling)
        return Points(*(self.from_kernel_layout(Z) for Z in drawn)), kl.sum(-2)

    def to_kernel_layout(self, Z: Tensor) -> Tensor:
        """The same inputs for every output, [..., D, T, N, D_in]."""
        return Z.unsqueeze(-4).expand(*Z.shape[:-3], self.q_mean.shape[-1], *Z.shape[-3:])

    def from_kernel_layout(self, Z: Tensor) -> Tensor:
        """Outputs one by one [..., D, T, N, 1] as columns, [..., T, N, D]."""
        return Z.squeeze(-1).movedim(-3, -1)

    def draws_in_layout(self, draws: Draws) -> Draws:
        """Random numbers for outputs one by one."""
        return _OneByOne(draws, self.q_mean.shape[-1])

    def prior_mean(self, Z: Tensor) -> Tensor:
        """[..., D, T, N, 1] at inputs that are the same for every output, [..., D, T, N, D_in]."""
        return _one_by_one(self.mean(Z[..., 0, :, :, :]))

    def variational_parameters(self) -> tuple[Tensor, Tensor]:
        """Mean [..., D, 1, M, 1] and lower-triangular factor [..., D, 1, 1, M, M] of q."""
        return self.q_mean.mT[..., None, :, None], self.q_factor.tril()[..., None, None, :, :]

    @property
    def draw_variance(self) -> Tensor:
        """With an axis for the outputs, [..., 1, 1, 1, 1]."""
        # Not by super(): PyTorch's compiler cannot follow a property through it.
        return self.noise_variance[..., None, None, None, None] + self.jitter.draw_extra


class _OneByOne:
    """Random numbers for outputs one by one: [..., D, T, N, 1] from those for D outputs, [..., T, N, D]."""

    def __init__(self, draws: Draws, width: int) -> None:
        self._draws, self._width = draws, width
        self.n_samples = draws.n_samples

    def subset(self, n_rows: int, width: int) -> Tensor:
        return _one_by_one(self._draws.subset(n_rows, self._width))

    def rest(self, n_rows: int, width: int) -> Tensor:
        return _one_by_one(self._draws.rest(n_rows, self._width))


def _one_by_one(Z: Tensor) -> Tensor:
    """Columns [..., T, N, D] as outputs one by one, [..., D, T, N, 1]."""
    return Z.movedim(-1, -3).unsqueeze(-1)
