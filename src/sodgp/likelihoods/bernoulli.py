"""Two classes: y is 1 with a probability that grows with f."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from sodgp.errors import InputError
from sodgp.likelihoods.contract import Elementwise, Likelihood, RowLikelihood, Sizes
from sodgp.likelihoods.latent import QuadratureLikelihood, QuadratureOptions, QuadratureRows, Values, start_of
from sodgp.likelihoods.quadrature import Rule, expectation, nodes_under
from sodgp.linalg.draws import Draws
from sodgp.predictive.classes import ClassDistribution
from sodgp.system.validation import check_choice

__all__ = ["Bernoulli", "BernoulliLikelihood"]

LINKS = ("logit", "probit")
# Shares of a class at which the initial offset begins.
_SMALLEST_SHARE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Bernoulli(QuadratureOptions):
    """Two classes, labels 0 and 1: p(y = 1 | f) = s(f + offset), s the logistic function or the normal cdf.

    With the probit link log E p is closed; all else is quadrature.

    Parameters
    ----------
    link : {"logit", "probit"}
    quadrature_order : int
        As in `QuadratureOptions`.

    Examples
    --------
    >>> likelihood = Bernoulli(link="probit").build(Sizes(subset=5, input_dim=2, n_outputs=1))
    >>> likelihood.n_parameters, likelihood.noise_variance is None
    (1, True)
    """

    link: str = "logit"

    name: ClassVar[str] = "bernoulli"
    targets: ClassVar[str] = "classes"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("link", self.link, LINKS)

    def build(self, sizes: Sizes) -> Likelihood:
        """The module; its offset starts at the share of the second class."""
        return BernoulliLikelihood(start_of(sizes, self._inverse), self.link, self.quadrature_order)

    def outputs(self, n_classes: int) -> int:
        """One latent function; InputError for more than two classes."""
        if n_classes != 2:
            raise InputError(
                f"likelihood={self.name!r} is of two classes, and y has {n_classes}: use likelihood='softmax', or None."
            )
        return 1

    def _inverse(self, share: Tensor) -> Tensor:
        share = share.clamp(_SMALLEST_SHARE, 1.0 - _SMALLEST_SHARE)
        return share.logit() if self.link == "logit" else torch.special.ndtri(share)


class BernoulliLikelihood(QuadratureLikelihood):
    """The module of two classes.

    Parameters
    ----------
    start : Tensor of shape [*replicates, 1]
        Initial offset.
    link : {"logit", "probit"}
    order : int
        Of the quadrature.
    """

    def __init__(self, start: Float[Tensor, "*replicates P"], link: str, order: int) -> None:
        super().__init__(start, order)
        self.link = link

    def rows(self, draws: Draws) -> RowLikelihood:
        """As in `LatentLikelihood`."""
        offset = self.offset[..., None, None, :]
        kind = LogitRows if self.link == "logit" else ProbitRows
        return kind(offset, self.rule, draws)


class LogitRows(QuadratureRows):
    """log p = log sigmoid(+-(f + offset))."""

    def __init__(self, offset: Float[Tensor, "*batch 1 1 P"], rule: Rule, draws: Draws) -> None:
        super().__init__(rule)
        self.offset, self.draws = offset, draws

    def log_density(self, y: Elementwise, f: Elementwise) -> Values:
        """As in `RowLikelihood`."""
        return logsigmoid((2.0 * y - 1.0) * (f + self.offset))

    def probability(self, f: Elementwise) -> Values:
        """P(y = 1 | f)."""
        return torch.sigmoid(f + self.offset)

    def mean_probability(self, mean: Elementwise, variance: Elementwise) -> Values:
        """E p(y = 1 | f)."""
        f, log_weights = nodes_under(mean, variance, self.rule)
        return expectation(self.probability(f), log_weights)

    def predictive(self, mean: Float[Tensor, "T N 1"], variance: Float[Tensor, "#T #N 1"]) -> ClassDistribution:
        """Probabilities of both classes, whose draws have the random numbers of a draw of f each."""
        p = self.mean_probability(mean, variance).mean(0)
        normal = self.draws.rest(mean.shape[-2], 1)
        each = self.probability(mean + variance.clamp_min(0.0).sqrt() * normal)
        return ClassDistribution(torch.cat([1.0 - p, p], -1), torch.cat([1.0 - each, each], -1))


class ProbitRows(LogitRows):
    """log p = log Phi(+-(f + offset)), with Phi the cdf of the standard normal distribution."""

    def log_density(self, y: Elementwise, f: Elementwise) -> Values:
        """As in `RowLikelihood`."""
        return torch.special.log_ndtr((2.0 * y - 1.0) * (f + self.offset))

    def probability(self, f: Elementwise) -> Values:
        """As in `LogitRows`."""
        return 0.5 * torch.erfc(-math.sqrt(0.5) * (f + self.offset))

    def log_predictive_density(self, y: Elementwise, mean: Elementwise, variance: Elementwise) -> Values:
        """Log Phi(+-(mean + offset) / sqrt(1 + variance))."""
        return torch.special.log_ndtr((2.0 * y - 1.0) * (mean + self.offset) / (1.0 + variance).sqrt())

    def mean_probability(self, mean: Elementwise, variance: Elementwise) -> Values:
        """Phi((mean + offset) / sqrt(1 + variance))."""
        return 0.5 * torch.erfc(-math.sqrt(0.5) * (mean + self.offset) / (1.0 + variance).sqrt())
