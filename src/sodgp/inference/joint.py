"""Joint distributions of f as smooth functions of a few rows, for optimisers of inputs.

Given draws of its hidden layers, a deep GP is a mixture of T Gaussians over any rows. With fixed random numbers, mean
and covariance of every component can be differentiated with respect to the rows.
"""

from __future__ import annotations

from jaxtyping import Float
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
        Without replicates.
    method : Inference
        The method that trained the model.
    X_s, y_s, weight_s : Tensor of shape [1, M, D], [1, M, P] and [1, M, 1]
        The subset; empty where the method has none.
    n_samples : int
        Components T of the mixture.
    seed : int
        Of all random numbers.
    """

    def __init__(
        self,
        model: DeepGP,
        method: Inference,
        X_s: Float[Tensor, "1 M D"],
        y_s: Float[Tensor, "1 M P"],
        weight_s: Float[Tensor, "1 M 1"] | None = None,
        *,
        n_samples: int,
        seed: int,
    ) -> None:
        self.n_samples, self.seed = n_samples, seed
        self._model, self._X_s = model, X_s
        self._predictor = method.predictor(model, X_s, y_s, self._draws(X_s, seed), weight_s)

    def __call__(
        self, X: Float[Tensor, "*batch N D"]
    ) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T P N N"]]:
        """Mean and covariance of f over the N rows of every batch, in scaled units."""
        mean, full = self._predictor.joint(X.unsqueeze(-3), self._draws(X, self.seed))
        shape = (*X.shape[:-2], self.n_samples)
        return mean.expand(*shape, *mean.shape[-2:]), full.expand(*shape, *full.shape[-3:])

    def noise_variance(self, X: Float[Tensor, "*batch N D"]) -> Float[Tensor, "*#batch #T #N P"]:
        """Noise variances of observations, at fixed random numbers where they are random."""
        _, p = self._model.likelihood.at(self._X_s, X.unsqueeze(-3), self._draws(X, self.seed + 1))
        return p.noise_variance(drawn=False)

    def _draws(self, like: Tensor, seed: int) -> PositionDraws:
        return PositionDraws(seed, self.n_samples, dtype=like.dtype, device=like.device)
