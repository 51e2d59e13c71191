"""Rows of evaluations: parts of tables, rows as a model takes them, and rows that it was trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import InputError
from sodgp.estimator.base import DeepGPEstimator
from sodgp.estimator.columns import EncodedRows, rows_of
from sodgp.estimator.describe import models_of
from sodgp.system.readable import check_readable
from sodgp.system.validation import FloatArray
from sodgp.tables.frames import Cells

__all__ = ["check_rows", "held_inputs", "numbers_of_rows", "shared_rows", "table_rows", "take", "training_rows"]


def take(X: Any, rows: NDArray[np.int64]) -> Any:
    """Rows of an array or a data frame, by number."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "column_names"):  # an Arrow table
        return X.take(rows)
    return X[rows] if isinstance(X, EncodedRows) or hasattr(X, "columns") else np.asarray(X)[rows]


def table_rows(model: DeepGPEstimator, X: Any) -> tuple[Any, tuple[Cells, ...]]:
    """Rows that predictions take, of a table once encoded; and its cells."""
    encoder = model.fitted_.columns.encoder
    if encoder is None:
        return X, ()
    return EncodedRows(rows_of(model, X)), tuple(encoder.cells(X))


def numbers_of_rows(X: Any) -> FloatArray:
    """Rows of `table_rows` as an array [N, D]."""
    return X.values if isinstance(X, EncodedRows) else np.asarray(X, dtype=np.float64)


def held_inputs(model: DeepGPEstimator) -> FloatArray:
    """Inputs of the training rows that a model keeps, [M, D], in original units: of a method without a subset none."""
    scaled = [one.fitted_.X_s[0].double().cpu().numpy() for one in models_of(model)]
    scaler = model.fitted_.x_scaler
    return np.concatenate([scaler.inverse_transform(rows) if len(rows) else rows for rows in scaled])


def training_rows(model: DeepGPEstimator) -> tuple[FloatArray, FloatArray] | None:
    """All training rows and their targets, [N, D] and [N, P], in original units; None where the model keeps some only.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, X[:, 0])
    >>> found = training_rows(model)
    >>> bool(np.allclose(found[0], found[1]))
    True
    """
    fitted = model.fitted_.models[0]
    if fitted.likelihood.targets != "numbers" or len(fitted.X_s[0]) != fitted.n_rows:
        return None
    X, y = (values[0].double().cpu().numpy() for values in (fitted.X_s, fitted.y_s))
    y = fitted.y_scaler.inverse_transform(y)
    return fitted.x_scaler.inverse_transform(X), y if fitted.transform is None else fitted.transform.inverse(y)


def shared_rows(model: DeepGPEstimator, rows: FloatArray) -> tuple[int, int]:
    """How many of the training rows that the model keeps are among these rows [N, D], and how many it keeps.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, X[:, 0])
    >>> shared_rows(model, X[:10]), shared_rows(model, X + 0.01)
    ((10, 30), (0, 30))
    """
    held = held_inputs(model)
    if not len(held):
        return 0, 0
    scaler = model.fitted_.x_scaler

    def keys(values: FloatArray) -> set[bytes]:
        # Without the sign of zero.
        return {np.round((row - scaler.mean_) / scaler.scale_, 6).tobytes() for row in values + 0.0}

    kept = keys(held)
    return len(kept & keys(rows)), len(kept)


def check_rows(X: Any, y: NDArray[Any]) -> None:
    """Raise InputError unless X is a table of as many rows as y, and has at least one."""
    check_readable(X, "X")
    rows = np.shape(X)[:1] if hasattr(X, "shape") else (len(X),) if hasattr(X, "__len__") else ()
    if not rows:
        raise InputError(f"X must be a table of rows, not {X!r:.100}.")
    if len(y) != rows[0]:
        raise InputError(f"X has {rows[0]} rows, but y has {len(y)}.")
    if not len(y):
        raise InputError("an evaluation needs at least one row.")
