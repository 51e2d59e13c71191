"""Files and folders that are written whole or not at all.

Everything is written under a scratch name beside its destination, waited for until it is on the disk, and moved into
place in one step. Two processes that write to one path do not mix: the later one wins.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

StrPath = str | os.PathLike[str]

# Linux: the "current folder" of the ...at calls, and the flag of renameat2 that swaps two names.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def write_whole(path: StrPath, write: Callable[[Path], None]) -> None:
    """Let `write` fill a scratch file beside `path`, and move it there once it is complete; folders above are made."""
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(target) as temporary:
        write(temporary)
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    _sync_folder(target.parent)


def write_text_whole(path: StrPath, text: str) -> None:
    """The same for text, in UTF-8."""
    write_whole(path, lambda scratch: write_bytes(scratch, text.encode()))


def write_whole_folder(path: StrPath, fill: Callable[[Path], None]) -> None:
    """Let `fill` put files into a scratch folder beside `path`, and move it there; what was there before is removed.

    Linux swaps two folders in one call. Elsewhere the old folder steps aside first, so that for a moment there is
    nothing at `path`; it comes back if the new one cannot be moved.
    """
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(target) as temporary:
        temporary.mkdir()
        fill(temporary)
        _sync_folder(temporary)
        if not _placed(temporary, target):
            with held(target, alone=True):
                if not _exchanged(temporary, target):
                    _replaced_by_stepping_aside(temporary, target)
        _sync_folder(target.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with path.open("xb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


@contextmanager
def held(folder: Path, *, alone: bool, patience: float = 10.0) -> Iterator[None]:
    """Keep others who do the same from replacing a folder while it is read, or from reading it while it is replaced.

    Parameters
    ----------
    folder : Path
    alone : bool
        For a writer; readers hold it together.
    patience : float
        Seconds after which the block runs anyway: whoever holds a folder for so long is not at work on it. So it does
        at once where the system or the disk has no such locks.
    """
    descriptor = _lock(folder, alone, time.monotonic() + patience) if sys.platform != "win32" else None
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Hold a folder against others who do the same while the block runs; yields whether it could be had at once.

    Where the system has no such locks, everybody is taken to be alone; where the disk has none, nobody.
    """
    descriptor = _lock(folder, alone=True, deadline=0.0)
    try:
        yield descriptor is not None or sys.platform == "win32"
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(folder: Path, alone: bool, deadline: float) -> int | None:
    """An open folder with its lock taken; None where there is none to be had."""
    if sys.platform == "win32":
        return None
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    while True:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
                return descriptor
            os.close(descriptor)  # another folder has taken this one's place in the meantime
        except BlockingIOError:
            os.close(descriptor)
            time.sleep(0.005)
        except OSError:
            os.close(descriptor)
            return None
        if time.monotonic() > deadline:
            return None


def _placed(temporary: Path, target: Path) -> bool:
    """Move a folder to where nothing, or an empty folder, is; False if something is there."""
    try:
        os.replace(temporary, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) or (os.name == "nt" and target.is_dir()):
            return False
        raise
    return True


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two paths in one call; False where the system or the disk cannot."""
    if not sys.platform.startswith("linux"):
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if not renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        return True
    code = ctypes.get_errno()
    if code in _CANNOT_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), os.fspath(other))


def _replaced_by_stepping_aside(temporary: Path, target: Path) -> None:
    aside = _beside(target)
    os.replace(target, aside)
    try:
        os.replace(temporary, target)
    except BaseException:
        os.rename(aside, target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """A path beside `target` for a file or folder; what is left there is removed."""
    path = _beside(target)
    try:
        yield path
    finally:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")


def _sync_folder(folder: Path) -> None:
    """Make renames inside a folder last through a power cut, where the system can."""
    if os.name != "posix":
        return
    with suppress(OSError):  # some network disks cannot; the model is in place all the same
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
