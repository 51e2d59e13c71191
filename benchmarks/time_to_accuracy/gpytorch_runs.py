"""GPyTorch's SGPR, SVGP and deep GP, trained by Adam in float64 until the last budget is used up.

The learning rate is constant, so that a run with a larger budget goes through the states of one with a smaller.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import InducingPointKernel, Kernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean
from gpytorch.mlls import DeepApproximateMLL, ExactMarginalLogLikelihood, VariationalELBO
from gpytorch.models import ApproximateGP, ExactGP
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from sklearn.cluster import KMeans
from torch import Tensor

from benchmarks.paper.peers import Scaling
from benchmarks.paper.splits import Split
from benchmarks.paper.tutorial import TutorialDeepGP
from benchmarks.time_to_accuracy.clock import Clock
from sodgp.predictive.mixture import GaussianMixture

__all__ = ["deep_gp", "sgpr", "svgp"]

_CHUNK_ROWS = 256


class _Sgpr(ExactGP):
    """Titsias's collapsed bound as GPyTorch has it."""

    def __init__(self, X: Tensor, y: Tensor, Z: Tensor, likelihood: GaussianLikelihood) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module = ConstantMean()
        self.covar_module = InducingPointKernel(_kernel(X.shape[-1]), Z, likelihood)

    def forward(self, x: Tensor) -> MultivariateNormal:
        """Prior at x."""
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class _Svgp(ApproximateGP):
    """A sparse GP with a trained q(U)."""

    def __init__(self, Z: Tensor) -> None:
        q = CholeskyVariationalDistribution(len(Z))
        super().__init__(VariationalStrategy(self, Z, q, learn_inducing_locations=True))
        self.mean_module, self.covar_module = ConstantMean(), _kernel(Z.shape[-1])

    def forward(self, x: Tensor) -> MultivariateNormal:
        """Prior at x."""
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


def _kernel(dims: int) -> Kernel:
    """One lengthscale for each input, which start where ours and the exact GP's do."""
    kernel = ScaleKernel(RBFKernel(ard_num_dims=dims))
    kernel.base_kernel.lengthscale = dims**0.5
    return kernel


def sgpr(
    split: Split, options: dict[str, Any], seed: int, clock: Clock, budgets: Sequence[float]
) -> Iterator[Callable[[Any], GaussianMixture]]:
    """Every step sees all rows."""
    scaling, X, y = _scaled(split)
    likelihood = GaussianLikelihood()
    model = _Sgpr(X, y, _centres(X, options["inducing"], seed), likelihood).double()
    mll = ExactMarginalLogLikelihood(likelihood, model)
    yield from _trained(model, scaling, lambda: -mll(model(X), y), options, clock, budgets)


def svgp(
    split: Split, options: dict[str, Any], seed: int, clock: Clock, budgets: Sequence[float]
) -> Iterator[Callable[[Any], GaussianMixture]]:
    """Steps of a batch."""
    scaling, X, y = _scaled(split)
    model = _Svgp(_centres(X, options["inducing"], seed))
    model.likelihood = GaussianLikelihood()
    model = model.double()
    mll = VariationalELBO(model.likelihood, model, len(y))
    batch = _batches(len(y), options["batch_size"], seed)

    def loss() -> Tensor:
        rows = next(batch)
        return -mll(model(X[rows]), y[rows])

    yield from _trained(model, scaling, loss, options, clock, budgets)


def deep_gp(
    split: Split, options: dict[str, Any], seed: int, clock: Clock, budgets: Sequence[float]
) -> Iterator[Callable[[Any], GaussianMixture]]:
    """The deep GP of GPyTorch's tutorial."""
    scaling, X, y = _scaled(split)
    width = min(30, X.shape[1])
    dims = [X.shape[1], *[width] * (options["n_layers"] - 1)]
    model = TutorialDeepGP(dims, min(options["inducing"], len(y))).double()
    mll = DeepApproximateMLL(VariationalELBO(model.likelihood, model, len(y)))
    batch = _batches(len(y), options["batch_size"], seed)

    def loss() -> Tensor:
        rows = next(batch)
        with gpytorch.settings.num_likelihood_samples(options["n_samples"]):
            return -mll(model(X[rows]), y[rows])

    yield from _trained(model, scaling, loss, options, clock, budgets)


def _trained(
    model: Any,
    scaling: Scaling,
    loss: Callable[[], Tensor],
    options: dict[str, Any],
    clock: Clock,
    budgets: Sequence[float],
) -> Iterator[Callable[[Any], GaussianMixture]]:
    """Steps of Adam, and a prediction with the present parameters whenever the clock passes a budget."""
    optimizer = torch.optim.Adam(model.parameters(), lr=options["learning_rate"])
    waiting = sorted(budgets)

    def predict(rows: Any) -> GaussianMixture:
        return _predict(model, scaling, rows, options.get("n_predict", 1))

    with warnings.catch_warnings():
        # Jitter that was added: GPyTorch says so and goes on.
        warnings.simplefilter("ignore", gpytorch.utils.warnings.NumericalWarning)
        while waiting:
            model.train()
            optimizer.zero_grad()
            value = loss()
            value.backward()
            optimizer.step()
            if clock.seconds >= waiting[0]:
                waiting = [budget for budget in waiting if budget > clock.seconds]
                yield predict


def _predict(model: Any, scaling: Scaling, rows: Any, n_samples: int) -> GaussianMixture:
    """In chunks of rows: mean and variance of y, one component for each sample of a deep GP."""
    model.eval()
    parts = []
    with torch.no_grad(), gpytorch.settings.num_likelihood_samples(n_samples):
        for part in torch.as_tensor(scaling.inputs(rows)).split(_CHUNK_ROWS):
            y = model.likelihood(model(part))
            parts.append((torch.atleast_2d(y.mean), torch.atleast_2d(y.variance)))
    mean, variance = (torch.cat(values, -1) for values in zip(*parts, strict=True))
    return scaling.back(mean, variance)


def _scaled(split: Split) -> tuple[Scaling, Tensor, Tensor]:
    scaling = Scaling(split)
    return scaling, torch.as_tensor(scaling.inputs(split.X_train)), torch.as_tensor(scaling.target(split.y_train))


def _centres(X: Tensor, count: int, seed: int) -> Tensor:
    """K-means centres of the distinct rows, at most half as many as these."""
    rows = np.unique(X.numpy(), axis=0)
    size = max(1, min(count, len(rows) // 2))
    return torch.as_tensor(KMeans(size, n_init=1, random_state=seed).fit(rows).cluster_centers_)


def _batches(n_rows: int, size: int, seed: int) -> Iterator[Any]:
    """Random rows of every step; all of them where they fit."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randperm(n_rows, generator=generator)[:size] if size < n_rows else slice(None)
