"""One cell of the comparison: a data set, a selector and a subset size, all splits in one program."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sodgp import DeepGPRegressor, SoD
from sodgp.data import load, paper_split
from sodgp.errors import NumericalError
from sodgp.estimator.many import fit_replicates

DATA_SETS = ("boston", "energy", "concrete", "winered", "protein")
SIZES = (25, 50, 100, 200)


@dataclass(frozen=True)
class Settings:
    """What all cells of a run have in common.

    Parameters
    ----------
    iterations : int
        Steps of training.
    splits : int
        Train/test splits, from number 0 on, as the paper draws them.
    layers : int
        GP layers.
    max_rows : int or None
        Take at most so many training rows, for trials; None takes all.
    """

    iterations: int = 1000
    splits: int = 5
    layers: int = 2
    max_rows: int | None = None


@dataclass(frozen=True)
class Cell:
    """A data set, a selector by name, and rows M of the subset."""

    data: str
    selector: str
    size: int

    def path(self, out: Path) -> Path:
        """Where its result is kept."""
        return out / "cells" / f"{self.data}-{self.selector}-{self.size}.json"


def finished(cell: Cell, settings: Settings, out: Path) -> dict[str, Any] | None:
    """The stored result of a cell, if it is one of these settings; None for a missing or broken file."""
    try:
        record = json.loads(cell.path(out).read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
        return None
    # Cells from when subsets could move say that theirs did not.
    same = {"reselect_every": None, **record["settings"]} == {"reselect_every": None, **asdict(settings)}
    return record if same and record.get("cell") == asdict(cell) else None


def compute(
    cells: Sequence[Cell], settings: Settings, *, device: str, data_dir: str | None = None
) -> list[dict[str, Any]]:
    """Fit and score all splits of cells of one data set and one subset size, in one program.

    Returns
    -------
    list of dict
        For each cell ``nlpp`` and ``rmse`` in original units and ``bound`` in nats, a list over the splits each;
        ``seconds`` is the cell's share of the time for all. A fit that failed has ``error`` instead; cells that fail
        together are fitted one by one.
    """
    table = load(cells[0].data, data_dir)
    parts = [paper_split(len(table.X), split) for split in range(settings.splits)]
    train, test = ([rows[: settings.max_rows] for rows in side] for side in zip(*parts, strict=True))
    models = [_model(cell, settings, split, device) for cell in cells for split in range(settings.splits)]
    began = time.perf_counter()
    error: NumericalError | None = None
    try:
        fit_replicates(models, [(table.X[rows], table.y[rows]) for _ in cells for rows in train])
    except NumericalError as failure:
        if len(cells) > 1:
            return [record for cell in cells for record in compute([cell], settings, device=device, data_dir=data_dir)]
        error = failure
    seconds = (time.perf_counter() - began) / len(cells)
    records = []
    for index, cell in enumerate(cells):
        record = {"cell": asdict(cell), "settings": asdict(settings), "device": device, "seconds": seconds}
        own = models[index * settings.splits : (index + 1) * settings.splits]
        if error is not None:
            record["error"] = str(error)
        else:
            scores = [_scores(model, table.X[rows], table.y[rows]) for model, rows in zip(own, test, strict=True)]
            record |= {name: [score[name] for score in scores] for name in scores[0]}
            record["bound"] = [float(np.mean(model.history_.bound[-5:])) for model in own]
        records.append(record)
    return records


def _model(cell: Cell, settings: Settings, split: int, device: str) -> DeepGPRegressor:
    return DeepGPRegressor(
        n_layers=settings.layers,
        subset=cell.selector,
        subset_size=cell.size,
        max_iter=settings.iterations,
        # The bound, one kernel for a layer and the paper's batches, as in all the cells that there are.
        inference=SoD(objective="bound", separate_kernels=False),
        batch_size=2000,
        device=device,
        random_state=split,
    )


def store(record: dict[str, Any], path: Path) -> None:
    """Write a result whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1) + "\n")
    part.replace(path)


def _scores(model: DeepGPRegressor, X: Any, y: Any) -> dict[str, float]:
    distribution = model.predict_distribution(X)
    return {
        "nlpp": float(-np.mean(distribution.log_prob(y))),
        "rmse": float(np.sqrt(np.mean((distribution.mean - y) ** 2))),
    }
