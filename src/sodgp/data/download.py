"""Downloads that can be interrupted: a `.part` file that is resumed, a checksum, and a rename at the very end.

Nothing appears under the final name before its contents were checked. A part file stays after a broken connection, so
that the next call resumes it, and is removed if its contents are wrong. Two processes at once have separate part files.
"""

from __future__ import annotations

import gzip
import http.client
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sodgp.data.catalogue import Entry, Source
from sodgp.data.convert import require
from sodgp.data.dataset import DataSet
from sodgp.data.local import ENVIRONMENT_VARIABLE, cache_dir, canonical_csv, check_shape, checked_table
from sodgp.errors import InputError, SodgpError
from sodgp.system.files import alone_in, write_bytes_whole
from sodgp.system.validation import FloatArray


class DataUnavailableError(SodgpError, OSError):
    """A data set that is not on this machine and could not be fetched either.

    Examples
    --------
    >>> try:
    ...     raise DataUnavailableError("The set 'boston' is not on offer for download.")
    ... except OSError as error:  # as for any file that is not there
    ...     print(error)
    The set 'boston' is not on offer for download.
    """


class _InterruptedError(Exception):
    """The connection ended early; what arrived is in the part file."""


def obtain(entry: Entry, folder: Path) -> DataSet:
    """Download a set, check it, and keep it in a folder, which is made if it does not exist.

    DataUnavailableError if that fails, InputError if an optional package that reads the original is not installed.
    """
    advice = _advice(entry)
    source = entry.source
    if source is None:
        raise DataUnavailableError(f"The set {entry.name!r} is not on offer for download: {entry.no_source}. {advice}")
    # Before a download that would be useless.
    require(source.packages, f"Making the set {entry.name!r} out of UCI's file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _place_for_a_part(folder) as place:
            table = _fetched(entry, source, folder, place / f"{entry.name}.zip.part")
    except InputError as error:
        raise DataUnavailableError(f"The download of {entry.name!r} was thrown away. {error} {advice}") from error
    except DataUnavailableError as error:
        raise DataUnavailableError(f"The set {entry.name!r} could not be downloaded. {error} {advice}") from error
    except OSError as error:
        raise DataUnavailableError(
            f"The set {entry.name!r} could not be kept in {folder}: {error}. {advice}"
        ) from error
    return DataSet.from_table(entry.name, entry.columns, table)


@contextmanager
def _place_for_a_part(folder: Path) -> Iterator[Path]:
    """The folder itself, where a part is resumed; for this call alone while another process downloads into it."""
    with alone_in(folder) as is_alone:
        if is_alone:
            yield folder
            return
        with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as temporary:
            yield Path(temporary)


def _fetched(entry: Entry, source: Source, folder: Path, part: Path) -> FloatArray:
    """Download the file, check it, and keep it under its final name; wrong contents are removed."""
    transfer(source.url, part)
    try:
        table = source.convert(part)
        if entry.sha256_csv is None:
            check_shape(entry, table, source.url)
            os.replace(part, folder / entry.files[-1])
        else:
            contents = canonical_csv(entry.columns, table)
            checked_table(entry, contents, source.url)
            write_bytes_whole(folder / entry.files[0], gzip.compress(contents, mtime=0))
            part.unlink()
    except InputError:
        part.unlink(missing_ok=True)
        raise
    return table


def transfer(url: str, part: Path, *, attempts: int = 3, timeout: float = 30.0) -> None:
    """Download a file over HTTP, and resume it where an earlier call was cut short.

    The bytes in `part` are kept and the rest is requested with a Range header; a server that does not support it sends
    everything, and the file is begun again. After `timeout` seconds without an answer a connection counts as broken.
    DataUnavailableError if the server cannot be reached, refuses, or no attempt completes the file (`part` is kept).
    """
    problem = ""
    for _ in range(attempts):
        try:
            _transfer_once(url, part, timeout)
        except _InterruptedError as interruption:
            problem = str(interruption)
        else:
            return
    raise DataUnavailableError(
        f"The transfer from {url} was cut short in {attempts} attempts ({problem}). "
        "What arrived is kept: load the set again to resume the transfer."
    )


def _transfer_once(url: str, part: Path, timeout: float) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "sodgp"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            # The part file is not the beginning of the server's present file.
            part.unlink()
            raise _InterruptedError("the file on the server has changed") from error
        raise DataUnavailableError(f"The server answered {error.code} {error.reason} for {url}.") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise DataUnavailableError(f"No connection to {url} ({reason}). Is this machine offline?") from error

    with response:
        resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink(missing_ok=True)
            raise _InterruptedError("the server sent another range than the one asked for")
        length = response.headers.get("Content-Length")
        expected = None if length is None else int(length) + (have if resumed else 0)
        try:
            with part.open("ab" if resumed else "wb") as handle:
                shutil.copyfileobj(response, handle)
        except (OSError, http.client.HTTPException) as error:
            raise _InterruptedError(str(error)) from error
    size = part.stat().st_size
    if expected is not None and size < expected:
        raise _InterruptedError(f"{size} of {expected} bytes arrived")


def _advice(entry: Entry) -> str:
    return (
        f"If you have the file, put it as {' or '.join(entry.files)} into the folder that {ENVIRONMENT_VARIABLE} "
        f"or data_dir names, or into {cache_dir()}."
    )
