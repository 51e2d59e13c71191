"""One cell: a contestant on one split of a set. Its result is a JSON file of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from linear_operator.utils.errors import NanError, NotPSDError

from benchmarks.accuracy.cells import store
from benchmarks.paper.machine import origin
from benchmarks.time_to_accuracy.clock import Clock
from benchmarks.time_to_accuracy.contestants import CONTESTANTS
from benchmarks.time_to_accuracy.sets import split_of
from sodgp.errors import NumericalError, SodgpError
from sodgp.predictive import metrics

__all__ = ["BUDGETS", "Cell", "compute", "finished", "store"]

# CPU seconds.
BUDGETS = (3.0, 10.0, 30.0, 100.0, 300.0)


@dataclass(frozen=True)
class Cell:
    """A stage, a set, a contestant and the number of a split."""

    stage: str
    data: str
    contestant: str
    split: int

    def path(self, out: Path) -> Path:
        """Where its result is kept."""
        return out / self.stage / f"{self.data}-{self.contestant}-{self.split}.json"


def compute(cell: Cell, budgets: Sequence[float] = BUDGETS) -> dict[str, Any]:
    """Fit and score.

    Returns
    -------
    dict
        ``points``: for each a dictionary of ``seconds``, CPU time of training up to there, ``predict_seconds``, and the
        scores of `sodgp.predictive.metrics.scores`. A contestant that was not run has ``not_run``, one that failed
        ``error``, and the points that it has reached.
    """
    contestant = CONTESTANTS[cell.contestant]
    record: dict[str, Any] = {"cell": asdict(cell), **_described(cell, budgets), "points": []}
    try:
        split = split_of(cell.data, cell.split, cell.stage)
        record |= {"n_rows": len(split.y_train), "n_scored": len(split.y_test)}
        refusal = contestant.refusal(len(split.y_train))
        if refusal is not None:
            return {**record, "not_run": refusal}
        contestant.warm_up()
    except (ImportError, SodgpError) as error:
        # A package that does not work here, or data that are neither here nor to be had.
        return {**record, "not_run": str(error)}
    record["origin"] = origin(torch.device("cpu"))
    seed = 100 * cell.split
    # GPyTorch draws from the global generator, and this leaves it as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        clock = Clock()
        try:
            for predict in contestant.run(split, contestant.options, seed, clock, budgets):
                with clock.paused():
                    record["points"].append({"seconds": clock.seconds, **_scored(predict, split)})
        except (NumericalError, NotPSDError, NanError) as error:
            record["error"] = str(error)
    return record


def _scored(predict: Any, split: Any) -> dict[str, float]:
    clock = Clock()
    distribution = predict(split.X_test)
    return {"predict_seconds": clock.seconds, **metrics.scores(split.y_test, distribution)}


def _described(cell: Cell, budgets: Sequence[float]) -> dict[str, Any]:
    """What a result depends on beside its cell; budgets where the contestant has them."""
    contestant = CONTESTANTS[cell.contestant]
    return {"options": contestant.options} | ({"budgets": sorted(budgets)} if contestant.has_budgets else {})


def finished(cell: Cell, out: Path, budgets: Sequence[float] = BUDGETS) -> dict[str, Any] | None:
    """The stored result of a cell, if it has these options and budgets; never one that was not run."""
    record = _read(cell.path(out))
    wanted = {"cell": asdict(cell), **_described(cell, budgets)}
    if record is None or "not_run" in record or any(record.get(name) != value for name, value in wanted.items()):
        return None
    return record


def stored(stage: str, out: Path) -> list[dict[str, Any]]:
    """All results of a stage that can be read."""
    return [record for path in sorted((out / stage).glob("*.json")) if (record := _read(path)) is not None]


def _read(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and "points" in record else None
