"""What calibration is worth on test rows: ``python -m benchmarks.calibration --jobs 16``; run it again to go on.

For every set and split one fit to four fifths of the training rows, and scores of the test rows as they are, and after
maps of the levels were learned from the fifth that was kept apart: that of the library, and two others of the same
rows, a line between normal scores (mean and standard deviation) and one through all rows, which is nearly a step.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from benchmarks.accuracy.cells import store
from benchmarks.processes import in_fresh_processes
from benchmarks.time_to_accuracy.sets import split_of
from sodgp import DeepGPRegressor
from sodgp.predictive import metrics
from sodgp.predictive.calibrated import CalibratedDistribution
from sodgp.predictive.calibration import Calibration, calibration_of
from sodgp.predictive.scores import normal_scores
from sodgp.system.validation import FloatArray

_RESULTS = Path(__file__).resolve().parent / "results" / "calibration"
SETS = ("boston", "energy", "concrete", "winered", "protein", "naval")
MAPS = ("before", "calibrate", "line", "all rows")
SCORES = ("nlpp", "crps", "coverage_90")
# Of a large set that many rows are kept apart, and as many are scored.
_MOST_ROWS = 2000


def compute(name: str, split: int, rows: str, effort: str) -> dict[str, Any]:
    """Scores of one fit, with every map."""
    data = split_of(name, split, rows)
    order = np.random.default_rng(split).permutation(len(data.y_train))
    apart = order[: min(len(order) // 5, _MOST_ROWS)]
    train, test = order[len(apart) :], slice(0, _MOST_ROWS)
    began = time.process_time()
    model = DeepGPRegressor(effort=effort, random_state=100 * split, verbose=0, device="cpu")
    model.fit(data.X_train[train], data.y_train[train])
    record: dict[str, Any] = {"set": name, "split": split, "rows": len(train), "apart": len(apart), "scores": {}}
    kept, found = model.predict_distribution(data.X_train[apart]), model.predict_distribution(data.X_test[test])
    for label in MAPS:
        calibration = _map(label, kept, data.y_train[apart])
        dist = found if calibration is None else CalibratedDistribution(found, calibration)
        scores = metrics.scores(data.y_test[test], dist)
        record["scores"][label] = {score: scores[score] for score in SCORES}
    record |= {"tested": len(found), "seconds": time.process_time() - began}
    return record


def _map(label: str, kept: Any, y: FloatArray) -> Calibration | None:
    """How levels move, by the rows that were kept apart."""
    if label == "before":
        return None
    if label == "calibrate":
        return calibration_of(kept, y)
    scores = np.sort(normal_scores(kept, y).reshape(-1))
    if label == "line":
        ends = np.array([-1.0, 1.0])
        knots = np.stack([scores.mean() + scores.std() * ends, ends])
    else:
        levels = ndtri(np.arange(1, len(scores) + 1) / (len(scores) + 1))
        different = np.concatenate([[True], np.diff(scores) > 1e-9])
        knots = np.stack([scores[different], levels[different]])
    return Calibration((knots,), len(y), np.zeros(1))


def markdown(records: Sequence[dict[str, Any]]) -> str:
    """Means over splits; coverage is of all test rows of a set together."""
    lines = [
        "# Calibration",
        "NLPP, CRPS and, in per cent, coverage of 90 % intervals of test rows: means over splits, coverage pooled over"
        " rows.",
        f"| set | splits | rows apart | test rows | {' | '.join(MAPS)} |",
        f"|---|---|---|---|{'---|' * len(MAPS)}",
    ]
    for name in SETS:
        own = [record for record in records if record["set"] == name]
        if own:
            weights = [record["tested"] for record in own]
            cells = [_cell([record["scores"][label] for record in own], weights) for label in MAPS]
            lines.append(f"| {name} | {len(own)} | {own[0]['apart']:,} | {sum(weights):,} | {' | '.join(cells)} |")
    return "\n\n".join(lines[:2]) + "\n\n" + "\n".join(lines[2:]) + "\n"


def _cell(scores: Sequence[dict[str, float]], weights: Sequence[int]) -> str:
    nlpp, crps = (float(np.mean([each[key] for each in scores])) for key in ("nlpp", "crps"))
    coverage = float(np.average([each["coverage_90"] for each in scores], weights=weights))
    return f"{nlpp:.3f}, {crps:.4g}, {100 * coverage:.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.calibration", description=__doc__)
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--rows", choices=("test", "validation"), default="test", help="rows that are scored")
    parser.add_argument("--effort", choices=("quick", "standard", "thorough"), default="standard")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, each with one thread")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no cell after these")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    options = parser.parse_args(arguments)
    kind = "" if (options.rows, options.effort) == ("test", "standard") else f"-{options.rows}-{options.effort}"
    cells = [(name, split, options.rows, options.effort) for split in range(options.splits) for name in options.data]
    paths = {cell: options.out / f"{cell[0]}-{cell[1]}{kind}.json" for cell in cells}
    missing = [cell for cell in cells if not paths[cell].exists()]
    for number, record in in_fresh_processes(compute, missing, jobs=options.jobs, minutes=options.minutes):
        if isinstance(record, str):
            print(*missing[number][:2], record, file=sys.stderr, flush=True)
            continue
        store(record, paths[missing[number]])
        print(*missing[number][:2], f"{record['seconds']:.0f} s", flush=True)
    records = [json.loads(path.read_text()) for path in paths.values() if path.exists()]
    if records:
        report = markdown(records)
        (options.out / f"calibration{kind}.md").write_text(report)
        print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
