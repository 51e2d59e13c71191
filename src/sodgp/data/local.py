"""Data sets on this machine: the canonical table, its checksum, and the folders that are searched."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sodgp.data import convert
from sodgp.data.catalogue import Entry, find
from sodgp.data.dataset import DataSet
from sodgp.errors import InputError
from sodgp.system.validation import FloatArray

ENVIRONMENT_VARIABLE = "SODGP_DATA"
_PIECE = 2**20
_MAX_PIECES = 1024


def canonical_csv(columns: Sequence[str], table: ArrayLike) -> bytes:
    r"""A numeric table [N, D + 1] as a file in the form that the checksums of the catalogue refer to.

    UTF-8, commas, LF, one header row; each number is the shortest text that gives back the same float64, whole numbers
    without a decimal point. InputError unless there is one column for each name.

    Examples
    --------
    >>> from sodgp.data import canonical_csv
    >>> canonical_csv(["a", "b"], [[1.0, 0.1], [-2.5, 1e-7]])
    b'a,b\n1,0.1\n-2.5,1e-07\n'
    """
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(columns):
        raise InputError(f"A table of shape {list(values.shape)} does not fit {len(columns)} column names.")
    lines = [",".join(columns)]
    lines += [",".join([repr(value).removesuffix(".0") for value in row]) for row in values.tolist()]
    return ("\n".join(lines) + "\n").encode()


def checked_table(entry: Entry, contents: bytes, origin: str) -> FloatArray:
    """The canonical table [N, D + 1], target last; InputError, which names its `origin`, for a wrong checksum."""
    found = hashlib.sha256(contents).hexdigest()
    if found != entry.sha256_csv:
        raise InputError(
            f"{origin} is not the set {entry.name!r}: the sha256 of its unpacked table is {found}, not "
            f"{entry.sha256_csv}. It was changed or damaged."
        )
    text = io.TextIOWrapper(io.BytesIO(contents), encoding="utf-8")
    return convert.read_numbers(text, delimiter=",", skip_rows=1, what=origin)


def check_shape(entry: Entry, table: FloatArray, origin: str) -> FloatArray:
    """The table itself, if it has the rows and columns of the set and only finite values; InputError if not."""
    expected = (entry.rows, len(entry.columns))
    if table.shape != expected:
        raise InputError(
            f"{origin} has {table.shape[0]} rows and {table.shape[1]} columns; the set {entry.name!r} has "
            f"{expected[0]} and {expected[1]} (no header row). The file is cut short or is another one."
        )
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if bad.size:
        raise InputError(f"{origin} holds a value that is not a finite number in row {bad[0] + 1}.")
    return table


def lose_tens_digit(table: FloatArray, columns: Sequence[str]) -> FloatArray:
    """A copy of the Boston table, damaged as the file of the paper's authors is.

    A fixed-width reader guessed the column edges from the first 100 rows and so lost the tens digit of every value of
    at least 10 in ``crim``, ``dis`` and ``rad``: 13.5222 became 3.5222, 24 became 4. It also rounded the five decimals
    of ``crim`` twice, so that 111 values differ in their last bits. For comparison with the published numbers only.
    """
    damaged = table.copy()
    for name in ("crim", "dis", "rad"):
        column = damaged[:, columns.index(name)]
        # On the text, not by subtracting 10: 13.5222 - 10 is 3.5222000000000007.
        column[:] = [float(repr(value)[1:]) if value >= 10 else value for value in column.tolist()]
    crim = damaged[:, columns.index("crim")]
    crim[:] = np.rint(crim * 1e5) / 10 / 1e4  # a whole number, divided by 10 and then by 10^4: two roundings
    return damaged


def search_folders(data_dir: str | os.PathLike[str] | None) -> Iterator[Path]:
    """`data_dir`, the folder named by ``SODGP_DATA`` and the user's cache; InputError if a named one is no folder."""
    named = (("data_dir", data_dir), (ENVIRONMENT_VARIABLE, os.environ.get(ENVIRONMENT_VARIABLE) or None))
    for origin, value in named:
        if value is None:
            continue
        folder = Path(value).expanduser()
        if not folder.is_dir():
            raise InputError(f"{origin} names {str(folder)!r}, which is not a folder.")
        yield folder
    yield cache_dir()


def cache_dir() -> Path:
    """Folder for downloaded sets, where the platform keeps caches; it need not exist yet."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("sodgp"))


def load_from(folder: Path, entry: Entry) -> DataSet | None:
    """The set, if it is in the folder; InputError if a file of its name is damaged or another set."""
    for path in (folder / file for file in entry.files):
        if path.is_file():
            return DataSet.from_table(entry.name, entry.columns, _read(path, entry))
    if entry.name == "boston_authors":
        sound = find("boston")
        path = folder / sound.files[0]
        if path.is_file():
            damaged = canonical_csv(entry.columns, lose_tens_digit(_read(path, sound), sound.columns))
            table = checked_table(entry, damaged, f"The table derived from {path}")
            return DataSet.from_table(entry.name, entry.columns, table)
    return None


def _read(path: Path, entry: Entry) -> FloatArray:
    try:
        return _read_checked(path, entry)
    except InputError as error:
        raise InputError(f"{error} Remove the file or replace it.") from error


def _read_checked(path: Path, entry: Entry) -> FloatArray:
    try:
        if path.suffix == ".zip":
            return check_shape(entry, convert.year(path), str(path))
        if path.suffix == ".txt":
            with path.open(encoding="utf-8") as lines:
                return check_shape(entry, convert.year_text(lines), str(path))
        with gzip.open(path) as handle:
            contents = b"".join(itertools.islice(iter(lambda: handle.read(_PIECE), b""), _MAX_PIECES + 1))
    except (EOFError, zlib.error, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    if len(contents) > _MAX_PIECES * _PIECE:
        raise InputError(f"{path} unpacks to more than {_MAX_PIECES} MB; no set of the catalogue is so large.")
    return checked_table(entry, contents, str(path))
