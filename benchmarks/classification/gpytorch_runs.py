"""GPyTorch's variational GP and its deep GP for classes, as its documentation builds them, trained by Adam in float64.

The variational GP is that of "Non-Gaussian Likelihoods" with the inducing points of "SVGP", the deep one that of "Deep
Gaussian Processes" with a Bernoulli or softmax likelihood in the place of the Gaussian: two classes have one latent
function, K classes have K.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import BernoulliLikelihood, Likelihood, SoftmaxLikelihood
from gpytorch.means import ConstantMean
from gpytorch.mlls import DeepApproximateMLL, VariationalELBO
from gpytorch.models import ApproximateGP
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    IndependentMultitaskVariationalStrategy,
    VariationalStrategy,
)
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from benchmarks.paper.splits import Split
from benchmarks.paper.tutorial import TutorialLayer
from benchmarks.time_to_accuracy.clock import Clock
from sodgp.system.validation import FloatArray

__all__ = ["deep_gp", "variational"]

_CHUNK_ROWS = 256
Predict = Callable[[FloatArray], FloatArray]


class _Variational(ApproximateGP):
    """A sparse GP with a trained q(U), for each latent function."""

    def __init__(self, Z: Tensor, functions: int) -> None:
        shape = torch.Size([] if functions == 1 else [functions])
        q = CholeskyVariationalDistribution(len(Z), batch_shape=shape)
        strategy: Any = VariationalStrategy(self, Z.expand(*shape, *Z.shape).clone(), q, learn_inducing_locations=True)
        if functions > 1:
            strategy = IndependentMultitaskVariationalStrategy(strategy, num_tasks=functions)
        super().__init__(strategy)
        self.mean_module, self.covar_module = ConstantMean(batch_shape=shape), _kernel(Z.shape[-1], shape)

    def forward(self, x: Tensor) -> MultivariateNormal:
        """Prior at x."""
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


def _kernel(dims: int, shape: torch.Size) -> Kernel:
    """One lengthscale for each input, which start where ours do."""
    kernel = ScaleKernel(RBFKernel(ard_num_dims=dims, batch_shape=shape), batch_shape=shape)
    kernel.base_kernel.lengthscale = dims**0.5
    return kernel


class _Deep(gpytorch.models.deep_gps.DeepGP):
    """The tutorial's hidden layers, and as many last functions as the likelihood needs."""

    def __init__(self, dims: list[int], functions: int, num_inducing: int) -> None:
        super().__init__()
        # A layer without a number of outputs is the tutorial's last one; one with a number has a linear mean.
        outputs: list[int | None] = [*dims[1:], None if functions == 1 else functions]
        self.layers = torch.nn.ModuleList(
            TutorialLayer(d_in, d_out, num_inducing) for d_in, d_out in zip(dims, outputs, strict=True)
        )
        if functions > 1:
            self.layers[-1].mean_module = ConstantMean(batch_shape=torch.Size([functions]))

    def forward(self, inputs: Tensor) -> Any:
        """Through all layers, one sample at each."""
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs


def variational(split: Split, options: dict[str, Any], seed: int) -> Predict:
    """Sparse variational GP with inducing points that start at k-means centres."""
    scaler, X, y, likelihood, functions = _prepared(split, seed)
    rows = np.unique(X.numpy(), axis=0)
    size = max(1, min(options["inducing"], len(rows) // 2))
    Z = torch.as_tensor(KMeans(size, n_init=1, random_state=seed).fit(rows).cluster_centers_)
    model = _Variational(Z, functions).double()
    _train(model, likelihood, VariationalELBO(likelihood, model, len(y)), X, y, options, seed, 10)
    return _predictor(model, likelihood, scaler, 50)


def deep_gp(split: Split, options: dict[str, Any], seed: int) -> Predict:
    """The deep GP of GPyTorch's tutorial."""
    scaler, X, y, likelihood, functions = _prepared(split, seed)
    dims = [X.shape[1], *[min(30, X.shape[1])] * (options["n_layers"] - 1)]
    model = _Deep(dims, functions, min(options["inducing"], len(y))).double()
    mll = DeepApproximateMLL(VariationalELBO(likelihood, model, len(y)))
    _train(model, likelihood, mll, X, y, options, seed, options["n_samples"])
    return _predictor(model, likelihood, scaler, options["n_predict"])


def _prepared(split: Split, seed: int) -> tuple[StandardScaler, Tensor, Tensor, Likelihood, int]:
    torch.manual_seed(seed)
    scaler = StandardScaler().fit(split.X_train)
    count = int(split.y_train.max()) + 1
    X = torch.as_tensor(scaler.transform(split.X_train))
    if count == 2:
        return scaler, X, torch.as_tensor(split.y_train), BernoulliLikelihood(), 1
    likelihood = SoftmaxLikelihood(num_classes=count, mixing_weights=None)
    return scaler, X, torch.as_tensor(split.y_train.astype(np.int64)), likelihood.double(), count


def _train(
    model: Any, likelihood: Any, mll: Any, X: Tensor, y: Tensor, options: dict[str, Any], seed: int, n_samples: int
) -> None:
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=options["learning_rate"])
    batch = _batches(len(y), options["batch_size"], seed)
    model.train()
    likelihood.train()
    with warnings.catch_warnings(), gpytorch.settings.num_likelihood_samples(n_samples):
        # Jitter that was added: GPyTorch says so and goes on.
        warnings.simplefilter("ignore", gpytorch.utils.warnings.NumericalWarning)
        clock = Clock()
        for _ in range(options["steps"]):
            if clock.seconds >= options["most_seconds"]:
                break
            rows = next(batch)
            optimizer.zero_grad()
            loss = -mll(model(X[rows]), y[rows])
            loss.backward()
            optimizer.step()


def _batches(n_rows: int, size: int, seed: int) -> Iterator[Any]:
    """Random rows of every step; all of them where they fit."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randperm(n_rows, generator=generator)[:size] if size < n_rows else slice(None)


def _predictor(model: Any, likelihood: Any, scaler: StandardScaler, n_samples: int) -> Predict:
    def predict(rows: FloatArray) -> FloatArray:
        """The mean over samples of the probabilities, rows in chunks."""
        model.eval()
        likelihood.eval()
        parts = []
        with torch.no_grad(), gpytorch.settings.num_likelihood_samples(n_samples):
            for part in torch.as_tensor(scaler.transform(rows)).split(_CHUNK_ROWS):
                p = likelihood(model(part)).probs
                is_binary = isinstance(likelihood, BernoulliLikelihood)
                kept = 1 if is_binary else 2
                p = p.reshape(-1, *p.shape[-kept:]).mean(0)
                parts.append(torch.stack([1.0 - p, p], -1) if is_binary else p)
        found: FloatArray = torch.cat(parts).numpy()
        return found

    return predict
