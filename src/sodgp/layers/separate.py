"""A layer with one kernel for each output, evaluated as a `SubsetLayer` with the outputs as a leading axis."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from sodgp.layers.contract import Points
from sodgp.layers.subset import SubsetLayer
from sodgp.linalg.draws import Draws

__all__ = ["SeparateLayer"]


class SeparateLayer(SubsetLayer):
    """A `SubsetLayer` with one kernel for each output, equivalent to D layers with one output.

    In the kernel layout the outputs are an axis in front of the samples, where replicates are, and the formulas of a
    layer with one output apply unchanged. K_SS and L^-1 K_SR are needed for every output: in the first layer, whose
    inputs have no samples, that costs about as much as T samples cost in a later layer.

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
        Made for replicates [*replicates, D].
    mean, size, width, noise_variance, factor_scale, jitter, index, replicates
        As in `SubsetLayer`; the family is the whitened one.

    Examples
    --------
    >>> import torch
    >>> from sodgp.kernels.make import make_kernel
    >>> from sodgp.layers.prior import HiddenMean
    >>> from sodgp.linalg.draws import FreshDraws
    >>> kernel = make_kernel("rbf", 2, replicates=torch.Size([3]))
    >>> layer = SeparateLayer(kernel, HiddenMean(torch.eye(2, 3, dtype=torch.float64)), size=4, width=3)
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64).reshape(1, 10, 2)
    >>> draws = FreshDraws(torch.Generator().manual_seed(0), n_samples=5)
    >>> points, kl = layer.propagate(Points(X[:, :4], X[:, 4:]), draws, "ancestral")
    >>> points.subset.shape, points.rest.shape, kl.shape
    (torch.Size([5, 4, 3]), torch.Size([5, 6, 3]), torch.Size([1]))
    """

    has_kernel_per_output: ClassVar[bool] = True

    def propagate(self, points: Points, draws: Draws, coupling: str) -> tuple[Points, Float[Tensor, "*batch T"]]:
        """As in `SubsetLayer`."""
        in_layout = Points(*(self.to_kernel_layout(Z) for Z in points))
        drawn, kl = self._draw(in_layout, self.draws_in_layout(draws), coupling)
        return Points(*(self.from_kernel_layout(Z) for Z in drawn)), kl.sum(-2)

    def to_kernel_layout(self, Z: Float[Tensor, "*batch T N D_in"]) -> Float[Tensor, "*batch D T N D_in"]:
        """The same inputs for every output."""
        return Z.unsqueeze(-4).expand(*Z.shape[:-3], self.q_mean.shape[-1], *Z.shape[-3:])

    def from_kernel_layout(self, Z: Float[Tensor, "*batch D T N 1"]) -> Float[Tensor, "*batch T N D"]:
        """The outputs as columns."""
        return Z.squeeze(-1).movedim(-3, -1)

    def draws_in_layout(self, draws: Draws) -> Draws:
        """Random numbers with an axis for the outputs."""
        return _PerOutput(draws, self.q_mean.shape[-1])

    def prior_means(self, *inputs: Float[Tensor, "*#batch D #T _ D_in"]) -> list[Float[Tensor, "*#batch D #T _ 1"]]:
        """Prior means of every output; the inputs are the same for all outputs."""
        return [_outputs_first(mean) for mean in self.mean.at(*(Z[..., 0, :, :, :] for Z in inputs))]

    def variational_parameters(
        self,
    ) -> tuple[Float[Tensor, "*replicates D 1 M 1"], Float[Tensor, "*replicates D 1 1 M M"]]:
        """Mean and lower-triangular factor of q in the kernel layout."""
        return self.q_mean.mT[..., None, :, None], self.q_factor.tril()[..., None, None, :, :]

    @property
    def draw_variance(self) -> Float[Tensor, "*replicates 1 1 1 1"]:
        """Noise variance of a hidden draw, with an axis for the outputs."""
        # Not super(): PyTorch's compiler cannot trace a property through it.
        return self.noise_variance[..., None, None, None, None] + self.jitter.draw_extra


class _PerOutput:
    """The numbers that a source gives for D outputs, with the outputs as an axis in front of the samples."""

    def __init__(self, draws: Draws, width: int) -> None:
        self._draws, self._width = draws, width
        self.n_samples = draws.n_samples

    def subset(self, n_rows: int, width: int) -> Float[Tensor, "*batch D T N 1"]:
        return _outputs_first(self._draws.subset(n_rows, self._width))

    def rest(self, n_rows: int, width: int) -> Float[Tensor, "*batch D T N 1"]:
        return _outputs_first(self._draws.rest(n_rows, self._width))


def _outputs_first(Z: Float[Tensor, "*batch T N D"]) -> Float[Tensor, "*batch D T N 1"]:
    return Z.movedim(-1, -3).unsqueeze(-1)
