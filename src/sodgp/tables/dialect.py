"""How a text file is written: its encoding, separator and decimal sign, as given or as the file shows."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from sodgp.errors import ConfigurationError, InputError

__all__ = ["Dialect", "guess", "opened"]

SEPARATORS = ",;\t|"
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_SNIFFED_BYTES, _SNIFFED_ROWS, _PIECE = 65_536, 500, 2**20
# What no text holds, other than tab, line ends and form feed.
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f]")
_COMMA = re.compile(r"\s*[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+\s*")
_POINT = re.compile(r"\s*[+-]?\d*\.\d+\s*")
_EITHER = re.compile(r"\s*[+-]?\d{1,3},\d{3}\s*")


@dataclass(frozen=True)
class Dialect:
    """How to read a text table."""

    encoding: str
    separator: str
    decimal: str = "."

    @property
    def reading(self) -> dict[str, Any]:
        """Arguments of pandas.read_csv that all readers share."""
        return {
            "sep": self.separator,
            "encoding": self.encoding,
            "decimal": self.decimal,
            "skipinitialspace": True,
            "index_col": False,
            "low_memory": False,
        }

    @property
    def said(self) -> str:
        """What is not as usual, in words; empty for UTF-8 with commas or tabs and points."""
        parts = []
        if self.separator in ";|":
            parts.append(f"columns separated by a {_NAMES[self.separator]}")
        if self.decimal == ",":
            parts.append("a decimal comma")
        if self.encoding not in ("utf-8-sig", "utf-8"):
            parts.append(f"encoding {self.encoding}")
        return "; ".join(parts)


def guess(
    path: Path,
    separators: str = SEPARATORS,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Dialect:
    r"""How a file is written, where that is not given.

    The encoding is UTF-8 if the whole file is, else that of its mark, else Windows-1252, which holds Latin-1. The
    separator is the one that splits the header into the most columns. The decimal sign is a comma where the first rows
    have numbers with a comma, none with a point, and the comma can be no sign for thousands.

    Raises
    ------
    InputError
        The file is no text.
    ConfigurationError
        Something given is unknown.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_bytes("Größe;Ort\n1,75;Köln\n".encode("latin-1"))
    ...     guess(Path(folder, "t.csv")).said
    'columns separated by a semicolon; a decimal comma; encoding cp1252'
    """
    if decimal not in (None, ".", ","):
        raise ConfigurationError(f"the decimal sign must be '.' or ',', not {decimal!r}.")
    if separator is not None and len(separator) != 1:
        raise ConfigurationError(f"the separator must be one sign, such as ';', not {separator!r}.")
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except LookupError as error:
            raise ConfigurationError(f"encoding {encoding!r} is unknown; try utf-8, latin-1, cp1252.") from error
    found = encoding or _encoding(path)
    if separator is None:
        headers = {sign: next(_rows(path, found, sign), []) for sign in separators}
        separator = max(separators, key=lambda sign: len(headers[sign]))
    if decimal is not None:
        return Dialect(found, separator, decimal)
    return Dialect(found, separator, _decimal(path, found, separator))


def _encoding(path: Path) -> str:
    with opened(path) as handle:
        start = handle.read(_SNIFFED_BYTES)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        if b"\0" in start:
            raise InputError(f"{path} is not a text file (it holds zero bytes). Save the table as UTF-8 CSV.")
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            piece = start
            while piece:
                decoder.decode(piece)
                piece = handle.read(_PIECE)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            if _CONTROL.search(start):
                raise InputError(f"{path} is not a text file ({error}). Save the table as UTF-8 CSV.") from error
            return "cp1252"
    return "utf-8-sig"


def _decimal(path: Path, encoding: str, separator: str) -> str:
    if separator == ",":
        return "."
    cells = [
        cell for row, _ in zip(_rows(path, encoding, separator), range(_SNIFFED_ROWS), strict=False) for cell in row
    ]
    comma = [cell for cell in cells if _COMMA.fullmatch(cell)]
    is_point = not comma or any(map(_POINT.fullmatch, cells)) or all(map(_EITHER.fullmatch, comma))
    return "." if is_point else ","


def _rows(path: Path, encoding: str, separator: str) -> Iterator[list[str]]:
    """The rows of the file that are not blank, of which the header is the first."""
    with opened(path) as handle, io.TextIOWrapper(handle, encoding=encoding, newline="") as lines:
        for row in csv.reader(lines, delimiter=separator, skipinitialspace=True):
            if len(row) > 1 or "".join(row).strip():
                yield row


def header_of(path: Path, dialect: Dialect) -> list[str]:
    """The cells of the first row that is not blank."""
    return next(_rows(path, dialect.encoding, dialect.separator), [])


def opened(path: Path) -> IO[bytes]:
    """A file, unpacked while it is read."""
    return cast(IO[bytes], gzip.open(path)) if path.name.lower().endswith(".gz") else path.open("rb")
