"""Converts the archives that UCI publishes to numeric tables with the target in the last column.

Each function takes the path of a zip archive and returns a float64 table, shape [N, D + 1], in the original row order;
none of them rounds, scales or drops a row of data.
"""

from __future__ import annotations

import io
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from sodgp.errors import InputError
from sodgp.system.validation import FloatArray

YEAR_MEMBER = "YearPredictionMSD.txt"


def require(packages: Iterable[str], purpose: str) -> None:
    """Raise InputError, which begins with `purpose`, unless these optional packages are installed."""
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise InputError(f"{purpose} needs {' and '.join(missing)}: run `pip install {' '.join(missing)}`.")


def read_numbers(lines: IO[str], *, delimiter: str | None, skip_rows: int, what: str) -> FloatArray:
    """Read a rectangular block of numbers; without rows after the header its shape is ``[0, 0]`` or ``[0, 1]``.

    `delimiter=None` is any white space. InputError, in which `what` names the file, for anything else than numbers.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "no data": the caller's check of the shape says it better
            return np.loadtxt(lines, dtype=np.float64, delimiter=delimiter, skiprows=skip_rows, ndmin=2, comments=None)
    except ValueError as error:
        raise InputError(f"{what} is not a table of numbers: {error}") from error


def wine(archive: Path) -> FloatArray:
    """Red wine quality: semicolons, one header row, target last. Shape [1599, 12]."""
    with _text(archive, "winequality-red.csv") as lines:
        return read_numbers(lines, delimiter=";", skip_rows=1, what="winequality-red.csv")


def protein(archive: Path) -> FloatArray:
    """Protein tertiary structure: commas, one header row, target first. Shape [45730, 10]."""
    with _text(archive, "CASP.csv") as lines:
        return _first_column_last(read_numbers(lines, delimiter=",", skip_rows=1, what="CASP.csv"))


def naval(archive: Path) -> FloatArray:
    """Naval propulsion: white space, no header; the last column (turbine decay) is dropped. Shape [11934, 17]."""
    with _text(archive, "data.txt") as lines:
        return read_numbers(lines, delimiter=None, skip_rows=0, what="data.txt")[:, :-1]


def year(archive: Path) -> FloatArray:
    """Year of a song, from the archive. Shape [515345, 91]."""
    with _text(archive, YEAR_MEMBER) as lines:
        return year_text(lines)


def year_text(lines: IO[str]) -> FloatArray:
    """Year of a song, from the unpacked text: commas, no header, the year first. Shape [515345, 91]."""
    return _first_column_last(read_numbers(lines, delimiter=",", skip_rows=0, what=YEAR_MEMBER))


def concrete(archive: Path) -> FloatArray:
    """Concrete strength, an old Excel sheet with the target last. Shape [1030, 9]."""
    return _sheet(archive, "Concrete_Data.xls", engine="xlrd")


def energy(archive: Path) -> FloatArray:
    """Energy efficiency, an Excel sheet; the last column (cooling load) is dropped. Shape [768, 9]."""
    return _sheet(archive, "ENB2012_data.xlsx", engine="openpyxl")[:, :-1]


def _first_column_last(table: FloatArray) -> FloatArray:
    return np.roll(table, -1, axis=1)


def _sheet(archive: Path, member: str, engine: str) -> FloatArray:
    require(("pandas", engine), f"Reading {member}")
    import pandas as pd

    with _member(archive, member) as handle:
        workbook = io.BytesIO(handle.read())
    try:
        table = pd.read_excel(workbook, engine=engine).to_numpy(dtype=np.float64)
    except Exception as error:  # each engine has its own classes for a damaged workbook
        raise InputError(f"{member} could not be read as an Excel sheet: {error}") from error
    filled = ~np.isnan(table)
    # The published energy sheet has formatted but empty rows and columns after the data.
    return np.asarray(table[filled.any(axis=1)][:, filled.any(axis=0)], dtype=np.float64)


@contextmanager
def _member(archive: Path, name: str) -> Iterator[IO[bytes]]:
    """Open one file of a zip archive by its base name; damage of the archive becomes an `InputError`."""
    try:
        with zipfile.ZipFile(archive) as bundle:
            matches = [path for path in bundle.namelist() if PurePosixPath(path).name == name]
            if not matches:
                raise InputError(f"The archive {archive.name} holds no file {name}; it holds {bundle.namelist()[:10]}.")
            with bundle.open(matches[0]) as handle:
                yield handle
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"{archive.name} is not a whole zip archive: {error}") from error


@contextmanager
def _text(archive: Path, name: str) -> Iterator[IO[str]]:
    with _member(archive, name) as handle, io.TextIOWrapper(handle, encoding="utf-8") as lines:
        yield lines
