"""GPyTorch's own deep GP, built and trained as its tutorial does (``examples/05_Deep_Gaussian_Processes``).

Doubly stochastic variational inference; one kernel and one set of inducing inputs for each output of a layer, a linear
mean in hidden layers and a constant one in the last. Only the data type (float64) and the way to a batch differ: rows
are looked up in one tensor, which is faster than the tutorial's ``DataLoader``.
"""

from __future__ import annotations

from collections.abc import Callable

import gpytorch
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean, LinearMean
from gpytorch.mlls import DeepApproximateMLL, VariationalELBO
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from torch import Tensor

from benchmarks.speed.ours import LEARNING_RATE
from benchmarks.speed.shapes import DTYPE, Shape
from sodgp.inference.base import TrainingSet
from sodgp.training.batches import Batcher


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
    shape : Shape
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        outputs: list[int | None] = [*shape.hidden_widths, None]
        self.layers = torch.nn.ModuleList(
            TutorialLayer(d_in, d_out, shape.size) for d_in, d_out in zip(shape.input_dims, outputs, strict=True)
        )
        self.likelihood = GaussianLikelihood()

    def forward(self, inputs: Tensor) -> MultivariateNormal:
        """Through all layers, one sample at each."""
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs


def gpytorch_step(shape: Shape, data: TrainingSet, device: torch.device) -> Callable[[], Tensor]:
    """The whole step of GPyTorch's deep GP: batch, forward, backward, Adam; returns the loss, detached.

    Parameters
    ----------
    shape : Shape
    data : TrainingSet
        Its rest is the data, B rows of it a batch, as for our own DSVI.
    device : torch.device
    """
    with torch.random.fork_rng(devices=[]):
        # GPyTorch draws its initial values from the global generator.
        torch.manual_seed(0)
        model = TutorialDeepGP(shape).to(device, DTYPE)
    model.train()
    optimizer = torch.optim.Adam([{"params": model.parameters()}], lr=LEARNING_RATE)
    mll = DeepApproximateMLL(VariationalELBO(model.likelihood, model, shape.n_rest))
    batcher = Batcher(data, shape.batch, [torch.Generator().manual_seed(2)])

    def step() -> Tensor:
        batch = batcher.next()
        with gpytorch.settings.num_likelihood_samples(shape.n_samples):
            optimizer.zero_grad()
            loss = -mll(model(batch.X_b[0]), batch.y_b[0, :, 0])
            loss.backward()
            optimizer.step()
        return loss.detach()

    return step
