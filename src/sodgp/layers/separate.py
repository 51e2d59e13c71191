"""A hidden layer of SoD-VI whose outputs have a kernel each."""

from __future__ import annotations

from torch import Tensor

from sodgp.draws import Draws
from sodgp.layers.subset import Points, SubsetLayer

__all__ = ["SeparateLayer"]


class SeparateLayer(SubsetLayer):
    """A `SubsetLayer` with a batch of kernels, one for each output: as many layers with one output, side by side.

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
    >>> from sodgp.draws import FreshDraws
    >>> from sodgp.kernels import make_kernel
    >>> from sodgp.layers.means import HiddenMean
    >>> kernel = make_kernel("rbf", 2, replicates=torch.Size([3]))
    >>> layer = SeparateLayer(kernel, HiddenMean(torch.eye(2, 3, dtype=torch.float64)), size=4, width=3)
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64).reshape(1, 10, 2)
    >>> draws = FreshDraws(torch.Generator().manual_seed(0), n_samples=5)
    >>> points, kl = layer.propagate(Points(X[:, :4], X[:, 4:]), draws, "ancestral")
    >>> points.subset.shape, points.rest.shape, kl.shape
    (torch.Size([5, 4, 3]), torch.Size([5, 6, 3]), torch.Size([1]))
    """

    def propagate(self, points: Points, draws: Draws, coupling: str) -> tuple[Points, Tensor]:
        """As of `SubsetLayer`."""
        width = self.q_mean.shape[-1]
        beside = Points(*(_beside(Z, width) for Z in points))
        drawn, kl = self._drawn(beside, _OneByOne(draws, width), coupling)
        means = (self.mean(Z) for Z in points)
        return Points(*(mean + _together(Z) for mean, Z in zip(means, drawn, strict=True))), kl.sum(-2)

    def variational_parameters(self) -> tuple[Tensor, Tensor]:
        """Mean [..., D, 1, M, 1] and lower-triangular factor [..., D, 1, 1, M, M] of q."""
        return self.q_mean.mT[..., None, :, None], self.q_factor.tril()[..., None, None, :, :]

    def _prior_means(self, points: Points) -> tuple[Tensor, Tensor]:
        """Zero: the means are added to what is drawn, for all outputs at once."""
        subset, rest = (Z.new_zeros(()).expand(*Z.shape[:-1], 1) for Z in points)
        return subset, rest

    @property
    def _draw_variance(self) -> Tensor:
        """With an axis for the outputs, [..., 1, 1, 1, 1]."""
        # Not by super(): PyTorch's compiler cannot follow a property through it.
        return self.noise_variance[..., None, None, None, None] + self.jitter.draw_extra


class _OneByOne:
    """Random numbers for outputs side by side: [..., D, T, N, 1] from those for D outputs, [..., T, N, D]."""

    def __init__(self, draws: Draws, width: int) -> None:
        self._draws, self._width = draws, width
        self.n_samples = draws.n_samples

    def subset(self, n_rows: int, width: int) -> Tensor:
        return self._draws.subset(n_rows, self._width).movedim(-1, -3).unsqueeze(-1)

    def rest(self, n_rows: int, width: int) -> Tensor:
        return self._draws.rest(n_rows, self._width).movedim(-1, -3).unsqueeze(-1)


def _beside(Z: Tensor, width: int) -> Tensor:
    """The same inputs for every output, [..., D, T, N, D_in]."""
    return Z.unsqueeze(-4).expand(*Z.shape[:-3], width, *Z.shape[-3:])


def _together(Z: Tensor) -> Tensor:
    """Outputs side by side [..., D, T, N, 1] as columns, [..., T, N, D]."""
    return Z.squeeze(-1).movedim(-3, -1)
