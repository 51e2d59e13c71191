"""A model on noisy rows for the tests of likelihoods, built without an estimator."""

import numpy as np
import torch
from helpers import predict_as_batch
from problems import randn

from sodgp.inference.contract import Batch, TrainingSet
from sodgp.likelihoods import Gaussian
from sodgp.linalg.cholesky import Jitter
from sodgp.linalg.draws import FreshDraws
from sodgp.model.architecture import Architecture, linear_weights


def problem(method, likelihood=None, *, rows=24, size=10, n_layers=2, jitter=None):
    """Model and batch on noisy rows, untrained."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(rows, 2))
    y = np.sin(X[:, 0]) + 0.2 * np.exp(X[:, 1]) * rng.normal(size=rows)
    X, y = (torch.from_numpy((values - values.mean(0)) / values.std(0)) for values in (X, y[:, None]))
    size = size if method.uses_subset else 0
    architecture = Architecture(
        2,
        1,
        size or 10,
        linear_weights(X, [2] * (n_layers - 1)),
        likelihood=likelihood or Gaussian(),
        jitter=jitter or Jitter(),
    )
    data = TrainingSet(X[:size], y[:size], X[size:], y[size:])
    model = method.build(architecture, data, torch.Generator().manual_seed(0))
    return model, Batch(*(t[None] for t in (data.X_s, data.y_s, data.X_r, data.y_r)), scale=1.0)


def shake(model, scale=0.3):
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.add_(scale * randn(index, *parameter.shape))


def draws(n_samples=4):
    return FreshDraws(torch.Generator().manual_seed(5), n_samples)


def rest_moments(method, model, batch, n_samples=4):
    """Mean and variance of f at the rest, with the draws of `terms`."""
    if method.uses_subset:
        return predict_as_batch(method, model, batch.X_s, batch.y_s, batch.X_b, draws(n_samples))
    return method.predictor(model, batch.X_s, batch.y_s, draws(n_samples)).rows(batch.X_b, draws(n_samples))
