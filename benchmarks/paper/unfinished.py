"""Fits that were stopped half-way: their checkpoints are kept until the cells are written."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.paper.cells import Key
from sodgp import Checkpoint
from sodgp.errors import CheckpointError
from sodgp.system.files import alone_in, write_text_whole
from sodgp.training.checkpoint.folder import CheckpointFolder

FOLDER = ".unfinished"
EVERY = "1min"
_CELLS = "cells.json"
# The fit holds a folder of its own inside ours, which `kept` holds.
_CHECKPOINTS = "checkpoints"


@contextmanager
def kept(out: Path, keys: Sequence[Key], identity: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Keep the fit of some cells on disk while the block runs; what is there stays until `forget`.

    Parameters
    ----------
    out : Path
        Results folder.
    keys : sequence of Key
        Cells of one group that train together.
    identity : dict
        All that makes it this fit and no other, as JSON can hold it: settings, program, device. What was begun with
        another identity is left alone.

    Yields
    ------
    options : dict
        Of the estimators; none where another process is at work on the same fit.
    is_begun : bool
        Whether there is something to resume.
    """
    files = [key.file for key in keys]
    text = json.dumps([identity, files], sort_keys=True)
    path = out / FOLDER / hashlib.sha256(text.encode()).hexdigest()[:16]
    path.mkdir(parents=True, exist_ok=True)
    with alone_in(path) as is_alone:
        if not is_alone:
            yield {}, False
            return
        write_text_whole(path / _CELLS, json.dumps(files))
        checkpoints = path / _CHECKPOINTS
        yield {"checkpoint": Checkpoint(str(checkpoints), every=EVERY)}, _can_be_read(checkpoints)


def discard(options: Mapping[str, Any]) -> None:
    """Remove the checkpoints that `kept` gave, to begin anew."""
    CheckpointFolder(options["checkpoint"].folder).clear()


def forget(out: Path, keys: Iterable[Key]) -> None:
    """Remove the checkpoints of fits whose cells are all among these: written, or failed."""
    over = {key.file for key in keys}
    for path in (out / FOLDER).glob("*"):
        with alone_in(path) as is_alone:
            if is_alone and over.issuperset(_cells(path)):
                shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        (out / FOLDER).rmdir()  # where nothing else is under way


def _cells(path: Path) -> list[str]:
    """The cells of a fit; none where it was killed before it could name them."""
    try:
        return list(json.loads((path / _CELLS).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return []


def _can_be_read(path: Path) -> bool:
    try:
        return CheckpointFolder(path).read(quiet=True) is not None
    except CheckpointError:
        return False
