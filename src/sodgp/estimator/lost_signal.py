"""Warnings of columns whose differences are lost before training: in rounding, in squares, or beside an outlier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import NumericalWarning
from sodgp.system.notice import warn_user
from sodgp.system.validation import FloatArray, without_tensors

__all__ = ["warn_of_lost_signal"]

# Whole numbers up to here are exact as floats.
_EXACT = 2.0**53
# Spread of all but the outermost rows, in standard deviations of the column, that leaves a model nothing to see.
_FLAT = 1e-3
# Share of the rows at either end that count as outermost, and rows that are looked at.
_OUTERMOST, _LOOKED_AT = 0.005, 10_000


def warn_of_lost_signal(given: Any, values: FloatArray, names: NDArray[np.object_] | None, what: str) -> None:
    """Warn of columns of X or y whose rows differ, and which a model sees as constant, or nearly so.

    Parameters
    ----------
    given : array, data frame or list
        The table as the user gave it, where whole numbers are still exact.
    values : ndarray of shape [N, D]
        The same as float64.
    names : ndarray of shape [D], optional
    what : str
        "X" or "y".
    """
    for column, loss in _losses(given, values, refuses_small=what == "y"):
        name = f"column {column}" if names is None else f"column {names[column]!r}"
        warn_user(f"{name} of {what} {loss}", NumericalWarning)


def _losses(given: Any, values: FloatArray, *, refuses_small: bool) -> Iterator[tuple[int, str]]:
    """The columns, each with what happened; small units are an error of their own for targets."""
    lowest, highest = values.min(0), values.max(0)
    varies = highest > lowest
    for column in np.flatnonzero(np.maximum(-lowest, highest) > _EXACT):
        rounded = _rounded(_column(given, int(column)))
        if rounded:
            yield (
                int(column),
                f"has whole numbers beyond 2**53, of which float64 rounds {rounded}: small differences are lost."
                " Subtract an offset while they are whole numbers, or leave the column out if it is an identifier.",
            )
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        spread = (values - values[0]).std(0)
    is_lost = varies & (spread < np.sqrt(np.finfo(np.float64).tiny))
    for column in [] if refuses_small else np.flatnonzero(is_lost):
        yield (
            int(column),
            f"varies by {highest[column] - lowest[column]:.1e} only, the square of which float64 does not hold: it"
            " counts as constant. Give larger units.",
        )
    # Of an infinite one there will be an error.
    yield from _flat_columns(values, np.where(np.isfinite(spread) & ~is_lost, spread, 0.0))


def _flat_columns(values: FloatArray, spread: FloatArray) -> Iterator[tuple[int, str]]:
    """Columns in which a few rows are so far away that the others look equal."""
    rows = values[:: max(1, len(values) // _LOOKED_AT)]
    cut = max(1, round(_OUTERMOST * len(rows)))
    if len(rows) < 2 * cut + 2:
        return
    ends = np.partition(rows, [cut, len(rows) - 1 - cut], axis=0)[[cut, len(rows) - 1 - cut]]
    with np.errstate(over="ignore"):
        middle = ends[1] - ends[0]
    # A column with one value but for a few rows has no more to see than that.
    for column in np.flatnonzero((middle > 0.0) & (middle < _FLAT * spread)):
        row = int(np.abs(values[:, column] - ends[0, column]).argmax())
        yield (
            int(column),
            f"has {values[row, column]:.3g} in row {row}, beside which the other rows look equal: nearly all of them"
            f" are within {middle[column]:.2g}. Correct or drop such rows, or transform the column (its logarithm, its"
            " rank).",
        )


def _column(given: Any, column: int) -> NDArray[Any]:
    """A column as it was given."""
    given = without_tensors(given)
    if hasattr(given, "iloc"):
        given = given.iloc[:, column] if getattr(given, "ndim", 1) == 2 else given
        return np.asarray(given)
    if isinstance(given, list | tuple):
        # Among other numbers whole ones are floats at once, unless they are kept as objects.
        given = np.asarray(given, dtype=object)
    array = np.asarray(given)
    return array if array.ndim < 2 else array[:, column]


def _rounded(column: NDArray[Any]) -> int:
    """How many whole numbers are others as floats."""
    if column.dtype.kind not in "iuO":
        return 0
    return sum(isinstance(number, int | np.integer) and int(float(number)) != int(number) for number in column)
