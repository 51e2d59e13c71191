"""The protocol of a GP layer, and the points that one layer passes to the next."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from sodgp.layers.prior import HiddenMean
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import Draws

__all__ = ["Layer", "Points"]


class Points(NamedTuple):
    """Inputs of a layer at the subset and at the other rows; T is 1 in the first layer.

    Attributes
    ----------
    subset : Tensor of shape [..., T, M, D]
    rest : Tensor of shape [..., T, B, D]

    Examples
    --------
    >>> import torch
    >>> Points(torch.zeros(1, 5, 2), torch.zeros(1, 20, 2)).rest.shape
    torch.Size([1, 20, 2])
    """

    subset: Float[Tensor, "*batch T M D"]
    rest: Float[Tensor, "*batch2 T2 B D"]


@runtime_checkable
class Layer(Protocol):
    """A GP layer as a model sees it: a kernel, a mean function, and q over M function values.

    A new kind of layer is a `torch.nn.Module` with these members, like those in `sodgp.layers.subset` and
    `sodgp.layers.inducing`.

    Attributes
    ----------
    index : int
        Position in the stack, from 1, for error messages.
    kernel : gpytorch.kernels.Kernel
        Shared by all outputs, or a batch of one for each output.
    mean : HiddenMean
        Prior mean of the outputs.
    jitter : Jitter
        Added to kernel matrices before they are factorised.
    q_mean : Tensor of shape [*replicates, M, D]
        Mean of q: a parameter, or a buffer where it is fixed.
    """

    index: int
    kernel: Kernel
    mean: HiddenMean
    jitter: Jitter
    q_mean: Tensor

    @property
    def n_parameters(self) -> int:
        """How many numbers one replicate trains."""

    @property
    def has_kernel_per_output(self) -> bool:
        """Whether every output has its own kernel, instead of one for all."""

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by their names, such as ``"q_factor"``, as in `torch.nn.Module`."""

    def propagate(self, points: Points, draws: Draws, coupling: str) -> tuple[Points, Float[Tensor, "*batch T"]]:
        """Draw the next layer's inputs and compute the KL divergence of q from the prior.

        Parameters
        ----------
        points : Points
            Inputs of this layer.
        draws : Draws
            The only source of random numbers.
        coupling : str
            How rows are drawn: each from its own marginal, or jointly. A layer says which names it knows.

        Returns
        -------
        points : Points
            Inputs of the next layer, with T samples.
        kl : Tensor of shape [..., T] or [..., 1]
            Summed over outputs; one value where it does not depend on the sample.
        """
