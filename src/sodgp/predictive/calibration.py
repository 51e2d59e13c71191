"""Recalibration on rows kept apart: cdf levels that are right in finite samples, and class probabilities by a power.

With u_i = F_i(y_i) the cdf of n calibration rows at their observations, in ascending order u_(1) <= ... <= u_(n), and a
new row that is exchangeable with them, P(u <= u_(k)) >= k / (n + 1) and P(u < u_(k)) <= k / (n + 1). So the quantile of
a level q is put at u_(k) with k = floor((n + 1) q) below the median, and with k = ceil((n + 1) q) above it
("distributional conformal prediction"). That is done at the ends of the central intervals of `LEVELS`, which then hold
at least that share of new observations, whatever the model. A smooth function joins the levels in between, so that
there is a density.

References
----------
Chernozhukov, Wuethrich, Zhu (2021). Distributional conformal prediction. PNAS 118.
Guo, Pleiss, Sun, Weinberger (2017). On calibration of modern neural networks. ICML. (Temperature scaling of classes.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtri

from sodgp.errors import InputError
from sodgp.predictive.monotone import MonotoneMap
from sodgp.predictive.scores import normal_scores
from sodgp.system.validation import FloatArray, Numbers

__all__ = ["LEVELS", "MIN_ROWS", "Calibration", "Temperature", "calibration_of", "temperature_of"]

LEVELS = (0.9, 0.5, 0.8, 0.95, 0.99)
"""Central intervals with a guarantee, the most important first; few rows are enough for some of them only."""
MIN_ROWS = 19
"""Rows without which no interval of 90 % is guaranteed."""

# Calibration rows between two knots, at least: with fewer a density would be mostly their chance.
_GAP = 4
# Two knots that are nearer to each other are one: rows whose cdf is the same.
_LEAST_STEP = 1e-6
_MAX_TEMPERATURE = 100.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """How the cdf levels of a model are moved, for each of P outputs, in normal scores: score 0 is the level 0.5.

    Parameters
    ----------
    knots : tuple of ndarray of shape [2, K]
        For every output scores of the model, and below the scores that they become; both strictly increasing.
    n_rows : int
        Rows that it was made of.
    coverage_90 : ndarray of shape [P]
        Share of these rows in the 90 % intervals of the model as it was.

    Examples
    --------
    >>> wider = Calibration((np.array([[-2.0, 2.0], [-1.0, 1.0]]),), n_rows=100, coverage_90=np.array([0.59]))
    >>> wider
    Calibration(n_rows=100, coverage_90=[0.59])
    """

    knots: tuple[FloatArray, ...]
    n_rows: int
    coverage_90: FloatArray

    def __repr__(self) -> str:
        shares = ", ".join(f"{share:.3g}" for share in self.coverage_90)
        return f"{type(self).__name__}(n_rows={self.n_rows}, coverage_90=[{shares}])"

    @cached_property
    def maps(self) -> tuple[MonotoneMap, ...]:
        """From scores of the model to calibrated ones, for every output."""
        return tuple(MonotoneMap(*each) for each in self.knots)


@dataclass(frozen=True)
class Temperature:
    """Class probabilities to this power, 1 / temperature, and scaled to a sum of one.

    Examples
    --------
    >>> Temperature(0.5, n_rows=80)
    Temperature(power=0.5, n_rows=80)
    """

    power: float
    n_rows: int


def calibration_of(dist: Any, y: Numbers) -> Calibration:
    """The calibration of a model by its predictions of n rows, and their observations [N] or [N, P].

    Raises
    ------
    InputError
        There are fewer than `MIN_ROWS` rows, or their cdfs are all the same.
    """
    at = dist.align(y)
    if len(at) < MIN_ROWS:
        raise InputError(
            f"a calibration needs at least {MIN_ROWS} rows that the model was not trained on, for intervals of 90 %; X"
            f" has {len(at)}."
        )
    columns = normal_scores(dist, at).reshape(len(at), -1).T
    inside = np.abs(columns) <= -ndtri(0.05)
    return Calibration(tuple(_knots(np.sort(column)) for column in columns), len(at), inside.mean(1))


def temperature_of(dist: Any, labels: Any) -> Temperature:
    """The power with the largest likelihood of the labels, from a hundredth to a hundred."""
    codes = dist.codes(labels)
    log_p = np.log(np.maximum(dist.mean, np.finfo(np.float64).tiny))
    rows = np.arange(len(codes))

    def loss(log_power: float) -> float:
        scaled = math.exp(log_power) * log_p
        return float((np.logaddexp.reduce(scaled, axis=1) - scaled[rows, codes]).mean())

    limit = math.log(_MAX_TEMPERATURE)
    found = minimize_scalar(loss, bounds=(-limit, limit), method="bounded", options={"xatol": 1e-5})
    return Temperature(math.exp(float(found.x)), len(codes))


def _knots(scores: FloatArray) -> FloatArray:
    """Knots [2, K] of sorted scores [n] of an output."""
    n = len(scores)
    middle = float(0.5 * (scores[(n - 1) // 2] + scores[n // 2]))
    # Place among the rows -> score of the model, and calibrated score.
    knots: dict[float, tuple[float, float]] = {}

    def add(place: float, score: float, becomes: float) -> None:
        near = any(abs(place - other) < _GAP for other in knots)
        order = sorted([*knots.values(), (score, becomes)])
        steps = np.diff(np.array(order), axis=0)
        if not near and (steps >= _LEAST_STEP).all():
            knots[place] = (score, becomes)

    for level in LEVELS:
        tail = 0.5 * (1.0 - level)
        # Rounding must not turn (n + 1) q, where it is whole, into the number below.
        k = math.floor((n + 1) * tail + 1e-9)
        if k >= 1:
            add(float(k), float(scores[k - 1]), float(ndtri(tail)))
            add(float(n + 1 - k), float(scores[n - k]), -float(ndtri(tail)))
        if level == LEVELS[0]:
            if len(knots) < 2:
                raise InputError(
                    "the cdf of the model is the same at the observations of nearly all rows, so that its levels cannot"
                    " be calibrated. Check that y has more than a few values."
                )
            add(0.5 * (n + 1), middle, 0.0)
    return np.array(sorted(knots.values())).T
