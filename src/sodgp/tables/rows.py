"""Some rows and some columns of data frames of any library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import InputError
from sodgp.system.validation import FloatArray
from sodgp.tables.frames import BOOLEAN, NUMBER, cells_of, is_frame

__all__ = ["Sample", "labels_in", "numbers_in", "parted"]


def parted(frame: Any, targets: Sequence[str]) -> tuple[Any, Any]:
    """The other columns of a frame, and its targets in this order.

    Raises
    ------
    InputError
        It lacks a target, or is no frame.
    """
    import narwhals.stable.v2 as nw

    if not is_frame(frame):
        raise InputError(f"a batch of rows is of type {type(frame).__name__}, and not a data frame with named columns.")
    rows = nw.from_native(frame, eager_only=True)
    lacking = [repr(name) for name in targets if name not in rows.columns]
    if lacking:
        raise InputError(f"a batch of rows lacks the columns {', '.join(lacking)} of the target.")
    inputs = [name for name in rows.columns if name not in targets]
    return rows.select(inputs).to_native(), rows.select(list(targets)).to_native()


def numbers_in(frame: Any) -> FloatArray:
    """The columns of a frame as numbers, [N, C], nan where one is missing; InputError names those that hold others."""
    cells = cells_of(frame)
    others = [repr(each.name) for each in cells if each.kind not in (NUMBER, BOOLEAN) and not each.missing.all()]
    if others:
        raise InputError(f"the column{'s' * (len(others) > 1)} {', '.join(others)} hold text or dates, not numbers.")
    return np.stack([np.full(len(each), np.nan) if each.missing.all() else each.values for each in cells], axis=1)


def labels_in(frame: Any) -> NDArray[Any]:
    """The cells of a frame with one column as an array [N] of the column's type."""
    import narwhals.stable.v2 as nw

    column = nw.from_native(frame, eager_only=True)
    series = column[:, 0]
    if series.dtype in (nw.Categorical, nw.Enum):
        series = series.cast(nw.String)
    values: NDArray[Any] = series.to_numpy()
    return values


class Sample:
    """So many random rows of batches of frames, each row with the same probability, in the order of the rows.

    Examples
    --------
    >>> import pandas as pd
    >>> sample = Sample(3)
    >>> for start in (0, 10):
    ...     sample.add(pd.DataFrame({"a": range(start, start + 10)}))
    >>> sample.frame()["a"].is_monotonic_increasing, len(sample.frame())
    (True, 3)
    """

    def __init__(self, size: int) -> None:
        self._size, self._generator = size, np.random.default_rng(0)
        self._keys: list[NDArray[np.float64]] = []
        self._frames: list[Any] = []
        self._limit = 1.0

    def add(self, frame: Any) -> None:
        """Look at a batch."""
        import narwhals.stable.v2 as nw

        rows = nw.from_native(frame, eager_only=True)
        keys = self._generator.random(len(rows))
        found = np.flatnonzero(keys < self._limit)
        if len(found):
            self._keys.append(keys[found])
            self._frames.append(rows[found.tolist()] if len(found) < len(rows) else rows)
        if sum(map(len, self._keys)) > 2 * self._size:
            self._reduce()

    def frame(self) -> Any:
        """The rows."""
        self._reduce()
        return self._frames[0].to_native()

    def _reduce(self) -> None:
        import narwhals.stable.v2 as nw

        keys = np.concatenate(self._keys)
        try:
            frame = nw.concat(self._frames, how="vertical") if len(self._frames) > 1 else self._frames[0]
        except Exception as error:
            raise InputError(f"batches of rows have other columns than the first: {str(error).strip()}") from error
        if len(keys) > self._size:
            self._limit = float(np.partition(keys, self._size - 1)[self._size - 1])
            kept = np.flatnonzero(keys <= self._limit)
            keys, frame = keys[kept], frame[kept.tolist()]
        self._keys, self._frames = [keys], [frame]
