"""A predictive distribution whose cdf levels were moved by a calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

from sodgp.errors import InputError
from sodgp.predictive.calibration import Calibration
from sodgp.predictive.derived import Derived, panels
from sodgp.predictive.monotone import MonotoneMap
from sodgp.predictive.scores import normal_scores
from sodgp.system.validation import FloatArray, Numbers

__all__ = ["CalibratedDistribution"]

# Rows whose scores are computed at a time.
_BLOCK_ROWS = 10_000


class CalibratedDistribution(Derived):
    r"""Distribution with the cdf H(F(y)), F that of a model and H increasing.

    .. math:: p^*(y) = p(y)\, H'(F(y)), \qquad y^*_q = F^{-1}(H^{-1}(q)), \qquad H = \Phi \circ M \circ \Phi^{-1}

    Everything follows from it: density, quantiles, moments (by quadrature), draws. A draw keeps the ranks of a draw of
    the model, and with them the dependence between rows and outputs.

    Parameters
    ----------
    base : GaussianMixture, StudentMixture or TransformedMixture
    calibration : Calibration

    Examples
    --------
    >>> from sodgp.predictive.mixture import GaussianMixture
    >>> wider = Calibration((np.array([[-2.0, 2.0], [-1.0, 1.0]]),), n_rows=100, coverage_90=np.array([0.59]))
    >>> dist = CalibratedDistribution(GaussianMixture([[0.0]], [[1.0]]), wider)
    >>> dist.std.round(6), dist.quantile(0.975).round(3)
    (array([2.]), array([3.92]))
    """

    def __init__(self, base: Any, calibration: Calibration) -> None:
        super().__init__(base)
        if len(calibration.knots) != base.n_outputs:
            raise InputError(f"a calibration of {len(calibration.knots)} outputs does not fit {base!r}")
        self.calibration = calibration

    def _with(self, base: Any) -> CalibratedDistribution:
        return CalibratedDistribution(base, self.calibration)

    def around_mean(self, factor: float) -> CalibratedDistribution:
        """The distribution itself: what is calibrated is not scaled, and `factor` must be 1."""
        if factor != 1.0:
            raise InputError(f"a calibrated distribution is not scaled by {factor!r}; use 1")
        return self

    @classmethod
    def pool(cls, members: Sequence[Any]) -> CalibratedDistribution:
        """Not for calibrated distributions: their mixture is calibrated as a whole."""
        raise InputError("pool the distributions of the members first, and calibrate their mixture")

    def log_prob(self, y: Numbers) -> FloatArray:
        """Log density of every row and output at y, [N] or [N, P]."""
        at = self.align(y)
        scores = normal_scores(self.base, at)
        moved, log_slope = self._map(MonotoneMap.__call__, scores), self._map(MonotoneMap.log_slope, scores)
        # The ratio of normal densities at both scores.
        return np.asarray(self.base.log_prob(at) + log_slope + 0.5 * (scores - moved) * (scores + moved))

    def cdf(self, y: Numbers) -> FloatArray:
        """Probability of a value up to y, in the shape of `log_prob`."""
        return np.asarray(ndtr(self._map(MonotoneMap.__call__, normal_scores(self.base, self.align(y)))))

    def sf(self, y: Numbers) -> FloatArray:
        """Probability of a value above y, accurate where it is small."""
        return np.asarray(ndtr(-self._map(MonotoneMap.__call__, normal_scores(self.base, self.align(y)))))

    def quantile_at(self, scores: FloatArray) -> FloatArray:
        """Quantiles at levels of every row and output, as normal scores [..., N] or [..., N, P]."""
        return np.asarray(self.base.quantile_at(self._map(MonotoneMap.inverse, scores)))

    def sample(self, n_samples: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Draws, [n_samples, N] or [n_samples, N, P]: those of the model, moved to the calibrated levels."""
        return self.moved(self.base.sample(n_samples, random_state))

    def moved(self, draws: FloatArray) -> FloatArray:
        """Draws [n, N] or [n, N, P] of the model, each at the same level of the calibrated distribution."""
        # Many draws of few rows at a time.
        step = max(1, _BLOCK_ROWS // max(1, len(self)))
        scores = np.empty(draws.shape)
        for start in range(0, len(draws), step):
            some = draws[start : start + step]
            repeated = self.base if len(some) == 1 else self.base[np.tile(np.arange(len(self)), len(some))]
            scores[start : start + step] = normal_scores(repeated, some.reshape(-1, *self.shape[1:])).reshape(
                some.shape
            )
        return self.quantile_at(scores)

    @property
    def mean(self) -> FloatArray:
        """Mean, [N] or [N, P]."""
        return self._moments[0]

    @property
    def variance(self) -> FloatArray:
        """Variance, [N] or [N, P]."""
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance: those of the model, and integrals of the difference of both cdfs, by parts."""
        centre, first, second = self.base.mean, np.zeros(self.shape), np.zeros(self.shape)
        for x, weight, _ in panels(self, centre, self.base):
            scores = normal_scores(self.base, x)
            difference = weight * (ndtr(scores) - ndtr(self._map(MonotoneMap.__call__, scores)))
            first += difference
            second += 2.0 * (x - centre) * difference
        variance = self.base.variance + second - first**2
        return centre + first, np.maximum(variance, np.finfo(np.float64).tiny)

    def _map(self, function: Callable[[MonotoneMap, FloatArray], FloatArray], values: FloatArray) -> FloatArray:
        """A function of the map of every output, of values [..., N] or [..., N, P]."""
        maps = self.calibration.maps
        with np.errstate(invalid="ignore"):
            if len(self.shape) == 1:
                return function(maps[0], values)
            return np.stack([function(each, values[..., p]) for p, each in enumerate(maps)], axis=-1)
