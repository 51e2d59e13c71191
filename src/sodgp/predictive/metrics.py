"""Scores of a predictive distribution against observations, in the units of the distribution.

Every function takes the observations, [N] or [N, P] in any container, and the predictive distribution of the same rows.
A score is the mean over all rows and outputs. Observations that do not fit the distribution, hold NaN or are empty
raise InputError.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import InputError
from sodgp.predictive.counts import CountMixture
from sodgp.predictive.density import tail_probability
from sodgp.predictive.derived import Derived
from sodgp.predictive.mixture import GaussianMixture
from sodgp.predictive.weighted import WeightedMixture
from sodgp.system.validation import Numbers, to_array

# Distributions of numbers; those of classes have their scores in `sodgp.evaluation`.
Numeric = GaussianMixture | WeightedMixture | Derived

__all__ = ["coverage", "crps", "nlpp", "pit", "rmse", "scores"]


def nlpp(y: Numbers, dist: Numeric) -> float:
    """Mean negative log predictive density, ``-mean_n log p(y_n)`` with ``p`` the mixture; smaller is better.

    Examples
    --------
    >>> dist = GaussianMixture([[0.0, 0.0]], [[1.0, 1.0]])
    >>> round(nlpp([0.0, 1.0], dist), 4)
    1.1689
    """
    return -float(np.mean(dist.log_prob(_observations(y, dist))))


def rmse(y: Numbers, dist: Numeric | Numbers) -> float:
    """Root mean squared error of the predictive mean, ``sqrt(mean_n (y_n - mean_n)^2)``; `dist` may be the means.

    Examples
    --------
    >>> rmse([3.0, -3.0], [0.0, 0.0])
    3.0
    """
    if not isinstance(dist, Numeric):
        # Only the distribution decides which shapes fit.
        mean = to_array(dist, "predicted means")[None]
        dist = GaussianMixture(mean, np.ones_like(mean))
    residual = _observations(y, dist) - dist.mean
    return float(np.sqrt(np.mean(np.square(residual))))


def crps(y: Numbers, dist: Numeric) -> float:
    """Mean continuous ranked probability score, exact for the mixture; in the units of y, smaller is better.

    Examples
    --------
    >>> round(crps([0.0], GaussianMixture([[0.0]], [[1.0]])), 4)
    0.2337
    """
    return float(np.mean(dist.crps(_observations(y, dist))))


def pit(y: Numbers, dist: Numeric) -> NDArray[np.float64]:
    """Probability integral transform, [N] or [N, P]: the cdf at the observations, uniform if the distribution is right.

    That of counts is randomised with fixed numbers, since the cdf of a discrete variable is never uniform.

    Examples
    --------
    >>> pit([0.0], GaussianMixture([[0.0]], [[1.0]]))
    array([0.5])
    """
    observations = _observations(y, dist)
    return dist.pit(observations, random_state=0) if isinstance(dist, CountMixture) else dist.cdf(observations)


def coverage(y: Numbers, dist: Numeric, level: float = 0.9) -> float:
    """Share of the observations inside the central interval of probability `level`; ideally equal to it.

    Examples
    --------
    >>> coverage([0.0, 1.0, 2.0, 3.0], GaussianMixture([[0.0] * 4], [[1.0] * 4]), level=0.95)
    0.5
    """
    return _share_inside(pit(y, dist), level)


def scores(y: Numbers, dist: Numeric) -> dict[str, float]:
    """``nlpp``, ``rmse``, ``crps``, and ``coverage_50``, ``coverage_80``, ``coverage_90``, ``coverage_95``.

    Examples
    --------
    >>> sorted(scores([0.0], GaussianMixture([[0.0]], [[1.0]])))
    ['coverage_50', 'coverage_80', 'coverage_90', 'coverage_95', 'crps', 'nlpp', 'rmse']
    """
    p = pit(y, dist)
    result = {"nlpp": nlpp(y, dist), "rmse": rmse(y, dist), "crps": crps(y, dist)}
    return result | {f"coverage_{percent}": _share_inside(p, percent / 100) for percent in (50, 80, 90, 95)}


def _observations(y: Numbers, dist: Numeric) -> NDArray[np.float64]:
    """Observations in the distribution's shape; unlike its methods, a score needs one per row."""
    if len(dist) == 0 or np.ndim(to_array(y, "y")) == 0:
        raise InputError(f"a score needs one observation for each row, and at least one; got {y!r} for {dist!r}")
    return dist.align(y)


def _share_inside(p: NDArray[np.float64], level: float) -> float:
    # y lies in the central interval exactly if its cdf lies between the tails: no quantile is needed.
    tail = tail_probability(level)
    return float(np.mean((p >= tail) & (p <= 1 - tail)))
