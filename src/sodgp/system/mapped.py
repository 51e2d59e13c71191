"""Tables of numbers in files, of which a process reads the rows that it looks at."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sodgp.errors import InputError

__all__ = ["MappedTable"]


@dataclass(frozen=True)
class MappedTable:
    """Rows of numbers [N, K] in a file, one after another; as small as a path where it is sent to another process.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = MappedTable(Path(folder) / "x", (2, 3), "float64")
    ...     np.arange(6.0).tofile(table.path)
    ...     table.tensor()[1].tolist()
    [3.0, 4.0, 5.0]
    """

    path: Path
    shape: tuple[int, int]
    dtype: str

    def array(self, *, can_write: bool = False) -> NDArray[Any]:
        """The rows; what is written to them is kept only if `can_write`.

        Raises
        ------
        InputError
            The file is gone, or of another size.
        """
        size = int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize
        if not size:
            return np.empty(self.shape, self.dtype)
        try:
            if self.path.stat().st_size != size:
                raise InputError(f"{self.path} was changed: it has other than {size:,} bytes. Remove its folder.")
            return np.memmap(self.path, self.dtype, "r+" if can_write else "c", shape=self.shape)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error}. Do not remove it while it is in use.") from error

    def tensor(self) -> torch.Tensor:
        """The rows, which are not in memory, for looking at some of them at a time."""
        rows = self.array()
        mapping = getattr(rows, "_mmap", None)
        if mapping is not None and hasattr(mmap, "MADV_RANDOM"):
            # The system would read many rows around each one.
            mapping.madvise(mmap.MADV_RANDOM)
        return torch.from_numpy(rows)
