"""Several classes: probabilities are the softmax of one latent function for each class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.likelihoods.contract import Elementwise, Likelihood, NaturalSites, RowLikelihood, Sizes
from sodgp.likelihoods.dirichlet import softmax_of_draws
from sodgp.likelihoods.latent import LatentLikelihood, LatentOptions, LatentRows, start_of
from sodgp.linalg.draws import Draws
from sodgp.predictive.classes import ClassDistribution
from sodgp.system.validation import check_integer

__all__ = ["Softmax", "SoftmaxLikelihood"]

# Share of a class at which the initial offset begins.
_SMALLEST_SHARE = 1e-3

# For every row, the density being that of all K outputs.
PerRowValues = Float[Tensor, "*batch N 1"]


@dataclass(frozen=True, kw_only=True)
class Softmax(LatentOptions):
    """K classes, labels as rows of zeros and a one: p(y = k | f) = softmax(f + offset)_k.

    Expectations over the K independent Gaussians of f are averages over draws, the same number for every Monte Carlo
    sample of the hidden layers.

    Parameters
    ----------
    n_pairs : int
        Pairs of draws of f for every sample; those of a pair lie on opposite sides of the mean.

    Examples
    --------
    >>> Softmax().build(Sizes(subset=5, input_dim=2, n_outputs=3)).n_parameters
    3
    """

    n_pairs: int = 2

    name: ClassVar[str] = "softmax"
    targets: ClassVar[str] = "classes"

    def __post_init__(self) -> None:
        check_integer("n_pairs", self.n_pairs, minimum=1)

    def outputs(self, n_classes: int) -> int:
        """A latent function for each class."""
        return n_classes

    def build(self, sizes: Sizes) -> Likelihood:
        """The module; its offset starts at the logs of the shares of the classes."""
        return SoftmaxLikelihood(start_of(sizes, lambda share: share.clamp_min(_SMALLEST_SHARE).log()), self.n_pairs)


class SoftmaxLikelihood(LatentLikelihood):
    """The module of K classes.

    Parameters
    ----------
    start : Tensor of shape [*replicates, K]
        Initial offset.
    n_pairs : int
        Pairs of draws.
    """

    def __init__(self, start: Float[Tensor, "*replicates P"], n_pairs: int) -> None:
        super().__init__(start)
        self.n_pairs = n_pairs

    def rows(self, draws: Draws) -> RowLikelihood:
        """As in `LatentLikelihood`."""
        return SoftmaxRows(self.offset[..., None, None, :], self.n_pairs, draws)


class SoftmaxRows(LatentRows):
    """log p = f_y + offset_y - log sum_k exp(f_k + offset_k)."""

    def __init__(self, offset: Float[Tensor, "*batch 1 1 P"], n_pairs: int, draws: Draws) -> None:
        self.offset, self.n_pairs, self.draws = offset, n_pairs, draws

    def log_density(self, y: Elementwise, f: Elementwise) -> PerRowValues:
        """As in `RowLikelihood`, for all outputs of a row together."""
        f = f + self.offset
        return (y * f).sum(-1, keepdim=True) - f.logsumexp(-1, keepdim=True)

    def expected(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> PerRowValues:
        """m_y + offset_y - E log sum_k exp(f_k + offset_k)."""
        normaliser = (self._drawn(mean, variance) + self.offset).logsumexp(-1, keepdim=True).mean(0)
        return (y * (mean + self.offset)).sum(-1, keepdim=True) - normaliser

    def log_predictive_density(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> PerRowValues:
        """As in `RowLikelihood`: the log of the mean over the draws."""
        values = self.log_density(y, self._drawn(mean, variance))
        return values.logsumexp(0) - math.log(len(values))

    def natural_sites(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> NaturalSites:
        """lambda_2 = E[p_k (1 - p_k)], lambda_1 = E[1{y = k} - p_k] + lambda_2 m_k."""
        with torch.no_grad():
            p = (self._drawn(mean, variance) + self.offset).softmax(-1)
            lambda_2 = (p * (1.0 - p)).mean(0)
            return NaturalSites(self.counted(y - p.mean(0) + lambda_2 * mean), self.counted(lambda_2))

    def predictive(self, mean: Float[Tensor, "T N P"], variance: Float[Tensor, "#T #N P"]) -> ClassDistribution:
        """E softmax(f + offset) over quasi-random draws."""
        return softmax_of_draws(mean + self.offset.flatten(0, -2), variance.expand_as(mean))

    def _drawn(self, mean: Elementwise, variance: Elementwise) -> Float[Tensor, "S *batch N P"]:
        """Draws of f on a new axis in front, [2 n_pairs, ..., T, N, K]."""
        rows, width = mean.shape[-2:]
        normal = self.draws.rest(rows, width * self.n_pairs).unflatten(-1, (self.n_pairs, width)).movedim(-2, 0)
        # The square root of a variance of zero would have no gradient.
        deviation = variance.clamp_min(1e-12).sqrt() * normal
        return torch.cat([mean + deviation, mean - deviation])
