"""What happens to a table of numbers before training: scaling, rows held out, the subset apart from the rest."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from sodgp.errors import InputError
from sodgp.inference.base import TrainingSet

FloatArray = NDArray[np.float64]


class KnownNoise(NamedTuple):
    """Known noise variances in scaled units: their mean [P], and that mean over each of them [N, P]."""

    mean: Tensor
    precision: Tensor


def scaler_of(values: FloatArray, name: str) -> StandardScaler:
    """To zero mean and unit variance; constant columns become zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaler = StandardScaler().fit(values)
    if not np.isfinite(scaler.var_).all():
        columns = ", ".join(map(str, np.flatnonzero(~np.isfinite(scaler.var_))))
        raise InputError(f"the variance of column {columns} of {name} overflows: give smaller units.")
    # A column of X whose spread is lost is a constant one; targets would be predicted in units of one.
    lost = (scaler.var_ < np.finfo(np.float64).tiny) & (np.ptp(values, axis=0) > 0.0)
    if name == "y" and lost.any():
        columns = ", ".join(map(str, np.flatnonzero(lost)))
        raise InputError(f"the variance of column {columns} of y underflows: give larger units.")
    return scaler


def with_rows(scaler: StandardScaler, rows: int) -> StandardScaler:
    """The same scaling, for a fit with another number of rows: model files count rows by it."""
    scaler = copy.copy(scaler)
    scaler.n_samples_seen_ = np.int64(rows)
    return scaler


def held_out_rows(fraction: float | None, n_rows: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on and rows to hold out, each in their own order."""
    if fraction is None:
        return np.arange(n_rows), np.arange(0)
    count = max(1, round(fraction * n_rows))
    if n_rows - count < 2:
        raise InputError(
            f"validation_fraction={fraction} leaves {n_rows - count} of {n_rows} rows to train on; use a smaller one."
        )
    order = torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed)).numpy()
    return np.sort(order[count:]), np.sort(order[:count])


def split(X: Tensor, y: Tensor, chosen: Tensor, dtype: torch.dtype, noise: KnownNoise | None) -> TrainingSet:
    """The chosen rows as the subset, all others as the rest."""
    rest = torch.ones(len(X), dtype=torch.bool)
    rest[chosen] = False
    precision = None if noise is None else noise.precision[rest].to(dtype)
    X_s, y_s, X_r, y_r = (t.to(dtype) for t in (X[chosen], y[chosen], X[rest], y[rest]))
    return TrainingSet(X_s, y_s, X_r, y_r, precision)
