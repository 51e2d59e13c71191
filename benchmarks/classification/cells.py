"""One cell: a contestant on one split of a set. Its result is a JSON file of its own."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from linear_operator.utils.errors import NanError, NotPSDError

from benchmarks.accuracy.cells import read, store
from benchmarks.classification.contestants import CLASSES, Contestant
from benchmarks.classification.counts import COUNTS, counts
from benchmarks.classification.scores import of_classes, of_counts
from benchmarks.classification.sets import SETS, split_of
from benchmarks.paper.machine import origin
from benchmarks.time_to_accuracy.clock import Clock
from sodgp.errors import InputError, NumericalError

__all__ = ["CONTESTANTS", "Cell", "compute", "finished", "store", "stored"]

# By task.
CONTESTANTS: dict[str, Mapping[str, Contestant]] = {"classes": CLASSES, "counts": COUNTS}


@dataclass(frozen=True)
class Cell:
    """A stage, a set, a contestant and the number of a split."""

    stage: str
    data: str
    contestant: str
    split: int

    @property
    def described(self) -> Contestant:
        """Who it is."""
        return CONTESTANTS[SETS[self.data].task][self.contestant]

    def path(self, out: Path) -> Path:
        """Where its result is kept."""
        return out / self.stage / f"{self.data}-{self.contestant}-{self.split}.json"


def compute(cell: Cell) -> dict[str, Any]:
    """Fit and score.

    Returns
    -------
    dict
        ``scores``, ``truth`` (those of what labels were drawn from, where that is known), ``seconds`` and
        ``predict_seconds`` of CPU time. A contestant that was not run has ``not_run``, one that failed ``error``.
    """
    contestant, task = cell.described, SETS[cell.data].task
    record: dict[str, Any] = {"cell": asdict(cell), "options": contestant.options}
    try:
        split = split_of(cell.data, cell.split, cell.stage)
    except InputError as error:
        return {**record, "not_run": str(error)}
    record |= {"n_rows": len(split.y_train), "n_scored": len(split.y_test)}
    refusal = contestant.refusal(len(split.y_train))
    if refusal is not None:
        return {**record, "not_run": refusal}
    if contestant.package is not None:
        # An import is no part of a fit's time.
        importlib.import_module(contestant.package)
    record["origin"] = origin(torch.device("cpu"))
    scores = of_classes if task == "classes" else of_counts
    # GPyTorch draws from the global generator, and this leaves it as it was.
    with torch.random.fork_rng(devices=[]):
        clock = Clock()
        try:
            predict = contestant.fit(split, contestant.options, 100 * cell.split)
            record["seconds"] = clock.seconds
            clock = Clock()
            found = predict(split.X_test)
        except (NumericalError, NotPSDError, NanError, np.linalg.LinAlgError) as error:
            return {**record, "error": str(error)}
    record["predict_seconds"] = clock.seconds
    record["scores"] = scores(found, split.y_test)
    truth = SETS[cell.data].truth
    if truth is not None:
        known = truth(split.X_test)
        record["truth"] = scores(known if task == "classes" else counts(known), split.y_test)
        record["truth"].pop("bins", None)
    return record


def finished(cell: Cell, out: Path) -> dict[str, Any] | None:
    """The stored result of a cell, if it has these options; never one that was not run."""
    record = read(cell.path(out))
    if record is None or "not_run" in record or record.get("cell") != asdict(cell):
        return None
    return record if record.get("options") == cell.described.options else None


def stored(stage: str, out: Path) -> list[dict[str, Any]]:
    """All results of a stage that can be read."""
    found = (read(path) for path in sorted((out / stage).glob("*.json")))
    return [record for record in found if record is not None and "cell" in record]
