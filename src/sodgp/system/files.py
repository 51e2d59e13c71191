"""Files that are written whole or not at all, and locks on folders."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

StrPath = str | os.PathLike[str]


def write_whole(path: StrPath, write: Callable[[Path], int | None]) -> None:
    """Let `write` fill a scratch file next to `path`, and rename it once it is complete; folders above are made.

    A reader finds the old contents or the new, never a mixture, whatever is killed or fails. If two processes write at
    the same time, the later one wins.
    """
    target = Path(path).resolve()
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
def alone_in(folder: Path) -> Iterator[bool]:
    """Lock a folder against other callers while the block runs; yields whether the lock was free.

    On Windows the answer is always yes, on disks without locks always no. Unlike filelock's, the lock is on the folder
    itself and leaves no file in it.
    """
    if sys.platform == "win32":
        yield True
        return
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The previous holder of the lock may have removed the folder.
        is_alone = os.path.samestat(os.fstat(descriptor), os.stat(folder))
    except OSError:
        is_alone = False
    try:
        yield is_alone
    finally:
        if descriptor is not None:
            os.close(descriptor)


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
