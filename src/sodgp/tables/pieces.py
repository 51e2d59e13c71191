"""Users' own tables a piece at a time, for files larger than memory."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sodgp.data.convert import require
from sodgp.errors import InputError, SodgpError
from sodgp.tables.dialect import Dialect, guess, opened
from sodgp.tables.files import _COPIES, _PARQUET, _SEPARATORS, holds_python_numbers

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.parquet as pq

__all__ = ["PIECE_ROWS", "Piece", "bytes_in_memory", "dialect_of", "is_large", "pieces"]

PIECE_ROWS = 50_000
"""Rows of a piece: some seconds of prediction, and some ten megabytes."""

# How many times as large unpacked text is.
_PACKED = 4
# Of text, packed or not, that is read whole.
_WHOLE_BYTES = 2**24


@dataclass(frozen=True)
class Piece:
    """Rows `start` to `stop` of a table; `frame` is None where the file can be read from there, which `read` does.

    A piece of a Parquet file is a place in it, which another process can read; one of a text file holds its rows.
    """

    path: Path
    start: int
    stop: int
    frame: pd.DataFrame | None = None

    def read(self) -> pd.DataFrame:
        """The rows, numbered from 0.

        Raises
        ------
        InputError
            The file cannot be read.
        """
        return _parquet_rows(self.path, self.start, self.stop) if self.frame is None else self.frame


def is_large(path: str | os.PathLike[str], rows: int = PIECE_ROWS) -> bool:
    """Whether a table is worth reading in pieces: a Parquet file of more rows than one piece, or a long text file.

    A file that is missing or unknown is not large: `sodgp.tables.files.read_table` says what is wrong with it.
    """
    path = Path(path)
    if not path.is_file():
        return False
    if not path.name.lower().endswith(_PARQUET):
        return path.name.lower().endswith(tuple(_SEPARATORS)) and path.stat().st_size > _WHOLE_BYTES
    require(("pandas", "pyarrow"), f"Reading {path.name}")
    import pyarrow.parquet as pq

    with _explained(path):
        return bool(pq.read_metadata(path).num_rows > rows)


def bytes_in_memory(path: str | os.PathLike[str]) -> int:
    """About what reading a table at once takes, in bytes; 0 for a file that is missing or unknown."""
    path = Path(path)
    name = path.name.lower()
    if not path.is_file() or not name.endswith((*_PARQUET, *_SEPARATORS)):
        return 0
    if not name.endswith(_PARQUET):
        return _COPIES * path.stat().st_size * (_PACKED if name.endswith(".gz") else 1)
    require(("pandas", "pyarrow"), f"Reading {path.name}")
    import pyarrow.parquet as pq

    with _explained(path):
        found = pq.read_metadata(path)
        groups = (found.row_group(number).total_byte_size for number in range(found.num_row_groups))
        return _COPIES * max(sum(groups), 8 * found.num_rows * found.num_columns)


def dialect_of(path: str | os.PathLike[str], **given: str | None) -> Dialect | None:
    """How a text table is written, where that is not `given`, as `sodgp.tables.dialect.guess` says; None of Parquet.

    Raises
    ------
    InputError
        The file is missing, damaged, no text or of an unknown kind.
    ConfigurationError
        What is given is unknown.
    """
    path = Path(path)
    name = path.name.lower()
    if not path.is_file():
        raise InputError(f"{path} does not exist or is not a file.")
    if name.endswith(_PARQUET):
        return None
    separators = next((found for end, found in _SEPARATORS.items() if name.endswith(end)), None)
    if separators is None:
        known = ", ".join((*_SEPARATORS, *_PARQUET))
        raise InputError(f"{path}: cannot tell what kind of table this is. The name must end in one of {known}.")
    with _explained(path):
        return guess(path, separators, **given)


def pieces(path: str | os.PathLike[str], rows: int = PIECE_ROWS, dialect: Dialect | None = None) -> Iterator[Piece]:
    r"""The pieces of a table in order, each of so many rows but the last; in constant memory.

    Columns have the types that they have in the whole table, so that text is read twice. What `dialect_of` says is
    taken where `dialect` is None.

    Raises
    ------
    InputError
        The file is missing, damaged or of an unknown kind.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "t.csv"
    ...     _ = table.write_text("a,b\n1,2\n3,4\n5,6\n")
    ...     [(piece.start, piece.stop, list(piece.read()["a"])) for piece in pieces(table, rows=2)]
    [(0, 2, [1, 3]), (2, 3, [5])]
    """
    path = Path(path)
    dialect = dialect or dialect_of(path)
    if dialect is not None:
        yield from _text_pieces(path, dialect, rows)
        return
    require(("pandas", "pyarrow"), f"Reading {path.name}")
    import pyarrow.parquet as pq

    with _explained(path):
        count = pq.read_metadata(path).num_rows
    for start in range(0, count, rows):
        yield Piece(path, start, min(start + rows, count))


def _text_pieces(path: Path, dialect: Dialect, rows: int) -> Iterator[Piece]:
    start = 0
    for frame in _chunks(path, dialect, rows, _types(path, dialect, rows)):
        yield Piece(path, start, start + len(frame), frame)
        start += len(frame)


def _chunks(path: Path, dialect: Dialect, rows: int, types: dict[str, str] | None = None) -> Iterator[pd.DataFrame]:
    """The rows of a text table, in frames of so many."""
    require(("pandas",), f"Reading {path.name}")
    import pandas as pd

    with opened(path) as handle:
        with _explained(path):
            reader = pd.read_csv(handle, dtype=types, chunksize=rows, **dialect.reading)
        start = 0
        while True:
            with _explained(path, after=start), warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = next(reader, None)
            if frame is None:
                return
            yield frame.reset_index(drop=True)
            start += len(frame)


def _types(path: Path, dialect: Dialect, rows: int) -> dict[str, str]:
    """Types of the columns that look otherwise in some chunks than in the whole table."""
    kinds: dict[str, set[str]] = {}
    for frame in _chunks(path, dialect, rows):
        for name in frame.columns:
            kinds.setdefault(name, set()).add(_kind(frame[name]))
    common = [(frozenset(("int", "float", "empty")), "float64"), (frozenset(("bool", "gaps", "empty")), "boolean")]
    return {
        name: next((dtype for these, dtype in common if found <= these), "str")
        for name, found in kinds.items()
        if len(found) > 1
    }


def _kind(column: pd.Series) -> str:
    """What the cells of a column of text are, as pandas read them; "gaps" are booleans of which some are missing."""
    import pandas as pd

    if column.isna().all():
        return "empty"
    known = {"i": "int", "u": "int", "f": "float", "b": "bool"}.get(column.dtype.kind)
    return known or ("gaps" if pd.api.types.infer_dtype(column, skipna=True) == "boolean" else "text")


def _parquet_rows(path: Path, start: int, stop: int) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _explained(path, after=start), pq.ParquetFile(path, memory_map=True) as file:
        sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        ends = list(itertools.accumulate(sizes))
        groups = [number for number, end in enumerate(ends) if end > start and end - sizes[number] < stop]
        position, parts = ends[groups[0]] - sizes[groups[0]], []
        # Not a whole row group, which may be the whole file.
        for batch in file.iter_batches(batch_size=stop - start, row_groups=groups, use_threads=False):
            first, last = max(start - position, 0), min(stop - position, len(batch))
            if first < last:
                parts.append(batch.slice(first, last - first))
            position += len(batch)
            if position >= stop:
                break
        frame = pa.Table.from_batches(parts, file.schema_arrow).to_pandas()
        with_gaps = _with_gaps(file)
    named = [name for name in frame.index.names if name is not None]
    frame = frame.reset_index(named).reset_index(drop=True)
    frame.columns = [str(column) for column in frame.columns]
    floats = [name for name in frame.columns if name in with_gaps or holds_python_numbers(frame[name])]
    return frame.astype(dict.fromkeys(floats, "float64"))


def _with_gaps(file: pq.ParquetFile) -> set[str]:
    """Columns of whole numbers some of which are missing, perhaps in other rows: pandas makes floats of them."""
    import pyarrow as pa

    whole = {field.name for field in file.schema_arrow if pa.types.is_integer(field.type)}
    groups = (file.metadata.row_group(number) for number in range(file.num_row_groups))
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    return {
        column.path_in_schema
        for column in columns
        if column.path_in_schema in whole and column.statistics is not None and column.statistics.null_count
    }


@contextmanager
def _explained(path: Path, after: int = 0) -> Iterator[None]:
    """Errors of pandas and Arrow as ours."""
    try:
        yield
    except SodgpError:
        raise
    except (ValueError, OSError, EOFError, KeyError, TypeError, AttributeError, IndexError, UserWarning) as error:
        where = f" after row {after:,}" if after else ""
        raise InputError(f"{path} cannot be read{where}: {str(error).strip()}") from error
