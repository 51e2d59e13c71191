"""Small models on the low-level interface: architecture, data and a model with random parameters, for any method."""

from dataclasses import dataclass
from itertools import pairwise

import torch

from sodgp.inference.contract import Batch, Inference, TrainingSet
from sodgp.likelihoods import Gaussian
from sodgp.linalg.draws import FreshDraws
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP

SIZE, REST, INPUTS, OUTPUTS = 8, 20, 2, 2


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fresh(seed, n_samples, dtype=torch.float64):
    return FreshDraws(torch.Generator().manual_seed(seed), n_samples, dtype=dtype)


@dataclass
class Case:
    """A method, its model, and the data it was built for."""

    method: Inference
    architecture: Architecture
    model: DeepGP
    data: TrainingSet

    @property
    def batch(self):
        """All rows."""
        tensors = (self.data.X_s, self.data.y_s, self.data.X_r, self.data.y_r)
        return Batch(*(t.unsqueeze(-3) for t in tensors), scale=1.0)

    @property
    def subset(self):
        """X_s and y_s with the sample axis."""
        return self.batch.X_s, self.batch.y_s

    def predictor(self, draws):
        return self.method.predictor(self.model, *self.subset, draws)


def case(method, n_layers=2, *, likelihood=None, kernel="rbf", width=2, dtype=torch.float64, **options):
    """A model with random parameters near the initial ones, as after a fit: nothing requires a gradient."""
    X, y = randn(0, SIZE + REST, INPUTS).to(dtype), randn(1, SIZE + REST, OUTPUTS).to(dtype)
    size = SIZE if method.uses_subset else 0
    widths = [INPUTS, *(width,) * (n_layers - 1)]
    weights = [torch.eye(a, b, dtype=dtype) for a, b in pairwise(widths)]
    architecture = Architecture(
        INPUTS, OUTPUTS, SIZE, weights, kernel=kernel, likelihood=likelihood or Gaussian(), dtype=dtype, **options
    )
    data = TrainingSet(X[:size], y[:size], X[size:], y[size:])
    model = method.build(architecture, data, torch.Generator().manual_seed(2))
    with torch.no_grad():
        for index, (name, values) in enumerate(model.named_parameters()):
            noise = 0.2 * randn(10 + index, *values.shape).to(values)
            values.add_(noise.tril() if name.endswith("q_factor") else noise)
        for name, values in model.named_buffers():
            if name.endswith("posterior_draws"):
                values.copy_(randn(99, *values.shape))
    return Case(method, architecture, model.eval().requires_grad_(False), data)
