"""Classification as regression with known noise: the Dirichlet transform of labels.

A label is a draw of class probabilities pi ~ Dirichlet(alpha_1, ..., alpha_K), where alpha_k is 1 + alpha for the
observed class and alpha for the others. In terms of independent gamma variables, pi_k = x_k / sum_j x_j, and each x_k
is approximated by the log-normal variable with its mean and variance. The logs are then Gaussian observations of K
latent functions with known noise::

    sigma^2_nk = log(1 / alpha_nk + 1)          y_nk = log(alpha_nk) - sigma^2_nk / 2

Predictions are E softmax(f), the noise left out.

References
----------
Milios, Camoriano, Michiardi, Rosasco, Filippone (2018). Dirichlet-based Gaussian processes for large-scale calibrated
classification. NeurIPS 31.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.likelihoods.contract import Elementwise, Likelihood, PerRow, RestInputs, RowLikelihood, Sizes, SubsetInputs
from sodgp.likelihoods.gaussian import GaussianRows
from sodgp.likelihoods.known_noise import KnownNoise, KnownNoiseLikelihood
from sodgp.linalg.draws import Draws
from sodgp.predictive.classes import ClassDistribution
from sodgp.system.parameters import Parameters
from sodgp.system.validation import FloatArray, check_positive

__all__ = ["Dirichlet", "DirichletLikelihood", "DirichletNoise"]

# Draws of f behind class probabilities, at least.
_DRAWS = 256


@dataclass(frozen=True, kw_only=True)
class Dirichlet(Parameters):
    """Labels become Gaussian observations of one latent function for each class, with known noise.

    The bound is closed and no more expensive than that of regression with K outputs. The probabilities are those of an
    approximation, and its only parameter is not trained.

    Parameters
    ----------
    alpha : float
        Prior count of every class. Small values follow the labels closely, large ones shrink to 1 / K. The paper has
        0.01; by cross-validation on noisy labels 0.1 was better (``docs/classification.md``).

    Examples
    --------
    >>> y, variance = Dirichlet(alpha=0.01).transformed(np.eye(2))
    >>> y.round(2).tolist(), variance.round(2).tolist()
    ([[-0.33, -6.91], [-6.91, -0.33]], [[0.69, 4.62], [4.62, 0.69]])
    """

    alpha: float = 0.1

    name: ClassVar[str] = "dirichlet"
    is_plain: ClassVar[bool] = False
    is_conjugate: ClassVar[bool] = True
    uses_subset: ClassVar[bool] = True
    targets: ClassVar[str] = "classes"

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)

    def outputs(self, n_classes: int) -> int:
        """A latent function for each class."""
        return n_classes

    def transformed(self, one_hot: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Observations and their noise variances, both [N, K], of labels as rows of zeros and a one."""
        counts = one_hot + self.alpha
        variance = np.log1p(1.0 / counts)
        return np.log(counts) - 0.5 * variance, variance

    def with_noise(self, variance: Float[Tensor, " K"], precision: Float[Tensor, "M K"]) -> DirichletNoise:
        """The likelihood of transformed labels, whose noise is known."""
        return DirichletNoise(outlier_probability=0.0, variance=variance, precision=precision)

    def build(self, sizes: Sizes) -> Likelihood:
        """The module, in which nothing is trained, before its noise is known."""
        return DirichletNoise().build(sizes)


@dataclass(frozen=True, kw_only=True)
class DirichletNoise(KnownNoise):
    """The known noise of transformed labels, made by `Dirichlet.with_noise`."""

    name: ClassVar[str] = "dirichlet"
    targets: ClassVar[str] = "classes"

    def _module(
        self, variance: Float[Tensor, "*replicates P"], precision: Float[Tensor, "*replicates M P"]
    ) -> DirichletLikelihood:
        return DirichletLikelihood(variance, precision)


class DirichletLikelihood(KnownNoiseLikelihood):
    """The module of transformed labels: known noise, and predictions that are class probabilities."""

    def at(
        self, X_s: SubsetInputs, X: RestInputs, draws: Draws, precision: PerRow | None = None
    ) -> tuple[RowLikelihood, RowLikelihood]:
        """As in `KnownNoiseLikelihood`; without `precision` the other rows are new."""
        subset, rest = super().at(X_s, X, draws, precision)
        new: RowLikelihood = cast(RowLikelihood, NewRows(self)) if precision is None else rest
        return subset, new


class NewRows(GaussianRows):
    """Rows whose labels are to be predicted."""

    def predictive(self, mean: Elementwise, variance: Elementwise) -> ClassDistribution:  # type: ignore[override]
        """E softmax(f), for means and variances of f in the units of `Dirichlet.transformed`."""
        return softmax_of_draws(mean, variance)


def softmax_of_draws(mean: Float[Tensor, "T N K"], variance: Float[Tensor, "#T N K"]) -> ClassDistribution:
    """Class probabilities under quasi-random draws of f, the same standard normal numbers for every row.

    A row's prediction then depends on that row alone.

    Examples
    --------
    >>> softmax_of_draws(torch.zeros(1, 5, 3), torch.ones(1, 5, 3)).mean[0].round(2)
    array([0.33, 0.33, 0.33])
    """
    mean, std = mean.double().cpu(), variance.double().cpu().clamp_min(0.0).sqrt()
    T, _, K = mean.shape
    count = -(-_DRAWS // T)
    uniform = torch.quasirandom.SobolEngine(K, scramble=True, seed=0).draw(count * T, dtype=torch.float64)
    edge = torch.finfo(torch.float32).eps
    normal = torch.special.ndtri(uniform.clamp(edge, 1.0 - edge)).reshape(count, T, 1, K)
    p = torch.softmax(mean + std * normal, -1).flatten(0, 1)
    return ClassDistribution(p.mean(0), p)
