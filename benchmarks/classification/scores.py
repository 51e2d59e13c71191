"""Scores of class probabilities, and what several cells need for one calibration error of all their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sodgp.predictive import metrics
from sodgp.system.validation import FloatArray

__all__ = ["calibration", "of_classes", "of_counts"]

BINS = 10
# A probability below it counts as it, for every contestant: some trees say zero.
_LEAST = 1e-12
# Narrow bins, of which cells keep the sums: a hundred labels of one bin have nearly the same probability.
_NARROW = 100
_SIMULATIONS = 4000


def of_classes(p: FloatArray, y: FloatArray) -> dict[str, Any]:
    """Log loss, Brier score (for two classes half the sum over classes), accuracy, and the sums of narrow bins.

    Parameters
    ----------
    p : ndarray of shape [N, K]
    y : ndarray of shape [N]
        Classes, from 0 on.

    Examples
    --------
    >>> of_classes(np.array([[0.8, 0.2], [0.5, 0.5]]), np.array([0.0, 1.0]))["accuracy"]
    0.5
    """
    codes = y.astype(int)
    p = p / p.sum(1, keepdims=True)
    half = 0.5 if p.shape[1] == 2 else 1.0
    right, top = p.argmax(1) == codes, p.max(1)
    place = np.minimum((top * _NARROW).astype(int), _NARROW - 1)
    sums = [np.bincount(place, weights, _NARROW) for weights in (None, top, right)]
    return {
        "log_loss": float(-np.log(np.maximum(p[np.arange(len(y)), codes], _LEAST)).mean()),
        "brier": float(half * np.square(p - np.eye(p.shape[1])[codes]).sum(1).mean()),
        "accuracy": float(right.mean()),
        # Bin, rows, sum of their top probabilities, right ones.
        "bins": [
            [number, int(rows), round(float(total), 6), int(hits)]
            for number, (rows, total, hits) in enumerate(zip(*sums, strict=True))
            if rows
        ],
    }


def of_counts(dist: Any, y: FloatArray) -> dict[str, Any]:
    """Mean negative log probability, CRPS, and RMSE of the mean."""
    return {"nlpp": metrics.nlpp(y, dist), "crps": metrics.crps(y, dist), "rmse": metrics.rmse(y, dist)}


def calibration(bins: Sequence[Sequence[Sequence[float]]], seed: int = 0) -> tuple[float, float, int]:
    """Calibration error of the top label in ten bins of equal width, of all rows of several cells.

    Parameters
    ----------
    bins : sequence of the ``bins`` of cells

    Returns
    -------
    float, float, int
        The error, its 95 % point for a perfectly calibrated model with these probabilities, and the number of rows.
    """
    lines = [line for each in bins for line in each]
    number, rows, total, right = np.array(lines, dtype=np.float64).T
    wide = (number * BINS // _NARROW).astype(int)
    generator = np.random.default_rng(seed)
    share = np.clip(total / rows, 0.0, 1.0)
    drawn = generator.binomial(rows.astype(int), share, (_SIMULATIONS, len(rows)))
    chance = np.quantile([_error(wide, each - total) for each in drawn], 0.95) / rows.sum()
    return float(_error(wide, right - total) / rows.sum()), float(chance), int(rows.sum())


def _error(place: NDArray[np.int64], difference: FloatArray) -> float:
    return float(np.abs(np.bincount(place, difference, BINS)).sum())
