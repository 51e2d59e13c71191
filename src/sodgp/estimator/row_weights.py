"""Weights of rows, as `fit` gets them: checked, and rows of weight zero left out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sodgp.errors import InputError
from sodgp.system.validation import FloatArray, check_sample_weight

__all__ = ["Given", "rows_of_table", "with_weights"]


class Given(NamedTuple):
    """What `fit` was given, without the rows of weight zero.

    Attributes
    ----------
    X, y, noise_variance
        As given, or some rows of it.
    weight : ndarray of shape [N], optional
        How many observations each row stands for; None where all stand for one.
    rows : ndarray of shape [N], optional
        Numbers of the rows, where some were left out.
    n_left_out : int
    """

    X: Any
    y: Any
    noise_variance: Any
    weight: FloatArray | None = None
    rows: NDArray[np.int64] | None = None
    n_left_out: int = 0


def with_weights(X: Any, y: Any, noise_variance: Any = None, sample_weight: Any = None) -> Given:
    """The rows that count, and how often.

    Weights that are all one are none, so that a fit has the same bits.

    Raises
    ------
    InputError
        Weights that are not one number for each row, negative, not finite, or all zero.

    Examples
    --------
    >>> given = with_weights([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0], sample_weight=[2, 0, 1])
    >>> given.X, given.y, given.weight.tolist(), given.rows.tolist()
    ([[0.0], [2.0]], [0.0, 2.0], [2.0, 1.0], [0, 2])
    """
    if sample_weight is None:
        return Given(X, y, noise_variance)
    weight = check_sample_weight(sample_weight, _count(X))
    if (weight == 1.0).all():
        return Given(X, y, noise_variance)
    rows = np.flatnonzero(weight)
    if len(rows) == len(weight):
        return Given(X, y, noise_variance, weight)
    if _count(y) != len(weight):
        raise InputError(f"X has {len(weight)} rows, but y has {_count(y)}.")
    if noise_variance is not None and np.ndim(noise_variance) and _count(noise_variance) == len(weight):
        noise_variance = rows_of_table(noise_variance, rows)
    weight = weight[rows]
    kept = None if (weight == 1.0).all() else weight
    left_out = _count(X) - len(rows)
    return Given(rows_of_table(X, rows), rows_of_table(y, rows), noise_variance, kept, rows, left_out)


def rows_of_table(values: Any, rows: NDArray[np.int64]) -> Any:
    """Rows of an array, a tensor, a list or a data frame, by number.

    Examples
    --------
    >>> rows_of_table(["a", "b", "c"], np.array([0, 2]))
    ['a', 'c']
    """
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "column_names"):  # an Arrow table
        return values.take(rows)
    if isinstance(values, torch.Tensor):
        return values[torch.from_numpy(rows)]
    if isinstance(values, list | tuple):
        return [values[row] for row in rows]
    return values[rows] if hasattr(values, "columns") else np.asarray(values)[rows]


def _count(values: Any) -> int:
    """Rows of a table; InputError where it has none."""
    shape = getattr(values, "shape", None)
    if shape is not None and len(shape) > 0:
        return int(shape[0])
    if hasattr(values, "__len__"):
        return len(values)
    if hasattr(values, "__array__"):
        return _count(np.asarray(values))
    raise InputError(f"a table of rows is needed, not {values!r:.100}.")
