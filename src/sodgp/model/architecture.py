"""The architecture of a deep GP, from which a method builds the model: sizes, kernels, means, initial values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from sodgp.kernels.make import KernelSpec, make_kernel
from sodgp.layers.prior import HiddenMean
from sodgp.likelihoods.contract import Likelihood, LikelihoodOptions, Sizes
from sodgp.likelihoods.gaussian import Gaussian
from sodgp.linalg.cholesky import Jitter

__all__ = ["Architecture", "Initialization"]


@dataclass(frozen=True)
class Initialization:
    """Initial parameters, in units of the standardised data.

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
        The covariance factor of q starts as ``factor * I``.
    means : {"zero", "uniform"}
        Means of q (SoD only): zero, or uniform on [0, 1) with the same matrix in every hidden layer, as in the authors'
        program.

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
    """Everything that an inference method needs to build its model.

    Parameters
    ----------
    input_dim, n_outputs : int
        Columns of X and of y.
    size : int
        Rows of the subset, or inducing points per layer (M).
    mean_weights : list of Tensor of shape [*replicates, D_in, D_out]
        Linear means of the hidden layers, which also give their number and widths.
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
    mean_weights: Sequence[Float[Tensor, "*replicates _ _"]]
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
        """A new kernel for a layer, counted from 0; with `per_output` a batch of kernels, one for each output."""
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
        """A new mean function for a layer, counted from 0; that of the last layer is zero."""
        if layer < len(self.mean_weights):
            return HiddenMean(self.mean_weights[layer].to(self.dtype).clone())
        dims = [self.input_dim, *self.widths]
        return HiddenMean(torch.zeros(dims[layer], dims[layer + 1], dtype=self.dtype))

    def build_likelihood(self) -> Likelihood:
        """A new likelihood module with its initial parameters."""
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
