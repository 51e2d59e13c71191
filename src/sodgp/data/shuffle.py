"""A random order of rows that do not fit into memory, through files on disk."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sodgp.system.validation import FloatArray

__all__ = ["Shuffle"]

_BUCKET_BYTES = 2**25
_MOST_BUCKETS = 256
_SEED = 0


class Shuffle:
    """Rows are dealt at random to files that fit into memory, and each file is shuffled when it is read again.

    Every order of the rows has the same probability (Rao 1961; Sandelius 1962), and the disk is read and written in
    sequence. The same rows in the same batches give the same order.

    Parameters
    ----------
    folder : Path
        For the files; each is removed once it has been read.
    width : int
        Numbers of a row.
    n_rows : int
        About how many rows will come.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shuffle = Shuffle(Path(folder), 1, 6)
    ...     shuffle.add(np.arange(6.0)[:, None])
    ...     sorted(np.concatenate(list(shuffle.rows())).ravel().tolist())
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    """

    def __init__(self, folder: Path, width: int, n_rows: int) -> None:
        count = min(_MOST_BUCKETS, max(1, math.ceil(8 * width * n_rows / _BUCKET_BYTES)))
        self._paths = [folder / f"bucket-{number}" for number in range(count)]
        self._width, self._generator = width, np.random.default_rng(_SEED)
        for path in self._paths:
            path.unlink(missing_ok=True)

    def add(self, rows: FloatArray) -> None:
        """Deal a batch of rows, [n, width]."""
        bucket = self._generator.integers(len(self._paths), size=len(rows))
        order = bucket.argsort(kind="stable")
        ends = np.bincount(bucket, minlength=len(self._paths)).cumsum()
        dealt = np.ascontiguousarray(rows[order], dtype=np.float64)
        for path, part in zip(self._paths, np.split(dealt, ends[:-1]), strict=True):
            if len(part):
                # Not numpy's tofile, whose errors do not say what the system said.
                with path.open("ab") as file:
                    file.write(part.data)

    def rows(self) -> Iterator[FloatArray]:
        """All rows in their random order, in blocks."""
        for path in self._paths:
            if path.exists():
                block = np.fromfile(path).reshape(-1, self._width)
                path.unlink()
                yield block[self._generator.permutation(len(block))]
