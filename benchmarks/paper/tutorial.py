"""GPyTorch's own deep GP, built as its tutorial does (``examples/05_Deep_Gaussian_Processes``).

Doubly stochastic variational inference; one kernel and one set of inducing inputs for each output of a layer, a linear
mean in hidden layers and a constant one in the last.
"""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean, LinearMean
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from torch import Tensor


class TutorialLayer(DeepGPLayer):
    """The tutorial's ``ToyDeepGPHiddenLayer``.

    Parameters
    ----------
    input_dims : int
    output_dims : int or None
        None for the last layer, with a single output.
    num_inducing : int
    """

    def __init__(self, input_dims: int, output_dims: int | None, num_inducing: int) -> None:
        batch_shape = torch.Size([] if output_dims is None else [output_dims])
        inducing_points = torch.randn(*batch_shape, num_inducing, input_dims)
        distribution = CholeskyVariationalDistribution(num_inducing, batch_shape=batch_shape)
        strategy = VariationalStrategy(self, inducing_points, distribution, learn_inducing_locations=True)
        super().__init__(strategy, input_dims, output_dims)
        self.mean_module = ConstantMean(batch_shape=batch_shape) if output_dims is None else LinearMean(input_dims)
        self.covar_module = ScaleKernel(
            RBFKernel(batch_shape=batch_shape, ard_num_dims=input_dims), batch_shape=batch_shape, ard_num_dims=None
        )

    def forward(self, x: Tensor) -> MultivariateNormal:
        """Prior at x."""
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class TutorialDeepGP(DeepGP):
    """The tutorial's ``DeepGP`` for any number of layers.

    Parameters
    ----------
    dims : list of int
        Inputs of every layer.
    num_inducing : int
    """

    def __init__(self, dims: list[int], num_inducing: int) -> None:
        super().__init__()
        outputs: list[int | None] = [*dims[1:], None]
        self.layers = torch.nn.ModuleList(
            TutorialLayer(d_in, d_out, num_inducing) for d_in, d_out in zip(dims, outputs, strict=True)
        )
        self.likelihood = GaussianLikelihood()

    def forward(self, inputs: Tensor) -> Any:
        """Through all layers, one sample at each."""
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs
