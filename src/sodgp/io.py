"""Model files: a record, that is a JSON dictionary and named tensors, as one file or as one folder. No pickle.

Two forms hold the same record:

* one file (``"m.sodgp"``): a safetensors file whose metadata holds the JSON text;
* a folder (``"model/"``, or any path without a suffix): ``model.json`` and ``model.safetensors``.

A record is written next to its destination and moved there when it is complete, so a failure leaves what was there
before. This module knows nothing of estimators; `sodgp.records` says what a model's record holds.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from sodgp.errors import ModelFileError

FORMAT = "sodgp-model"
FORMAT_VERSION = 1
JSON_NAME, TENSORS_NAME = "model.json", "model.safetensors"
MAX_TENSOR_BYTES = 8 * 2**30
MAX_JSON_BYTES = 64 * 2**20

StrPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Record:
    """What a model file holds.

    Attributes
    ----------
    info : dict
        Made of dicts with text keys, lists, text, finite numbers, booleans and None.
    tensors : dict of str to Tensor
        On the CPU.
    """

    info: dict[str, Any]
    tensors: dict[str, Tensor]


def write_record(path: StrPath, record: Record) -> None:
    """Write a record, whole or not at all.

    Parameters
    ----------
    path : path
        With a suffix: one file. Without one, ending in a slash, or an existing folder: a folder. Folders above it are
        made. A model that is there already is replaced once the new one is complete.
    record : Record

    Raises
    ------
    ModelFileError
        Something that is not a model is in the way, the record is not JSON, or the disk refuses. What was at `path`
        before is then still there.
    """
    check_destination(path)
    target = Path(path).resolve()
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in record.tensors.items()}
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, "sha256": _digest(tensors)}
    try:
        text = json.dumps({**header, **record.info}, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: the model cannot be written as JSON: {error}.") from error
    try:
        if is_folder_path(path):
            _write_folder(target, text, tensors)
        else:
            write_whole(target, lambda file: _write_bytes(file, to_bytes(tensors, metadata={FORMAT: text})))
    except OSError as error:
        raise ModelFileError(
            f"{path} could not be written ({error.strerror or error}); nothing there was changed. Check the disk's free"
            " space and the folder's permissions, or save elsewhere."
        ) from error


def read_record(path: StrPath) -> Record:
    """Read a record and check that it is whole.

    Parameters
    ----------
    path : path
        A file or folder that `write_record` made.

    Returns
    -------
    Record
        The information without the header's own entries but ``format_version``.

    Raises
    ------
    ModelFileError
        The path does not exist, is not a model, is damaged, too large, or of a newer format version.
    """
    place = Path(path)
    try:
        if place.is_dir():
            info = _parse(path, _read_json_file(path, place / JSON_NAME))
            _check_header(path, info)
            _, tensors = _read_tensors(path, place / TENSORS_NAME)
        elif place.is_file():
            text, tensors = _read_tensors(path, place)
            info = _parse(path, text)
            _check_header(path, info)
        else:
            raise ModelFileError(f"{path} does not exist. Give a model file, or a folder with {JSON_NAME} in it.")
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    if info.pop("sha256", None) != _digest(tensors):
        _damaged(path, "its numbers do not match their checksum")
    del info["format"]
    return Record(info, tensors)


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


def is_folder_path(path: StrPath) -> bool:
    """Whether a model at that path is a folder: one that exists, or a path that ends in a slash or has no suffix."""
    text = os.fspath(path)
    return Path(path).is_dir() or text.endswith(("/", os.sep)) or not Path(path).suffix


def check_destination(path: StrPath) -> None:
    """Raise ModelFileError unless a model may be written at `path`: nothing, an empty folder or a model is there."""
    place = Path(path)
    if not os.fspath(path):
        raise ModelFileError("an empty path was given; name a file such as m.sodgp, or a folder.")
    above = next(parent for parent in place.resolve().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ModelFileError(f"{path} cannot be written: {above} is not a folder that you may write to.")
    if place.is_dir():
        inside = {entry.name for entry in place.iterdir()}
        foreign = sorted(inside - {JSON_NAME, TENSORS_NAME})
        if foreign:
            raise ModelFileError(f"{path} is a folder that holds other files ({foreign[0]}); choose a new folder.")
        if inside and not (JSON_NAME in inside and _is_model_json(place / JSON_NAME)):
            raise ModelFileError(f"{path} is not a sodgp model and is not overwritten; choose another path.")
    elif place.exists() and (is_folder_path(path) or not _is_model_file(place)):
        raise ModelFileError(f"{path} is not a sodgp model and is not overwritten; choose another path.")


def _write_folder(target: Path, text: str, tensors: Mapping[str, Tensor]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(target) as temporary:
        temporary.mkdir()
        _write_bytes(temporary / JSON_NAME, text.encode())
        _write_bytes(temporary / TENSORS_NAME, to_bytes(dict(tensors)))
        _sync_folder(temporary)
        if not target.exists() or not any(target.iterdir()):
            os.replace(temporary, target)
            _sync_folder(target.parent)
            return
        # A folder that is not empty cannot be replaced in one call: it steps aside, and comes back if that fails.
        aside = _beside(target)
        os.replace(target, aside)
        try:
            os.replace(temporary, target)
        except BaseException:
            os.rename(aside, target)
            raise
        _sync_folder(target.parent)
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


def _write_bytes(path: Path, content: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with path.open("xb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def _sync_folder(folder: Path) -> None:
    """Make renames inside a folder last through a power cut, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network disks cannot; the model is in place all the same
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_json_file(path: StrPath, file: Path) -> str:
    if not file.is_file():
        raise ModelFileError(f"{path} is not a sodgp model: it has no {JSON_NAME}.")
    if file.stat().st_size > MAX_JSON_BYTES:
        _damaged(path, f"{JSON_NAME} has more than {MAX_JSON_BYTES} bytes")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        _damaged(path, f"{JSON_NAME} is not UTF-8 text")


def _read_tensors(path: StrPath, file: Path) -> tuple[str, dict[str, Tensor]]:
    """JSON text in the metadata (empty if none) and tensors; safetensors checks offsets against the file's length."""
    if not file.is_file():
        _damaged(path, f"{file.name} is missing")
    if file.stat().st_size > MAX_TENSOR_BYTES:
        _damaged(path, f"{file.name} has more than {MAX_TENSOR_BYTES} bytes")
    try:
        with safe_open(file, framework="pt", device="cpu") as handle:
            text = (handle.metadata() or {}).get(FORMAT, "")
            # Copies: the library maps the file into memory, and a mapped file may change below us.
            tensors = {name: handle.get_tensor(name).clone() for name in handle.keys()}  # noqa: SIM118
    except (SafetensorError, UnicodeDecodeError, RuntimeError, ValueError, KeyError) as error:
        raise ModelFileError(
            f"{path} is not a sodgp model, or is damaged: {error}. Save it again, or fetch a fresh copy."
        ) from error
    return text, tensors


def _parse(path: StrPath, text: str) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a finite number")

    if not text:
        raise ModelFileError(f"{path} is a safetensors file, but not a sodgp model.")
    try:
        info = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its JSON cannot be read ({error}).") from error
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a sodgp model.")
    return info


def _check_header(path: StrPath, info: Mapping[str, Any]) -> None:
    version = info.get("format_version")
    if type(version) is not int or version < 1:
        _damaged(path, f"format version {version!r}")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {version}, written by sodgp {info.get('library_version')!s:.40}; this sodgp"
            f" reads versions up to {FORMAT_VERSION}. Upgrade sodgp to read it."
        )


def _is_model_json(file: Path) -> bool:
    try:
        return bool(_parse(file, _read_json_file(file, file)))
    except (ModelFileError, OSError):
        return False


def _is_model_file(file: Path) -> bool:
    if not file.is_file():
        return False
    try:
        with safe_open(file, framework="pt", device="cpu") as handle:
            return bool(_parse(file, (handle.metadata() or {}).get(FORMAT, "")))
    except (SafetensorError, ModelFileError, OSError, RuntimeError, ValueError):
        return False


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes: tells damage, not intent."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _damaged(path: StrPath, what: str) -> NoReturn:
    raise ModelFileError(f"{path} is damaged: {what}. Save it again, or fetch a fresh copy.")
