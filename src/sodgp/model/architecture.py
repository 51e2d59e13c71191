"""What a deep GP is before it has parameters: sizes, kernels, means and initial values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from sodgp.kernels.make import KernelSpec, make_kernel
from sodgp.layers.prior import HiddenMean
from sodgp.likelihoods.contract import Likelihood, LikelihoodOptions, Sizes
from sodgp.likelihoods.gaussian import Gaussian
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
    likelihood : LikelihoodOptions
    initialization : Initialization
    jitter : Jitter
    dtype : torch.dtype
    replicates : torch.Size

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
    likelihood: LikelihoodOptions = field(default_factory=Gaussian)
    initialization: Initialization = field(default_factory=Initialization)
    jitter: Jitter = field(default_factory=Jitter)
    dtype: torch.dtype = torch.float64
    replicates: torch.Size = field(default_factory=torch.Size)

    @property
    def widths(self) -> list[int]:
        """Outputs of every layer, the last one included."""
        return [*(W.shape[-1] for W in self.mean_weights), self.n_outputs]

    def kernel_of(self, layer: int, *, per_output: bool = False) -> Kernel:
        """A fresh kernel for the layer with that index, from 0; with `per_output` a batch of one for each output."""
        dims, start = [self.input_dim, *self.widths][layer], self.initialization
        outputs = self.widths[layer : layer + 1] if per_output else []
        return make_kernel(
            self.kernel,
            dims,
            variance=start.kernel_variance,
            lengthscale=start.lengthscale,
            dtype=self.dtype,
            replicates=torch.Size([*self.replicates, *outputs]),
        )

    def mean_of(self, layer: int) -> HiddenMean:
        """Mean function of the layer with that index, from 0; the last layer's is zero."""
        if layer < len(self.mean_weights):
            return HiddenMean(self.mean_weights[layer].to(self.dtype).clone())
        dims = [self.input_dim, *self.widths]
        return HiddenMean(torch.zeros(dims[layer], dims[layer + 1], dtype=self.dtype))

    def build_likelihood(self) -> Likelihood:
        """The likelihood's module at its initial values."""
        sizes = Sizes(
            subset=self.size,
            input_dim=self.input_dim,
            n_outputs=self.n_outputs,
            noise_variance=self.initialization.noise_variance,
            lengthscale=self.initialization.lengthscale,
            jitter=self.jitter,
            dtype=self.dtype,
            replicates=self.replicates,
        )
        return self.likelihood.build(sizes)
