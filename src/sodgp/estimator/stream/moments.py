"""Scaling of rows that are in a file, with the bits that scikit-learn has for the same rows in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.preprocessing import StandardScaler

from sodgp.system.validation import FloatArray

__all__ = ["standard_scaler"]

_BLOCK_ROWS = 2**17


def standard_scaler(values: FloatArray) -> StandardScaler:
    """``StandardScaler().fit(values)`` in the memory of a block of rows.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> bool((standard_scaler(X).scale_ == StandardScaler().fit(X).scale_).all())
    True
    """
    count = float(len(values))
    mean = _sums(values, lambda rows: rows) / count
    # The two-pass algorithm of scikit-learn, which corrects the rounding of the mean.
    correction = _sums(values, lambda rows: rows - mean)
    variance = (_sums(values, lambda rows: (rows - mean) ** 2) - correction**2 / count) / count
    scale = np.sqrt(variance)
    epsilon = np.finfo(np.float64).eps
    scale[variance <= count * epsilon * variance + (count * mean * epsilon) ** 2] = 1.0
    scaler = StandardScaler()
    scaler.mean_, scaler.var_, scaler.scale_ = mean, variance, scale
    scaler.n_samples_seen_, scaler.n_features_in_ = np.int64(len(values)), values.shape[1]
    return scaler


def _sums(values: FloatArray, made: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Sums over rows in the order in which NumPy adds those of one array: row by row, but a single column in halves."""
    if values.shape[1] == 1:
        return np.array([_halved(values, made)])
    total: FloatArray | None = None
    for start in range(0, len(values), _BLOCK_ROWS):
        rows = made(values[start : start + _BLOCK_ROWS])
        total = np.add.reduce(rows if total is None else np.concatenate([total[None], rows]), axis=0)
    return np.zeros(values.shape[1]) if total is None else total


def _halved(values: FloatArray, made: Callable[[FloatArray], FloatArray]) -> float:
    if len(values) <= _BLOCK_ROWS:
        return float(np.sum(made(values)))
    half = len(values) // 2
    half -= half % 8
    return _halved(values[:half], made) + _halved(values[half:], made)
