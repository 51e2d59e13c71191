"""Fits that were stopped half-way: their checkpoints stand beside the cells until these are written."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sodgp.bench.cells import Key
from sodgp.errors import CheckpointError
from sodgp.training.checkpoints import CheckpointFolder

FOLDER = ".unfinished"
EVERY = "1min"


def checkpoints(out: Path, keys: Sequence[Key], identity: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Where the fit of some cells keeps its checkpoints, and whether there are any.

    Parameters
    ----------
    out : Path
        Results folder.
    keys : sequence of Key
        Cells of one group that train together.
    identity : dict
        All that makes it this fit and no other, as JSON can hold it: settings, device, program. What was begun with
        another identity is left alone.

    Returns
    -------
    options : dict
        Of the estimators.
    is_begun : bool
        Whether there is something to resume.
    """
    text = json.dumps([identity, [key.split for key in keys]], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = out / FOLDER / f"{_stem(keys[0])}-{'+'.join(str(key.split) for key in keys)}-{digest}"
    return {"checkpoint": str(path), "checkpoint_every": EVERY}, _can_be_read(path)


def forget(out: Path, keys: Iterable[Key]) -> None:
    """Remove the checkpoints of fits whose cells are all among these: written, or failed."""
    over = {(_stem(key), str(key.split)) for key in keys}
    for path in (out / FOLDER).glob("*-*-*"):
        stem, splits, _ = path.name.rsplit("-", 2)
        if all((stem, split) in over for split in splits.split("+")):
            shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        (out / FOLDER).rmdir()  # where nothing else is under way


def _stem(key: Key) -> str:
    return key.file.rsplit("-", 1)[0].replace("/", "-")


def _can_be_read(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        return CheckpointFolder(path).read(quiet=True) is not None
    except CheckpointError:
        return False
