"""What members are worth on validation rows: ``python -m benchmarks.members``.

Four fits to every split, from different seeds, all in one program; scored alone and in mixtures of two to four.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.cells import DATA_SETS, parts
from benchmarks.paper.machine import origin
from sodgp import DeepGPRegressor, SoD, Tuning
from sodgp.data import load
from sodgp.estimator.many import fit_replicates
from sodgp.predictive import metrics
from sodgp.predictive.mixture import GaussianMixture
from sodgp.system.validation import resolve_device

_RESULTS = Path(__file__).parent / "results" / "members.json"
N_MEMBERS = 4
SCORES = ("nlpp", "crps", "rmse", "coverage_90")
# Of every kind of prediction, by measure, over the splits.
Scores = dict[str, dict[str, list[float]]]
_BASE = {"n_layers": 3, "subset_size": 200, "inference": SoD(objective="predictive", separate_kernels=True)}
# Steps, and rows beside the subset in each of them.
FITS: dict[str, dict[str, Any]] = {
    "3,000 steps, 1,800 rows": {**_BASE, "max_iter": 3000, "batch_size": 2000},
    "2,000 steps, 500 rows": {**_BASE, "max_iter": 2000, "batch_size": 700},
    "2,000 steps, 200 rows": {**_BASE, "max_iter": 2000, "batch_size": 400},
}


def score(data: str, options: dict[str, Any], splits: int) -> dict[str, Any]:
    """Scores on the validation rows of the first splits: of every member, and of the first K of them together."""
    table = load(data)
    rows = [parts("validation", len(table.y), split) for split in range(splits)]
    models = [
        DeepGPRegressor(**options, n_members=1, random_state=100 * split + member)
        for split in range(splits)
        for member in range(N_MEMBERS)
    ]
    began = time.perf_counter()
    fit_replicates(models, [(table.X[train], table.y[train]) for train, _ in rows for _ in range(N_MEMBERS)])
    seconds = time.perf_counter() - began
    found: Scores = {}
    for split, (_, held_out) in enumerate(rows):
        each = [m.predict_distribution(table.X[held_out]) for m in models[split * N_MEMBERS : (split + 1) * N_MEMBERS]]
        for count in range(1, N_MEMBERS + 1):
            note(found, str(count), table.y[held_out], GaussianMixture.pool(each[:count]))
        for one in each:
            note(found, "each", table.y[held_out], one)
    return {"splits": splits, "seconds": seconds, "scores": found}


def note(found: Scores, name: str, y: Any, mixture: GaussianMixture, measures: Sequence[str] = SCORES) -> None:
    """Put the scores of one split beside those of the splits before it."""
    scores = metrics.scores(y, mixture)
    for measure in measures:
        found.setdefault(name, {}).setdefault(measure, []).append(scores[measure])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and print everything."""
    parser = argparse.ArgumentParser("python -m benchmarks.members", description=__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA_SETS, default=["energy", "concrete", "winered"])
    parser.add_argument("--fits", nargs="+", choices=tuple(FITS), default=list(FITS), metavar="NAME")
    parser.add_argument("--splits", type=int, default=5, help="how many of the paper's, from number 0 on")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--compile", action="store_true", help="fuse the steps with PyTorch's compiler")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="file of results")
    options = parser.parse_args(arguments)
    records = json.loads(options.out.read_text()) if options.out.exists() else {}
    machine = {"device": options.device, "tuning": Tuning(compile=options.compile)}
    for name in options.fits:
        for data in options.data:
            if data not in records.setdefault(name, {}):
                found = score(data, {**FITS[name], **machine}, options.splits)
                records[name][data] = {**found, "origin": origin(resolve_device(options.device))}
                options.out.write_text(json.dumps(records, indent=1) + "\n")
    for name, sets in records.items():
        for data, record in sets.items():
            for count, scores in record["scores"].items():
                means = ", ".join(f"{m} {statistics.fmean(values):.3f}" for m, values in scores.items())
                print(f"{name}, {data} ({record['splits']} splits), members {count}: {means}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
