"""Rows that training never sees, and how well the model of the moment predicts them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sodgp.inference.contract import Inference
from sodgp.linalg.draws import SharedDraws
from sodgp.model.deep_gp import DeepGP
from sodgp.training.batches import Batcher

# Rows that are predicted at once.
_CHUNK = 500


@dataclass(frozen=True)
class HeldOut:
    """Rows to judge a model by, and how.

    Parameters
    ----------
    X, y : Tensor of shape [V, D] and [V, P]
        In scaled units.
    log_scale : float
        Sum over outputs of the log of the targets' scale: what takes a log density to original units.
    seed, n_samples : int
        Of the prediction's draws, the same at every look.
    """

    X: Tensor
    y: Tensor
    log_scale: float
    seed: int
    n_samples: int

    def judge(self, inference: Inference, model: DeepGP, batcher: Batcher) -> Callable[[], float]:
        """A function that gives the mean log predictive density of a row in original units, now."""
        device = batcher.data.X_r.device
        X, y = self.X.to(device), self.y.to(device)

        def score() -> float:
            was_training = model.training
            model.eval()
            try:
                with torch.no_grad():
                    total = math.fsum(
                        float(self._log_density(inference, model, batcher, X[rows], y[rows]).sum())
                        for rows in torch.arange(len(X), device=device).split(_CHUNK)
                    )
            finally:
                model.train(was_training)
            return total / len(X) - self.log_scale

        return score

    def _log_density(self, inference: Inference, model: DeepGP, batcher: Batcher, X: Tensor, y: Tensor) -> Tensor:
        """Log of the mixture's density at every row, all outputs together, [rows]."""
        draws = SharedDraws(self.seed, self.n_samples, dtype=X.dtype, device=X.device)
        X_s, y_s, rows = (t.unsqueeze(0) for t in (batcher.data.X_s, batcher.data.y_s, X))
        mean, variance = inference.predict(model, X_s, y_s, rows, draws)
        mean, variance = model.observed(mean, variance, X_s, rows, draws)
        each = -0.5 * (math.log(2.0 * math.pi) + variance.log() + (y - mean).square() / variance)
        # One output is independent of another given the sample, with a level of the noise of its own: the mixture over
        # the samples is over whole rows.
        levels = model.n_noise_levels
        each = (each.double().unflatten(0, (levels, -1)).logsumexp(0) - math.log(levels)).sum(-1)
        # One layer with the same noise everywhere has a single component, whatever the number of samples.
        return torch.logsumexp(each, 0) - math.log(len(each))
