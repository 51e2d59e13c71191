"""Normal scores of observations under a predictive distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from sodgp.system.validation import FloatArray, Numbers

__all__ = ["MAX_SCORE", "normal_scores"]

MAX_SCORE = 37.5
"""Scores beyond have a tail probability that float64 cannot hold."""


def normal_scores(dist: Any, y: Numbers) -> FloatArray:
    """The standard normal quantiles of F(y), accurate in both tails; within `MAX_SCORE`.

    Examples
    --------
    >>> from sodgp.predictive.mixture import GaussianMixture
    >>> normal_scores(GaussianMixture([[0.0, 0.0]], [[1.0, 1.0]]), [-20.0, 30.0])
    array([-20.,  30.])
    """
    below, above = dist.cdf(y), dist.sf(y)
    scores = np.where(below < above, ndtri(below), -ndtri(above))
    return np.asarray(scores.clip(-MAX_SCORE, MAX_SCORE))
