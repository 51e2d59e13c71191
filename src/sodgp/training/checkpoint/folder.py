"""Checkpoint files: a folder with the last two states of a run, one safetensors file each. No pickle.

A file is written under another name and renamed when it is complete, so a process that is killed leaves only whole
files. Each has a SHA-256 of its content; if that does not match, the file before it is read. This module knows nothing
of training; `sodgp.training.checkpoint.journal` says what a checkpoint holds.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from sodgp.errors import CheckpointError, CheckpointWarning
from sodgp.system.container import Record
from sodgp.system.files import StrPath, alone_in, write_bytes_whole

FORMAT = "sodgp-checkpoint"
FORMAT_VERSION = 2
KEPT = 2
_NAME = re.compile(r"checkpoint-(\d{8,})\.safetensors")
# Left behind by a process that was killed while it wrote.
_SCRATCH = re.compile(r"\.{1,2}checkpoint-(trial|.*\.tmp)")


@dataclass(frozen=True)
class Cadence:
    """How often a checkpoint is written: after so many steps, or else so many seconds."""

    steps: int | None = None
    seconds: float | None = None

    def is_due(self, count: int, last: float) -> bool:
        """Whether to write after step number `count`; `last` is when that was done last, by `time.monotonic`."""
        if self.steps is not None:
            return count % self.steps == 0
        return self.seconds is not None and time.monotonic() - last >= self.seconds


@contextmanager
def sole_fit_in(path: Path) -> Iterator[None]:
    """Keep a folder, made if it is missing, for one fit while the block runs.

    Raises
    ------
    CheckpointError
        Another fit has it now, which would lose its checkpoints; or it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error
    with alone_in(path) as is_alone:
        if is_alone is False:
            raise CheckpointError(
                f"another fit is writing its checkpoints to {path} at this moment: each fit needs a folder of its own."
                " Name another one, or wait until that fit has ended."
            )
        yield


class CheckpointFolder:
    """The checkpoints of one run, in a folder that is made if it is missing; other files in it are left alone.

    Once training runs, a folder that is removed, replaced or closed costs the checkpoints, with a warning, and never
    the fit. A pipe or folder that has a checkpoint's name is none.

    CheckpointError if nothing can be written there: better now than after the first hour.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = Path(path)
        self._mine: list[Path] = []
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for file in self.path.iterdir():
                if _SCRATCH.fullmatch(file.name):
                    file.unlink(missing_ok=True)
            trial = self.path / ".checkpoint-trial"
            write_bytes_whole(trial, b"can be written")
            trial.unlink(missing_ok=True)
            self._serial = max(map(_number, self._named()), default=0)
        except OSError as error:
            raise _unwritable(path, error) from error

    def files(self) -> list[Path]:
        """All checkpoints, newest first."""
        return sorted((file for file in self._named() if file.is_file()), key=_number, reverse=True)

    def _named(self) -> list[Path]:
        """Whatever has the name of a checkpoint."""
        return [file for file in self.path.iterdir() if _NAME.fullmatch(file.name)]

    def write(self, info: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bool:
        """Write a checkpoint (JSON and tensors) and remove all but the last two; whether it was written.

        If the disk refuses, it warns and leaves the others.
        """
        held = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        text = json.dumps({"format_version": FORMAT_VERSION, **info}, allow_nan=False, ensure_ascii=False)
        content = to_bytes(held, metadata={FORMAT: text, "sha256": _digest(text, held)})
        file = self.path / f"checkpoint-{self._serial + 1:08d}.safetensors"
        try:
            write_bytes_whole(file, content)
        except OSError as error:
            warnings.warn(
                f"no checkpoint could be written to {self.path} ({error.strerror or error}); training goes on, and"
                f" {'the one before is still there' if self._files_now() else 'there is none'}.",
                CheckpointWarning,
                stacklevel=2,
            )
            return False
        self._serial += 1
        self._mine = [file, *self._mine][:KEPT]
        self._remove_others()
        return True

    def read(self, *, quiet: bool = False) -> Record | None:
        """The newest undamaged checkpoint; None if there are none, CheckpointError if all are damaged.

        It warns of damaged ones unless `quiet`.
        """
        reason = ""
        for file in self._files_now():
            try:
                record = _read(file)
            except CheckpointError as error:
                reason = str(error)
                if not quiet:
                    warnings.warn(f"{reason} The one before it is tried.", CheckpointWarning, stacklevel=2)
                continue
            # The one that was read stays until there are two new ones.
            self._mine = [file]
            return record
        if reason:
            raise CheckpointError(f"no checkpoint in {self.path} can be read: {reason} Start anew in another folder.")
        return None

    def clear(self) -> None:
        """Remove every checkpoint."""
        self._mine = []
        self._remove_others()

    def _files_now(self) -> list[Path]:
        """All checkpoints; none where the folder has gone, or may not be read."""
        try:
            return self.files()
        except OSError:
            return []

    def _remove_others(self) -> None:
        for file in self._files_now():
            if file not in self._mine:
                try:
                    file.unlink(missing_ok=True)
                except OSError:  # it is only in the way
                    continue


def _unwritable(path: StrPath, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"checkpoint={str(path)!r}: nothing can be written there ({error.strerror or error}). Name a folder of your own"
        " on a disk with free space."
    )


def _number(file: Path) -> int:
    return int(file.name.split(".")[0].removeprefix("checkpoint-"))


def _read(file: Path) -> Record:
    try:
        with safe_open(file, framework="pt", device="cpu") as handle:
            metadata = handle.metadata() or {}
            tensors = {name: handle.get_tensor(name).clone() for name in handle.keys()}  # noqa: SIM118
    except (SafetensorError, UnicodeDecodeError, RuntimeError, ValueError, KeyError, OSError) as error:
        raise CheckpointError(f"{file} is damaged: {error}.") from error
    text = metadata.get(FORMAT, "")
    if metadata.get("sha256") != _digest(text, tensors):
        raise CheckpointError(f"{file} is damaged: its content does not match its checksum.")
    try:
        info = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is damaged: its JSON cannot be read ({error}).") from error
    version = info.pop("format_version", None) if isinstance(info, dict) else None
    if version != FORMAT_VERSION:
        raise CheckpointError(
            f"{file} has format version {version!r:.40}, and this sodgp reads version {FORMAT_VERSION}. Finish the run"
            " with the sodgp that began it, or start anew in another folder."
        )
    return Record(info, tensors)


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over the text and every name, type, shape and byte: tells damage, not intent."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"|{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        # Not as a view of bytes: a tensor with one number may have any stride.
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
