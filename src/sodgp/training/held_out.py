"""Rows that training never sees, and how well the current model predicts them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sodgp.inference.contract import Inference
from sodgp.linalg.draws import SharedDraws
from sodgp.model.deep_gp import DeepGP
from sodgp.predictive.density import log_mixture
from sodgp.training.batches import Batcher

# Rows that are predicted at once.
_CHUNK = 500


@dataclass(frozen=True)
class HeldOut:
    """Rows X [V, D] and y [V, P] in scaled units to judge a model by, always with the same prediction draws.

    `weight` [V, 1] is how many observations each row stands for. `log_scale`, the sum over outputs of the log of the
    targets' scale, converts a log density to original units.
    """

    X: Tensor
    y: Tensor
    log_scale: float
    seed: int
    n_samples: int
    weight: Tensor | None = None

    def judge(self, inference: Inference, model: DeepGP, batcher: Batcher) -> Callable[[], float]:
        """A function that returns the current mean log predictive density of a row, in original units."""
        device = batcher.data.X_r.device
        X, y = self.X.to(device), self.y.to(device)
        weight = torch.ones_like(y[:, 0]) if self.weight is None else self.weight[:, 0].to(y)
        count = math.fsum(weight.tolist())

        def score() -> float:
            was_training = model.training
            model.eval()
            try:
                with torch.no_grad():
                    total = math.fsum(
                        float((weight[rows] * self._log_density(inference, model, batcher, X[rows], y[rows])).sum())
                        for rows in torch.arange(len(X), device=device).split(_CHUNK)
                    )
            finally:
                model.train(was_training)
            return total / count - self.log_scale

        return score

    def _log_density(self, inference: Inference, model: DeepGP, batcher: Batcher, X: Tensor, y: Tensor) -> Tensor:
        """Log of the mixture's density at every row, jointly over outputs, [rows]."""
        draws = SharedDraws(self.seed, self.n_samples, dtype=X.dtype, device=X.device)
        X_s, y_s, weight = inference.given(batcher.data)
        weight = None if weight is None else weight.unsqueeze(0)
        X_s, y_s, rows, y = (t.unsqueeze(0) for t in (X_s, y_s, X, y))
        # As in predictions, rows begin with the first numbers, whatever the predictor has used.
        own = SharedDraws(self.seed, self.n_samples, dtype=X.dtype, device=X.device)
        mean, variance = inference.predictor(model, X_s, y_s, own, weight).rows(rows, draws)
        _, p = model.likelihood.at(X_s, rows, draws)
        # Outputs are independent given the sample, so that the mixture is over whole rows.
        each = p.log_predictive_density(y, mean, variance).double().sum(-1, keepdim=True)
        return log_mixture(each).squeeze(-1)
