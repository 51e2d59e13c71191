"""One cell: a data set and a variant, all splits and members in one program."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.variants import VARIANTS
from benchmarks.paper.machine import origin
from benchmarks.records import estimator_of
from sodgp.data import load, paper_split
from sodgp.errors import NumericalError
from sodgp.estimator.describe import models_of
from sodgp.estimator.many import fit_replicates
from sodgp.predictive import metrics
from sodgp.predictive.mixture import GaussianMixture
from sodgp.system.validation import resolve_device

DATA_SETS = ("boston", "energy", "concrete", "winered", "protein", "naval")
STAGES = ("validation", "test")
N_SPLITS = 5
# Of the training part, set apart to choose by.
VALIDATION_SHARE = 0.2


@dataclass(frozen=True)
class Cell:
    """A stage, a data set and a variant by name."""

    stage: str
    data: str
    variant: str

    def path(self, out: Path) -> Path:
        """Where its result is kept."""
        return out / self.stage / f"{self.data}-{self.variant.replace(' ', '_')}.json"


def parts(stage: str, n_rows: int, split: int) -> tuple[Any, Any]:
    """Rows to train on and to score: the paper's split, or a fifth of its training part in place of the test part."""
    train, test = paper_split(n_rows, split)
    if stage == "test":
        return train, test
    shuffled = np.random.default_rng(split).permutation(train)
    held_out = round(VALIDATION_SHARE * len(train))
    return shuffled[held_out:], shuffled[:held_out]


def compute(cell: Cell, *, device: str, splits: int = N_SPLITS, compile: bool = False) -> dict[str, Any]:
    """Fit and score the first splits of a cell.

    Returns
    -------
    dict
        Every score of `sodgp.predictive.metrics.scores` as a list over the splits, and those of the first member alone
        under ``one_member``; ``seconds`` for all of them. A variant that failed has ``error`` instead.
    """
    variant = VARIANTS[cell.variant]
    table = load(cell.data)
    rows = [parts(cell.stage, len(table.y), split) for split in range(splits)]
    models = [
        estimator_of({**variant.options, "random_state": 100 * split + member, "device": device, "compile": compile})
        for split in range(splits)
        for member in range(variant.members)
    ]
    record: dict[str, Any] = {"cell": asdict(cell), **variant.described}
    record |= {"splits": splits, "origin": origin(resolve_device(device))}
    began = time.perf_counter()
    try:
        train = [train for train, _ in rows for _ in range(variant.members)]
        fit_replicates(models, [(table.X[part], table.y[part]) for part in train])
    except NumericalError as error:
        return {**record, "error": str(error), "seconds": time.perf_counter() - began}
    record["seconds"] = time.perf_counter() - began
    record["rollbacks"] = sum(model.history_.rollbacks for model in models)
    scores, of_one = [], []
    for split, (_, held_out) in enumerate(rows):
        members = models[split * variant.members : (split + 1) * variant.members]
        mixture = GaussianMixture.pool([member.predict_distribution(table.X[held_out]) for member in members])
        scores.append(metrics.scores(table.y[held_out], mixture))
        # An effort may bring members of its own.
        first = models_of(members[0])[0]
        of_one.append(metrics.scores(table.y[held_out], first.predict_distribution(table.X[held_out])))
    return record | _listed(scores) | {"one_member": _listed(of_one)}


def _listed(scores: list[dict[str, float]]) -> dict[str, list[float]]:
    return {name: [score[name] for score in scores] for name in scores[0]}


def finished(cell: Cell, out: Path, splits: int | None = None) -> dict[str, Any] | None:
    """The stored result of a cell, if it is one of these options and as many splits (None: any number of them)."""
    record, variant = read(cell.path(out)), VARIANTS[cell.variant]
    wanted = {"cell": asdict(cell), **variant.described}
    if splits is not None:
        wanted["splits"] = splits
    if record is None:
        return None
    # Cells from before members were shrunk are of the plain mixture.
    found = {"member_spread": 1.0, **record}
    return record if all(found.get(name) == value for name, value in wanted.items()) else None


def store(record: dict[str, Any], path: Path) -> None:
    """Write a result whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1) + "\n")
    part.replace(path)


def read(path: Path) -> dict[str, Any] | None:
    """The stored result, if there is one that can be read."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None
