"""The architecture of a deep GP, from which a method builds the model: sizes, kernels, means, initial values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from sodgp.kernels.make import KernelSpec, make_kernel
from sodgp.layers.prior import HiddenMean
from sodgp.likelihoods.contract import Likelihood, LikelihoodOptions, Sizes
from sodgp.likelihoods.gaussian import Gaussian
from sodgp.linalg.cholesky import Jitter

__all__ = ["Architecture", "Initialization", "linear_weights", "zero_weights"]

# Rows whose covariance is summed at once.
_BLOCK_ROWS = 20_000
# Tensors of T x M x B numbers that are in memory at once, for the last layer and for the first.
_LAST = 4.0
# Size of the chunks of products over outputs and of psi statistics (see `linalg.products` and `layers.psi`).
GROUP = 2**22


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
    target_mean : Tensor of shape [P], optional
        Mean of the training labels, for likelihoods that start there.

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
    target_mean: Float[Tensor, " P"] | None = None

    @property
    def widths(self) -> list[int]:
        """Outputs of every layer, the last one included."""
        return [*(W.shape[-1] for W in self.mean_weights), self.n_outputs]

    def kernel_of(self, layer: int, *, per_output: bool = False, log_scale: bool = False) -> Kernel:
        """A new kernel for a layer, counted from 0; with `per_output` a batch of kernels, one for each output.

        `log_scale` is that of `sodgp.kernels.make.make_kernel`.
        """
        dims, start = [self.input_dim, *self.widths][layer], self.initialization
        outputs = self.widths[layer : layer + 1] if per_output else []
        return make_kernel(
            self.kernel,
            dims,
            variance=start.kernel_variance,
            lengthscale=start.lengthscale,
            log_scale=log_scale,
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
            target_mean=self.target_mean,
        )
        return self.likelihood.build(sizes)

    def training_numbers(
        self,
        batch_rows: int,
        n_samples: int,
        *,
        further: float = 6.0,
        more_kernels: int = 0,
        subset: bool = False,
        scratch: float = 0.0,
    ) -> float:
        """Numbers that are in memory at once in training, estimated by the largest tensors.

        The factors were measured with PyTorch's memory profiler for all methods.

        Parameters
        ----------
        batch_rows : int
            Rows of the rest in a step.
        n_samples : int
            Monte Carlo samples T of a step.
        further : float
            Tensors of T x M x B numbers for every hidden layer after the first.
        more_kernels : int
            Kernels of the first layer beyond one.
        subset : bool
            Whether the subset's covariance is factorised for every sample, and Q of q_hat for every output.
        scratch : float
            Further numbers that the method needs.
        """
        T, M, B = n_samples, self.size, batch_rows
        widths, P = self.widths, self.n_outputs
        T_deep = T if len(widths) > 1 else 0
        rows = M * B * (_LAST * (1 + more_kernels) + T_deep * (_LAST + max(len(widths) - 2, 0) * further))
        squares = max(T_deep, 1) * M * M * (8 + 6 * (P - 1)) if subset else M * M * 8
        squares += 8 * more_kernels * M * M
        # Parameters, gradients, two moments of Adam, and a copy for rollbacks.
        factors = 6 * M * sum(widths) * (M + 1)
        return float(rows + squares + factors + scratch)


def linear_weights(X: Float[Tensor, "N D"], widths: list[int]) -> list[Float[Tensor, "_ _"]]:
    """Weights of the linear means of a stack of hidden layers (Salimbeni & Deisenroth 2017, section 3).

    The identity where the width stays, the leading principal directions of the (scaled) inputs where it shrinks, and
    the identity padded with zeros where it grows. Later layers see the inputs as mapped by the earlier means.

    Parameters
    ----------
    X : Tensor of shape [N, D]
        Scaled training inputs.
    widths : list of int
        Width of each hidden layer.

    Examples
    --------
    >>> X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> [tuple(W.shape) for W in linear_weights(X, [3, 2])]
    [(3, 3), (3, 2)]
    """
    weights: list[Tensor] = []
    applied, d_in = 0, X.shape[-1]
    for width in widths:
        if width < d_in:
            # Rows are mapped only where they are looked at: usually by the first layer alone.
            for W in weights[applied:]:
                X = X @ W
            applied = len(weights)
            # From the covariance, d_in x d_in, so that the cost hardly grows with the number of rows.
            mean = X.mean(0)
            blocks = (rows - mean for rows in X.split(_BLOCK_ROWS))
            _, vectors = torch.linalg.eigh(torch.stack([rows.mT @ rows for rows in blocks]).sum(0))
            W = vectors.flip(-1)[:, :width]
            # An eigenvector's sign is arbitrary: fix it, so that a fit does not depend on the LAPACK that is installed.
            W = W * torch.where(W.gather(0, W.abs().argmax(0, keepdim=True)) < 0, -1.0, 1.0)
        else:
            W = torch.eye(d_in, width, dtype=X.dtype, device=X.device)
        weights.append(W)
        d_in = width
    return weights


def zero_weights(X: Float[Tensor, "N D"], widths: list[int]) -> list[Float[Tensor, "_ _"]]:
    """Weights of zero means for a stack of hidden layers.

    Examples
    --------
    >>> [tuple(W.shape) for W in zero_weights(torch.ones(20, 3), [3, 2])]
    [(3, 3), (3, 2)]
    """
    sizes = [X.shape[-1], *widths]
    return [X.new_zeros(d_in, d_out) for d_in, d_out in pairwise(sizes)]
