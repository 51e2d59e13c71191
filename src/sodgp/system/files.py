"""Files that are written whole or not at all, and locks on folders."""

from __future__ import annotations

import errno
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

StrPath = str | os.PathLike[str]

_LOCK_FILE = ".sodgp-lock"


def write_whole(path: StrPath, write: Callable[[Path], int | None]) -> None:
    """Let `write` fill a scratch file next to `path`, and rename it once it is complete; folders above are made.

    A reader finds the old contents or the new, never a mixture, whatever is killed or fails. If two processes write at
    the same time, the later one wins.
    """
    # Not `Path.resolve`, whose error about links in a circle is no OSError.
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        write(scratch)
        with scratch.open("rb+") as handle:
            os.fsync(handle.fileno())
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)
    _sync_folder(target.parent)


def write_bytes_whole(path: StrPath, content: bytes) -> None:
    """Write bytes as `write_whole` does."""
    write_whole(path, lambda scratch: scratch.write_bytes(content))


def write_text_whole(path: StrPath, text: str) -> None:
    """Write text in UTF-8 as `write_whole` does."""
    write_bytes_whole(path, text.encode())


def is_scratch_of(path: Path, target: Path) -> bool:
    """Whether a file is a scratch file of `write_whole` for `target`, perhaps left behind when it was killed."""
    return path.name.startswith(f".{target.name}.") and path.name.endswith(".tmp")


@contextmanager
def alone_in(folder: Path) -> Iterator[bool | None]:
    """Lock a folder against other callers while the block runs; yields whether the lock was free, None if it has none.

    The system ends the lock of a process that dies, so none is ever stale. Unlike filelock's it is on the folder itself
    and leaves nothing behind; where folders cannot be locked (Windows, some network disks) it is on a file in it, which
    stays.
    """
    descriptor, is_alone = _locked(folder)
    try:
        yield is_alone
    finally:
        if descriptor is not None:
            _unlock(descriptor)
            os.close(descriptor)


def _locked(folder: Path) -> tuple[int | None, bool | None]:
    """An open descriptor, and whether it is locked now; None where that cannot be said."""
    places = [(folder, os.O_RDONLY | os.O_DIRECTORY)] if sys.platform != "win32" else []
    for place, flags in [*places, (folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT)]:
        descriptor = None
        try:
            descriptor = os.open(place, flags)
            _lock(descriptor)
            # The previous holder of the lock may have removed the folder.
            return descriptor, os.path.samestat(os.fstat(descriptor), os.stat(place))
        except OSError as error:
            if descriptor is not None:
                os.close(descriptor)
            if descriptor is not None and error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                return None, False
    return None, None


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlock(descriptor: int) -> None:
    """Also in the name of copies of the descriptor, which processes forked meanwhile may have."""
    with suppress(OSError):
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _sync_folder(folder: Path) -> None:
    """Make renames inside a folder last through a power cut, where the system can."""
    if os.name != "posix":
        return
    with suppress(OSError):  # some network disks cannot; the file is in place all the same
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
