"""Folders of rows on disk: written whole or not at all, by one process at a time, found by what they depend on."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sodgp.errors import InputError, ResourceError
from sodgp.system.files import alone_in
from sodgp.system.memory import GB

__all__ = ["Place", "place_of"]

_ABOUT = "about.json"
_BUILDING = ".building"
_WAIT_SECONDS = 0.2
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def place_of(cache: Path | None) -> Iterator[Place]:
    """The folder of a cache; without one a temporary folder, which is removed at the end of the block."""
    if cache is not None:
        yield Place(cache)
        return
    try:
        temporary = tempfile.TemporaryDirectory(prefix="sodgp-rows-", ignore_cleanup_errors=True)
    except OSError as error:
        raise InputError(f"there is no folder for temporary files ({error}); name one with cache=.") from error
    with temporary as folder:
        yield Place(Path(folder))


class Place:
    """A folder in which every entry is a folder with files and a description.

    Examples
    --------
    >>> with place_of(None) as place:
    ...     entry, about = place.entry({"of": "x"}, lambda folder: {"rows": (folder / "a").write_bytes(b"12")})
    ...     place.entry({"of": "x"}, lambda folder: {})[1]
    {'rows': 2}
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def entry(
        self, key: Mapping[str, Any], build: Callable[[Path], dict[str, Any]], needed: int = 0
    ) -> tuple[Path, dict[str, Any]]:
        """The entry for a key, and what `build` says about it, which writes its files to a scratch folder.

        Parameters
        ----------
        key : mapping
            JSON of all that the files depend on.
        build : function of a folder
            Returns the description, as JSON.
        needed : int
            Bytes that it will write at most.

        Raises
        ------
        ResourceError
            The disk is full, or has fewer bytes.
        InputError
            The folder cannot be used.
        """
        text = json.dumps(key, sort_keys=True)
        entry = self.folder / hashlib.sha256(text.encode()).hexdigest()[:20]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._remove_leftovers()
            with self._alone(entry.with_name(entry.name + _BUILDING)) as scratch:
                about = _read(entry)
                if about is None:
                    self._check_room(needed)
                    about = build(scratch)
                    (scratch / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
                    shutil.rmtree(entry, ignore_errors=True)
                    os.replace(scratch, entry)
            return entry, about
        except OSError as error:
            if error.errno in _FULL:
                raise self._no_room(needed, f"is full ({error.strerror})") from error
            raise InputError(f"the rows cannot be kept in {self.folder}: {error}. Name another folder.") from error

    @contextmanager
    def _alone(self, scratch: Path) -> Iterator[Path]:
        """An empty scratch folder for this process alone: others that want it wait. It is gone afterwards."""
        while True:
            scratch.mkdir(exist_ok=True)
            with alone_in(scratch) as is_alone:
                # Another process may have renamed the folder after it was made here.
                if is_alone is not False and scratch.exists():
                    for path in scratch.iterdir():
                        path.unlink()
                    try:
                        yield scratch
                    finally:
                        shutil.rmtree(scratch, ignore_errors=True)
                    return
            time.sleep(_WAIT_SECONDS)

    def _remove_leftovers(self) -> None:
        """Remove what processes have left behind that were killed."""
        for scratch in self.folder.glob(f"*{_BUILDING}"):
            with alone_in(scratch) as is_alone:
                if is_alone:
                    shutil.rmtree(scratch, ignore_errors=True)

    def _check_room(self, needed: int) -> None:
        there = shutil.disk_usage(self.folder).free
        if needed > there:
            raise self._no_room(needed, f"has room for {there / GB:.2f} GB")

    def _no_room(self, needed: int, how: str) -> ResourceError:
        return ResourceError(
            f"the scaled and shuffled rows need up to {needed / GB:.2f} GB, and the disk of {self.folder} {how}."
            " Name a folder on another disk: open_rows(..., cache=...), on the command line --cache.",
            needed=needed,
            available=None,
        )


def _read(entry: Path) -> dict[str, Any] | None:
    """The description of an entry; None where there is none."""
    try:
        about: dict[str, Any] = json.loads((entry / _ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return about
