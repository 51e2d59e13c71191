"""Model files: a record, that is a JSON dictionary and named tensors, as one safetensors file. No pickle.

The metadata of the file hold the JSON text. A path that is a folder (``"model/"``, or any path without a suffix) means
the file ``model.sodgp`` in that folder.

The file is written whole or not at all, so that a failure leaves the old one. It is read into memory as a whole, never
mapped, and only if its length is acceptable: no size stated in a file is trusted, and a file that is cut short
meanwhile is an error, not a crash. `sodgp.estimator.files.records` says what a model's record holds.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor

from sodgp.errors import ModelFileError
from sodgp.system.files import StrPath, is_scratch_of, write_bytes_whole

FORMAT = "sodgp-model"
FORMAT_VERSION = 3
NAME_IN_FOLDER = "model.sodgp"
MAX_FILE_BYTES = 8 * 2**30
MAX_HEADER_BYTES = 128 * 2**20


@dataclass(frozen=True)
class Record:
    """What a model file holds: `info`, made of what JSON has, with finite numbers only, and tensors on the CPU."""

    info: dict[str, Any]
    tensors: dict[str, Tensor]


def write_record(path: StrPath, record: Record) -> None:
    """Write a record; folders above it are made, and an old model is replaced once the new one is complete.

    Raises
    ------
    ModelFileError
        Something that is not a model is in the way, the record is not JSON, or the disk refuses. What was at `path`
        before is then still there.
    """
    check_destination(path)
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in record.tensors.items()}
    info = {**record.info, "format": FORMAT, "format_version": FORMAT_VERSION}
    try:
        text = json.dumps({"sha256": _checksum(Record(info, tensors)), **info}, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: the model cannot be written as JSON: {error}.") from error
    is_new_folder = is_folder_path(path) and not Path(path).exists()
    try:
        write_bytes_whole(_file_of(path), to_bytes(tensors, metadata={FORMAT: text}))
    except (OSError, UnicodeEncodeError) as error:
        if is_new_folder:
            with suppress(OSError):
                Path(path).rmdir()
        raise ModelFileError(
            f"{path} could not be written ({_reason(error)}); nothing there was changed. Check the disk's free space"
            " and the folder's permissions, or save elsewhere."
        ) from error


def read_record(path: StrPath) -> Record:
    """Read and verify a record that `write_record` made; of its header ``format_version`` stays in `info`."""
    with _system_errors(path, "read"):
        if not Path(path).exists():
            raise ModelFileError(f"{path} does not exist. Give a model file, or a folder with {NAME_IN_FOLDER} in it.")
        content = _content(path)
        info = _parse(path, _metadata(path, content))
        _check_version(path, info)
        tensors = _tensors(path, content)
    stated = info.pop("sha256", None)
    try:
        found = _checksum(Record(info, tensors))
    except (ValueError, RecursionError):
        _damaged(path, "its JSON is nested too deeply")
    if stated != found:
        _damaged(path, "its contents do not match their checksum")
    del info["format"]
    return Record(info, tensors)


def is_folder_path(path: StrPath) -> bool:
    """Whether a model at that path is a folder: one that exists, or a path that ends in a slash or has no suffix."""
    text = os.fspath(path)
    return Path(path).is_dir() or text.endswith(("/", os.sep)) or not Path(path).suffix


def check_destination(path: StrPath) -> None:
    """Raise ModelFileError unless a model may be written at `path`: nothing, an empty folder or a model is there."""
    if not os.fspath(path):
        raise ModelFileError("an empty path was given; name a file such as m.sodgp, or a folder.")
    with _system_errors(path, "written"):
        place, file = Path(path), _file_of(path)
        above = next(parent for parent in file.resolve().parents if parent.exists())
        if not above.is_dir() or not os.access(above, os.W_OK):
            raise ModelFileError(f"{path} cannot be written: {above} is not a folder that you may write to.")
        if place.is_dir():
            foreign = sorted(
                entry.name for entry in place.iterdir() if entry != file and not is_scratch_of(entry, file)
            )
            if foreign:
                raise ModelFileError(f"{path} is a folder that holds other files ({foreign[0]}); choose a new folder.")
        if file.exists() and not _is_model_file(file):
            raise ModelFileError(f"{path} is not a sodgp model and is not overwritten; choose another path.")


@contextmanager
def _system_errors(path: StrPath, what: str) -> Iterator[None]:
    """Errors of the system, and paths that it does not take, as ModelFileError."""
    try:
        yield
    except ModelFileError:
        raise
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be {what}: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _file_of(path: StrPath) -> Path:
    return Path(path) / NAME_IN_FOLDER if is_folder_path(path) else Path(path)


def _content(path: StrPath) -> bytes:
    """All bytes of a plain file of acceptable length; not of a pipe or device, which might never end."""
    file = Path(path) / NAME_IN_FOLDER if Path(path).is_dir() else Path(path)
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError as error:
        raise ModelFileError(f"{path} is not a sodgp model: it has no {file.name}.") from error
    with os.fdopen(descriptor, "rb") as handle:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            _damaged(path, f"{file.name} is not a plain file")
        if status.st_size > MAX_FILE_BYTES:
            _damaged(path, f"{file.name} has more than {MAX_FILE_BYTES} bytes")
        return handle.read(status.st_size)


def _metadata(path: StrPath, content: bytes) -> str:
    """The JSON text in the header of a safetensors file: eight bytes with the header's length, then the header."""
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= min(len(content) - 8, MAX_HEADER_BYTES):
        raise ModelFileError(
            f"{path} is not a sodgp model, or is damaged: its header is longer than the file, or than"
            f" {MAX_HEADER_BYTES} bytes."
        )
    try:
        # As text: given bytes, Python guesses the encoding.
        header = json.loads(content[8 : 8 + length].decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is not a sodgp model, or is damaged: its header cannot be read.") from error
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    text = metadata.get(FORMAT, "") if isinstance(metadata, dict) else ""
    return text if isinstance(text, str) else ""


def _tensors(path: StrPath, content: bytes) -> dict[str, Tensor]:
    """The tensors of a safetensors file; the library checks types, shapes and offsets against the length first."""
    try:
        return from_bytes(content)
    except (SafetensorError, RuntimeError, ValueError, TypeError, KeyError, AssertionError, OverflowError) as error:
        raise ModelFileError(
            f"{path} is not a sodgp model, or is damaged: {error}. Save it again, or fetch a fresh copy."
        ) from error


def _parse(path: StrPath, text: str) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a finite number")

    def finite(digits: str) -> float:
        value = float(digits)
        return value if math.isfinite(value) else refuse(digits[:40])

    if not text:
        raise ModelFileError(f"{path} is a safetensors file, but not a sodgp model.")
    try:
        info = json.loads(text, parse_constant=refuse, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its JSON cannot be read ({error}).") from error
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a sodgp model.")
    return info


def _check_version(path: StrPath, info: dict[str, Any]) -> None:
    version = info.get("format_version")
    if type(version) is not int or version < 1:
        _damaged(path, f"format version {version!r}")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {version}, written by sodgp {info.get('library_version')!s:.40}; this sodgp"
            f" reads version {FORMAT_VERSION}. Upgrade sodgp to read it."
        )
    if version < FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {version}, from before the first release; this sodgp reads version"
            f" {FORMAT_VERSION}. Fit the model again and save it."
        )


def _is_model_file(file: Path) -> bool:
    if not file.is_file():
        return False
    try:
        with file.open("rb") as handle:
            return bool(_parse(file, _metadata(file, _start_of(handle))))
    except (ModelFileError, OSError):
        return False


def _start_of(handle: BinaryIO) -> bytes:
    """Length and header of a safetensors file, without its numbers."""
    start = handle.read(8)
    length = int.from_bytes(start, "little")
    room = os.fstat(handle.fileno()).st_size - 8
    return start + handle.read(length) if length <= min(room, MAX_HEADER_BYTES) else b""


def _checksum(record: Record) -> str:
    """SHA-256 over a whole record, which reveals damage, not intent."""
    text = json.dumps(record.info, allow_nan=False, sort_keys=True)
    return hashlib.sha256(f"{_digest(record.tensors)}|{text}".encode()).hexdigest()


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes of tensors."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode(errors="surrogatepass"))
        # Not `contiguous`, which leaves the strides of a single number as they are.
        flat = tensor.clone(memory_format=torch.contiguous_format).reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _damaged(path: StrPath, what: str) -> NoReturn:
    raise ModelFileError(f"{path} is damaged: {what}. Save it again, or fetch a fresh copy.")
