"""Rows in the units of training: scaled, some of them held out, and split into subset and rest."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from sodgp.errors import InputError
from sodgp.estimator.fitted import Fitted
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.targets import Encoded
from sodgp.estimator.transforms import transform_for
from sodgp.inference.contract import Inference
from sodgp.inference.training_set import TrainingSet, rest_of
from sodgp.layers.prior import NOISE_FLOOR
from sodgp.predictive.power import PowerTransform
from sodgp.selectors.base import Selector, row_chunks
from sodgp.system.validation import FloatArray
from sodgp.training.held_out import HeldOut

__all__ = ["ScaledRows", "Scalers", "held_out_count", "held_out_rows", "scaled_rows", "scalers_for", "split_rows"]


class Scalers(NamedTuple):
    """Scaling of the model's units, of a transformed y, and of the rows of this fit: what reports compare with.

    `x_range` has the smallest and the largest value of every input, [2, D].
    """

    x_scaler: StandardScaler
    y_scaler: StandardScaler
    x_seen: StandardScaler
    y_seen: StandardScaler
    transform: PowerTransform | None = None
    x_range: FloatArray | None = None

    @property
    def log_scale(self) -> float:
        """What turns a log density of scaled targets into one of the original ones."""
        return float(np.log(self.y_scaler.scale_).sum())


@dataclass(frozen=True)
class ScaledRows:
    """All rows of a fit, [N, D] and [N, P], and how they were scaled.

    Attributes
    ----------
    X, y : Tensor
        In the units of training.
    numbers, held_out : ndarray
        Numbers of the rows that train, and of those that do not, in what `fit` was given.
    held : HeldOut or None
        The latter.
    noise : (mean [P], relative [N, P]) or None
        Known noise variances: their mean, and that mean over each of them.
    weight : Tensor of shape [N, 1] or None
        How many observations each row stands for.
    n_left_out : int
        Rows of weight zero, which are not among these.
    """

    X: Tensor
    y: Tensor
    scalers: Scalers
    numbers: NDArray[np.int64]
    held_out: NDArray[np.int64]
    held: HeldOut | None = None
    noise: tuple[Tensor, Tensor] | None = None
    weight: Tensor | None = None
    n_left_out: int = 0

    @property
    def mean_target(self) -> Tensor:
        """Mean of y, [P]."""
        return _mean(self.y, self.weight)

    @property
    def directions(self) -> Tensor:
        """Rows whose principal directions are those of the weighted rows: the mean of X is zero."""
        return self.X if self.weight is None else self.X * self.weight.sqrt()

    def seen_by(self, selector: Selector | None, size: int) -> tuple[Tensor, Tensor]:
        """X and y as a selector, or ``subset_size="auto"``, sees them."""
        return self.X, self.y

    def check(self, method: Inference) -> None:
        """Raise ConfigurationError where a settled method needs the rows in another way than they are here."""

    def split(self, chosen: Tensor, dtype: torch.dtype) -> TrainingSet:
        """Subset and rest, in the memory of `X` and `y`, which are overwritten."""
        rest = rest_of(len(self.X), chosen)
        X_s, X_r = split_rows(self.X, chosen, rest)
        y_s, y_r = split_rows(self.y, chosen, rest)
        precision = None if self.noise is None else self.noise[1].to(dtype)[rest]
        X_s, y_s, X_r, y_r = (t.to(dtype) for t in (X_s, y_s, X_r, y_r))
        weights = [None if self.weight is None else self.weight[part].to(dtype) for part in (chosen, rest)]
        return TrainingSet(X_s, y_s, X_r, y_r, precision, *weights)


def scaled_rows(
    config: Configuration,
    X: FloatArray,
    targets: Encoded,
    previous: Fitted | None,
    weight: FloatArray | None = None,
    *,
    seed: int,
    predict_seed: int,
) -> ScaledRows:
    """Arrays in the units of training; `seed` decides which rows are held out."""
    numbers, held_out = held_out_rows(config.validation_fraction, len(X), seed)
    is_copy = len(held_out) > 0
    X_kept, y_kept = (X[numbers], targets.y[numbers]) if is_copy else (X, targets.y)
    w = None if weight is None else weight[numbers]
    transform = transform_for(config.target_transform, targets.y, numbers, previous, weight)
    scalers = scalers_for(X_kept, y_kept, previous, is_scaled=targets.is_scaled, transform=transform, weight=w)
    y_all = targets.y
    if transform is not None:
        y_kept, y_all = transform.forward(y_kept), transform.forward(y_all)
    X_t, y_t = (
        torch.as_tensor(scaler.transform(values, copy=not is_copy), dtype=torch.float64)
        for scaler, values in ((scalers.x_scaler, X_kept), (scalers.y_scaler, y_kept))
    )
    del X_kept, y_kept
    noise, held = None, None
    if targets.noise_variance is not None:
        noise = _known_noise(targets.noise_variance, scalers.y_scaler, weight)
    if is_copy:
        pairs = (scalers.x_scaler, X), (scalers.y_scaler, y_all)
        X_h, y_h = (torch.as_tensor(s.transform(v[held_out]), dtype=config.dtype) for s, v in pairs)
        log_scale = scalers.log_scale
        held_w = None if weight is None else weight[held_out]
        if transform is not None:
            log_scale -= float(np.average(transform.log_slope(targets.y[held_out]).sum(1), weights=held_w))
        w_h = None if held_w is None else torch.as_tensor(held_w, dtype=config.dtype)[:, None]
        held = HeldOut(X_h, y_h, log_scale, predict_seed, config.n_predict_samples, w_h)
    column = None if w is None else torch.as_tensor(w)[:, None]
    return ScaledRows(X_t, y_t, scalers, numbers, held_out, held, noise, column)


def split_rows(values: Tensor, chosen: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """The chosen rows, and the rest, ascending, in the memory of `values`, which is overwritten.

    Examples
    --------
    >>> split_rows(torch.arange(5.0)[:, None], torch.tensor([3, 0]), torch.tensor([1, 2, 4]))[1].ravel()
    tensor([1., 2., 4.])
    """
    subset = values[chosen]
    # A row of the rest never moves up: what is still needed is not overwritten.
    for rows in row_chunks(len(rest), values.shape[1]):
        values[rows] = values[rest[rows]]
    return subset, values[: len(rest)]


def scalers_for(
    X: FloatArray,
    y: FloatArray,
    previous: Fitted | None,
    *,
    is_scaled: bool,
    standard: Callable[[FloatArray], StandardScaler] | None = None,
    transform: PowerTransform | None = None,
    weight: FloatArray | None = None,
) -> Scalers:
    """The units of training: those of these rows, or of the fit that is continued; y as it is unless `is_scaled`.

    `standard` fits a scaling to zero mean and unit variance; by default scikit-learn's. With a `transform` the model's
    units are those of the transformed y.
    """
    x_seen, y_seen = scaler_of(X, "X", standard, weight), scaler_of(y, "y", standard, weight)
    x_range = np.stack([X.min(axis=0), X.max(axis=0)])
    if previous is None:
        y_units = y_seen if transform is None else scaler_of(transform.forward(y), "y", standard, weight)
        return Scalers(x_seen, y_units if is_scaled else _unscaled(y_units), x_seen, y_seen, transform, x_range)
    x_scaler, y_scaler = (with_rows(s, len(X)) for s in (previous.x_scaler, previous.y_scaler))
    return Scalers(x_scaler, y_scaler, x_seen, y_seen, transform, x_range)


def _unscaled(scaler: StandardScaler) -> StandardScaler:
    """A scaling of as many rows and columns that changes nothing."""
    scaler = copy.copy(scaler)
    scaler.mean_, scaler.var_, scaler.scale_ = (np.full_like(scaler.mean_, value) for value in (0.0, 1.0, 1.0))
    return scaler


def _mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Means of columns [N, P] over rows with weights [N, 1]."""
    return values.mean(0) if weight is None else (weight * values).sum(0) / weight.sum()


def _known_noise(variance: FloatArray, y_scaler: StandardScaler, weight: FloatArray | None) -> tuple[Tensor, Tensor]:
    """Known noise variances [N, P] in scaled units: their mean [P], and that mean over each of them [N, P]."""
    values = torch.as_tensor(variance / y_scaler.scale_**2).clamp_min(NOISE_FLOOR)
    mean = _mean(values, None if weight is None else torch.as_tensor(weight)[:, None])
    return mean, mean / values


def scaler_of(
    values: FloatArray,
    name: str,
    standard: Callable[[FloatArray], StandardScaler] | None = None,
    weight: FloatArray | None = None,
) -> StandardScaler:
    """To zero mean and unit variance, over rows that count by their weights; constant columns become zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        if weight is None:
            scaler = (standard or StandardScaler().fit)(values)
        else:
            scaler = with_rows(StandardScaler().fit(values, sample_weight=weight), len(values))
        _refit_apart(scaler, values, weight)
    if not np.isfinite(scaler.var_).all():
        over = np.flatnonzero(~np.isfinite(scaler.var_))
        largest = np.abs(values[:, over]).max()
        raise InputError(
            f"the variance of column {', '.join(map(str, over))} of {name} overflows, with values up to {largest:.3g}:"
            " correct them, or give smaller units."
        )
    # A column of X whose spread is lost is a constant one; targets would be predicted in units of one.
    lost = (scaler.var_ < np.finfo(np.float64).tiny) & (np.ptp(values, axis=0) > 0.0)
    if name == "y" and lost.any():
        columns = ", ".join(map(str, np.flatnonzero(lost)))
        raise InputError(f"the variance of column {columns} of y underflows: give larger units.")
    return scaler


def _refit_apart(scaler: StandardScaler, values: FloatArray, weight: FloatArray | None) -> None:
    """Without their offset, scale columns whose spread is so small that scikit-learn takes them for constant."""
    columns = np.flatnonzero((scaler.scale_ == 1.0) & (np.ptp(values, axis=0) > 0.0))
    if not len(columns):
        return
    offset = values[0, columns]
    apart = StandardScaler().fit(values[:, columns] - offset, sample_weight=weight)
    scaler.mean_[columns], scaler.var_[columns] = apart.mean_ + offset, apart.var_
    scaler.scale_[columns] = apart.scale_


def with_rows(scaler: StandardScaler, rows: int) -> StandardScaler:
    """The same scaling, for a fit with another number of rows: model files count rows by it."""
    scaler = copy.copy(scaler)
    scaler.n_samples_seen_ = np.int64(rows)
    return scaler


def held_out_rows(fraction: float | None, n_rows: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on and rows to hold out, both in ascending order."""
    count = held_out_count(fraction, n_rows)
    if not count:
        return np.arange(n_rows), np.arange(0)
    order = torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed)).numpy()
    return np.sort(order[count:]), np.sort(order[:count])


def held_out_count(fraction: float | None, n_rows: int) -> int:
    """How many rows are held out; InputError where too few are left."""
    if fraction is None:
        return 0
    count = max(1, round(fraction * n_rows))
    if n_rows - count < 2:
        raise InputError(
            f"validation_fraction={fraction} leaves {n_rows - count} of {n_rows} rows to train on; use a smaller one."
        )
    return count
