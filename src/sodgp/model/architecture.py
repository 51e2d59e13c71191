"""What a deep GP is before it has parameters: sizes, kernels, means and initial values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from sodgp.kernels.make import KernelSpec, make_kernel
from sodgp.layers.means import HiddenMean
from sodgp.linalg.cholesky import Jitter

__all__ = ["Architecture", "Initialization"]


@dataclass(frozen=True)
class Initialization:
    """Values at which training starts, in units of the standardised data.

    Parameters
    ----------
    kernel_variance, lengthscale : float
        Of every layer's kernel, where the kernel is given by name; ``lengthscale=None`` is sqrt(inputs of the layer).
    noise_variance : float
        Of the likelihood (paper: sigma^2 of the final layer).
    layer_noise_variance : float
        Of every hidden layer (paper: sigma_l^2).
    label_noise_variance : float
        v of q_hat where it is not tied to the likelihood's (SoD only).
    hidden_factor, last_factor : float
        q starts with the covariance factor ``factor * I``.
    means : {"zero", "uniform"}
        Of q (SoD only): zero, or uniform on [0, 1), the same matrix in every hidden layer, as the authors' program
        starts.

    Examples
    --------
    >>> Initialization(noise_variance=0.01).layer_noise_variance
    1e-05
    """

    kernel_variance: float = 1.0
    lengthscale: float | None = None
    noise_variance: float = 0.05
    layer_noise_variance: float = 1e-5
    label_noise_variance: float = 1e-5
    hidden_factor: float = 1e-2
    last_factor: float = 1.0
    means: str = "zero"


@dataclass(frozen=True)
class Architecture:
    """Everything an inference method needs to build its model.

    Parameters
    ----------
    input_dim, n_outputs : int
        Columns of X and of y.
    size : int
        Rows of the subset, or inducing points per layer (M).
    mean_weights : list of Tensor of shape [*replicates, D_in, D_out]
        Linear means of the hidden layers; their number and widths are those of the hidden layers.
    kernel : str, function or gpytorch kernel
        See `sodgp.kernels.make.make_kernel`.
    parameterization : {"whitened", "paper"}
    tie_label_noise : bool
    initialization : Initialization
    jitter : Jitter
    replicates : torch.Size
    known_noise : Tensor of shape [*replicates, P], optional
        Noise variance of the likelihood where it is known, which is then not trained.
    label_precision : Tensor of shape [*replicates, M, P], optional
        With it: `known_noise` over the noise variance of every row of the subset.
    separate_kernels : bool
        A kernel for each output of the first of several layers.

    Examples
    --------
    >>> W = torch.eye(4, 3, dtype=torch.float64)
    >>> architecture = Architecture(input_dim=4, n_outputs=1, size=20, mean_weights=[W])
    >>> architecture.widths, type(architecture.kernel_of(1).base_kernel).__name__
    ([3, 1], 'RBFKernel')
    """

    input_dim: int
    n_outputs: int
    size: int
    mean_weights: Sequence[Tensor]
    kernel: KernelSpec = "rbf"
    parameterization: str = "whitened"
    tie_label_noise: bool = True
    initialization: Initialization = field(default_factory=Initialization)
    jitter: Jitter = field(default_factory=Jitter)
    dtype: torch.dtype = torch.float64
    replicates: torch.Size = field(default_factory=torch.Size)
    known_noise: Tensor | None = None
    label_precision: Tensor | None = None
    separate_kernels: bool = False

    @property
    def widths(self) -> list[int]:
        """Outputs of every layer, the last one included."""
        return [*(W.shape[-1] for W in self.mean_weights), self.n_outputs]

    def kernel_of(self, layer: int) -> Kernel:
        """A fresh kernel for the layer with that index, from 0."""
        dims, start = [self.input_dim, *self.widths][layer], self.initialization
        beside = self.widths[:1] if self.is_separate(layer) else []
        return make_kernel(
            self.kernel,
            dims,
            variance=start.kernel_variance,
            lengthscale=start.lengthscale,
            dtype=self.dtype,
            replicates=torch.Size([*self.replicates, *beside]),
        )

    def is_separate(self, layer: int) -> bool:
        """Whether the outputs of the layer with that index, from 0, have a kernel each."""
        return self.separate_kernels and layer == 0 and len(self.mean_weights) > 0

    def mean_of(self, layer: int) -> HiddenMean:
        """Mean function of the layer with that index, from 0; the last layer's is zero."""
        if layer < len(self.mean_weights):
            return HiddenMean(self.mean_weights[layer].to(self.dtype).clone())
        dims = [self.input_dim, *self.widths]
        return HiddenMean(torch.zeros(dims[layer], dims[layer + 1], dtype=self.dtype))
