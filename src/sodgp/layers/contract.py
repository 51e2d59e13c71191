"""What a model asks of a layer, and what goes from one layer to the next."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor, nn

from sodgp.layers.prior import HiddenMean
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import Draws

__all__ = ["Layer", "Points"]


class Points(NamedTuple):
    """Layer inputs of the subset and of the other rows, [..., T, M, D] and [..., T, B, D]; T is 1 in layer 1.

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
    """A GP layer, of whatever kind: a kernel, a mean function, and q over M function values.

    Attributes
    ----------
    index : int
        Position in the stack, from 1.
    q_mean : Parameter of shape [*replicates, M, D]
    """

    index: int
    kernel: Kernel
    mean: HiddenMean
    jitter: Jitter
    q_mean: nn.Parameter

    @property
    def n_parameters(self) -> int:
        """Trained numbers of one replicate."""
        ...

    @property
    def has_kernel_per_output(self) -> bool:
        """Whether every output has a kernel of its own."""
        ...

    def get_parameter(self, target: str) -> nn.Parameter:
        """A parameter by its name, such as ``"q_factor"``; as of `torch.nn.Module`."""
        ...

    def propagate(self, points: Points, draws: Draws, coupling: str) -> tuple[Points, Float[Tensor, "*batch T"]]:
        """Draw the next layer's inputs, and give the KL divergence of q from the prior for every sample."""
        ...
