"""Joint distributions of f as smooth functions of a few rows, for optimisers of inputs.

A deep GP given the draws of its hidden layers is a mixture of T Gaussians over any rows. Where the random numbers of a
mixture are fixed once, mean and covariance of every component can be differentiated with respect to the rows.
"""

from __future__ import annotations

from torch import Tensor

from sodgp.inference.contract import Inference
from sodgp.linalg.draws import PositionDraws
from sodgp.model.deep_gp import DeepGP

__all__ = ["JointDistribution"]


class JointDistribution:
    """Mean and covariance of f over the rows of every batch, for each Monte Carlo sample.

    Parameters
    ----------
    model : DeepGP
        One model, without replicates.
    method : Inference
        That trained it.
    X_s, y_s : Tensor of shape [1, M, D] and [1, M, P]
        The subset; empty where the method has none.
    n_samples : int
        Components T of the mixture.
    seed : int
        Of every random number.
    """

    def __init__(
        self, model: DeepGP, method: Inference, X_s: Tensor, y_s: Tensor, *, n_samples: int, seed: int
    ) -> None:
        self.n_samples, self.seed = n_samples, seed
        self._model, self._X_s = model, X_s
        self._predictor = method.predictor(model, X_s, y_s, self._draws(X_s, seed))

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean [*batch, T, q, P] and covariance [*batch, T, P, q, q] at rows [*batch, q, D], in scaled units."""
        mean, full = self._predictor.joint(X.unsqueeze(-3), self._draws(X, self.seed))
        shape = (*X.shape[:-2], self.n_samples)
        return mean.expand(*shape, *mean.shape[-2:]), full.expand(*shape, *full.shape[-3:])

    def noise_variance(self, X: Tensor) -> Tensor:
        """Noise variances that broadcast to [*batch, T, q, P], with fixed numbers where they vary."""
        _, p = self._model.likelihood.at(self._X_s, X.unsqueeze(-3), self._draws(X, self.seed + 1))
        return p.noise_variance(drawn=False)

    def _draws(self, like: Tensor, seed: int) -> PositionDraws:
        return PositionDraws(seed, self.n_samples, dtype=like.dtype, device=like.device)
