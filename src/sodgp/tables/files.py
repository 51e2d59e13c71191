"""Users' own tables for the command line: CSV, TSV and Parquet files as pandas frames."""

from __future__ import annotations

import csv
import difflib
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sodgp.data.convert import require
from sodgp.errors import InputError, ResourceError
from sodgp.system.memory import available_memory, require_memory
from sodgp.tables.dialect import SEPARATORS, guess, header_of, opened

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = {".csv": SEPARATORS, ".csv.gz": SEPARATORS, ".tsv": "\t", ".tsv.gz": "\t"}
_PARQUET = (".parquet", ".pq")
# Text, frame and array of a table are in memory at the same time.
_COPIES = 3
_PIECE = 2**20
_PARTS = "Take fewer rows or columns."


class Table(NamedTuple):
    """A table of a file, and how it was read, in words; empty where that is as usual."""

    frame: pd.DataFrame
    said: str


def read_table(path: str | os.PathLike[str], **given: str | None) -> pd.DataFrame:
    """Read a table with one header row; text columns and missing values are left as they are.

    The name ends in ``.csv``, ``.csv.gz``, ``.tsv``, ``.tsv.gz``, ``.parquet`` or ``.pq``. What is `given` of
    `separator`, `decimal` and `encoding` is not guessed (`sodgp.tables.dialect.guess`).

    Raises
    ------
    InputError
        The file is missing, empty, without rows, damaged, no text or of an unknown kind; no column has a name or a name
        occurs twice; or pandas (for Parquet also pyarrow) is not installed.
    ConfigurationError
        What is given is unknown.
    ResourceError
        The unpacked table is larger than the free memory; the length of a packed file is counted, not trusted.

    Examples
    --------
    >>> from sodgp.tables.files import read_table
    >>> read_table("measurements.docx")
    Traceback (most recent call last):
    sodgp.errors.InputError: measurements.docx: cannot tell what kind of table this is. ...
    """
    return table_of(path, **given).frame


def table_of(path: str | os.PathLike[str], **given: str | None) -> Table:
    """As `read_table`, with what was guessed."""
    path = Path(path)
    name = path.name.lower()
    suffix = next((end for end in (*_SEPARATORS, *_PARQUET) if name.endswith(end)), None)
    if suffix is None:
        known = ", ".join((*_SEPARATORS, *_PARQUET))
        raise InputError(f"{path}: cannot tell what kind of table this is. The name must end in one of {known}.")
    if not path.is_file():
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {what}.")
    frame, said = (_read_parquet(path), "") if suffix in _PARQUET else _read_text(path, _SEPARATORS[suffix], given)
    if not len(frame.columns):
        raise InputError(f"{path} has no columns.")
    if not len(frame):
        raise InputError(f"{path} has column names but no rows.")
    exact = {name: "float64" for name in frame.columns if holds_python_numbers(frame[name])}
    return Table(frame.astype(exact), said)


def split_target(frame: pd.DataFrame, targets: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split a table into inputs, which are all other columns in the table's order, and the targets as listed.

    Examples
    --------
    >>> import pandas as pd
    >>> from sodgp.tables.files import split_target
    >>> X, y = split_target(pd.DataFrame({"a": [1], "b": [2], "c": [3]}), ["b"])
    >>> list(X), list(y)
    (['a', 'c'], ['b'])
    """
    targets = [targets] if isinstance(targets, str) else list(targets)
    columns = [str(column) for column in frame.columns]
    if not targets:
        raise InputError(f"No target column was named. Columns: {_listing(columns)}.")
    _refuse_repeats(targets, "The target")
    for target in targets:
        if target not in columns:
            folded = {column.casefold(): column for column in reversed(columns)}
            near = [folded[match] for match in difflib.get_close_matches(target.casefold(), folded)]
            guess = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise InputError(f"The table has no column {target!r}.{guess} Columns: {_listing(columns)}.")
    inputs = [column for column in columns if column not in targets]
    if not inputs:
        raise InputError("No column is left as an input: all are targets or were dropped.")
    return frame[inputs], frame[targets]


def _read_text(path: Path, separators: str, given: Mapping[str, str | None]) -> Table:
    require(("pandas",), f"Reading {path.name}")
    import pandas as pd

    dialect = None
    try:
        _check_length(path)
        dialect = guess(path, separators, **given)
        header = header_of(path, dialect)
        if not header:
            raise InputError(f"{path} is empty.")
        unnamed = [number for number, column in enumerate(header, start=1) if not column.strip()]
        if len(unnamed) == len(header):
            raise InputError(f"{path}: column 1 has no name, nor has any other. The first row must name the columns.")
        _refuse_repeats([column for column in header if column.strip()], f"{path}: the column name")
        with opened(path) as handle, warnings.catch_warnings():
            # pandas only warns when rows are longer than the header, and then drops their last cells.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(handle, **dialect.reading)
        names = ", ".join(f"{number} has no name, called {frame.columns[number - 1]!r}" for number in unnamed)
        return Table(frame, "; ".join(part for part in (dialect.said, f"column {names}" if names else "") if part))
    except UnicodeError as error:
        what = f"is not {dialect.encoding if dialect else given.get('encoding')} text"
        raise InputError(f"{path} {what} ({error}). Save the table as UTF-8 CSV.") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError, csv.Error) as error:
        raise InputError(f"{path} is not a well-formed table: {str(error).strip()}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except MemoryError as error:
        raise _too_large(path, error) from error


def _read_parquet(path: Path) -> pd.DataFrame:
    require(("pandas", "pyarrow"), f"Reading {path.name}")
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.stat().st_size:
        raise InputError(f"{path} is empty.")
    try:
        described = pq.read_metadata(path)
        groups = (described.row_group(number) for number in range(described.num_row_groups))
        unpacked = max(sum(group.total_byte_size for group in groups), 8 * described.num_rows * described.num_columns)
        require_memory(_COPIES * unpacked, f"{path.name}, unpacked,", _PARTS)
        frame = pd.read_parquet(path, engine="pyarrow")
        # Columns that pandas keeps as the index are columns; numbers of rows, which have no name, are not.
        named = [name for name in frame.index.names if name is not None]
        frame = frame.reset_index(named).reset_index(drop=True)
    except ResourceError:
        raise
    except MemoryError as error:
        raise _too_large(path, error) from error
    # Pandas trusts its own metadata in the file, even if it is wrong.
    except (ValueError, OSError, pa.ArrowException, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error
    frame.columns = [str(column) for column in frame.columns]
    _refuse_repeats(list(frame.columns), f"{path}: the column name")
    return frame


def holds_python_numbers(column: pd.Series) -> bool:
    """Whether a column holds decimals, or integers of more digits than numpy's."""
    import pandas as pd

    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in ("decimal", "integer")


def _check_length(path: Path) -> None:
    """Refuse a table that does not fit into memory before it is read: a small packed file can unpack to anything."""
    there = available_memory()
    limit = None if there is None else there // _COPIES
    length = path.stat().st_size
    if path.name.lower().endswith(".gz"):
        length = 0
        with opened(path) as handle:
            while piece := handle.read(_PIECE):
                length += len(piece)
                if limit is not None and length > limit:
                    break
    require_memory(_COPIES * length, f"{path.name}, unpacked,", _PARTS)


def _too_large(path: Path, error: BaseException) -> ResourceError:
    return ResourceError(f"{path} does not fit into memory ({error}). {_PARTS}", needed=None, available=None)


def _refuse_repeats(names: list[str], what: str) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(f"{what} {' and '.join(map(repr, repeated))} occurs more than once.")


def _listing(columns: list[str], limit: int = 20) -> str:
    shown = ", ".join(map(repr, columns[:limit]))
    return shown if len(columns) <= limit else f"{shown} and {len(columns) - limit} more"
