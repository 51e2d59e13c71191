"""How far to shrink the members of ``"thorough"``, on validation rows: ``python -m benchmarks.spreads``.

One fit of all members to every split, scored in mixtures of two to four of them with many values of `member_spread`:
training knows nothing of it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.cells import DATA_SETS, parts
from benchmarks.members import N_MEMBERS, Scores, note
from benchmarks.paper.machine import origin
from sodgp import DeepGPRegressor, Tuning
from sodgp.data import load
from sodgp.estimator.many import fit_replicates
from sodgp.estimator.pooling import pooled_mixture
from sodgp.system.validation import resolve_device

_RESULTS = Path(__file__).parent / "results" / "spreads.json"
SPREADS = tuple(round(0.7 + 0.02 * step, 2) for step in range(16))
# Scoring more of the rows that were held out from a large table would say nothing new.
MAX_ROWS = 1500
SCORES = ("nlpp", "crps", "coverage_50", "coverage_80", "coverage_90", "coverage_95")


def score(data: str, splits: int, options: dict[str, Any]) -> dict[str, Any]:
    """Scores on the validation rows of the first splits: of every member, and of the first K at every spread."""
    table = load(data)
    rows = [parts("validation", len(table.y), split) for split in range(splits)]
    models = [DeepGPRegressor(**options, n_members=N_MEMBERS, random_state=100 * split) for split in range(splits)]
    began = time.perf_counter()
    fit_replicates(models, [(table.X[train], table.y[train]) for train, _ in rows])
    seconds = time.perf_counter() - began
    found: Scores = {}
    for model, (_, held_out) in zip(models, rows, strict=True):
        X, y = table.X[held_out[:MAX_ROWS]], table.y[held_out[:MAX_ROWS]]
        each = [member.predict_distribution(X) for member in model.members_]
        for one in each:
            note(found, "1", y, one, SCORES)
        for count in range(2, N_MEMBERS + 1):
            for spread in SPREADS:
                note(found, f"{count} at {spread}", y, pooled_mixture(each[:count], spread), SCORES)
    return {"splits": splits, "seconds": seconds, "scores": found}


def mean_over_sets(records: Mapping[str, Any], name: str, measure: str) -> float:
    """The mean over data sets of the means over splits."""
    return statistics.fmean(float(np.mean(record["scores"][name][measure])) for record in records.values())


def chosen(records: Mapping[str, Any]) -> float:
    """The median over data sets of the spread of all members with the lowest NLPP.

    Not the one with the lowest mean: a set whose best spread is far from the others' would decide that alone.
    """
    return statistics.median(
        min(SPREADS, key=lambda spread: mean_over_sets({"": record}, f"{N_MEMBERS} at {spread}", "nlpp"))
        for record in records.values()
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and print everything."""
    parser = argparse.ArgumentParser("python -m benchmarks.spreads", description=__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA_SETS, default=list(DATA_SETS))
    parser.add_argument("--splits", type=int, default=3, help="how many of the paper's, from number 0 on")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--compile", action="store_true", help="fuse the steps with PyTorch's compiler")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="file of results")
    options = parser.parse_args(arguments)
    records = json.loads(options.out.read_text()) if options.out.exists() else {}
    fits = {"effort": "thorough", "device": options.device, "tuning": Tuning(compile=options.compile)}
    for data in options.data:
        if records.get(data, {}).get("splits") != options.splits:
            found = score(data, options.splits, fits)
            records[data] = {**found, "origin": origin(resolve_device(options.device))}
            options.out.write_text(json.dumps(records, indent=1) + "\n")
    for spread in SPREADS:
        name = f"{N_MEMBERS} at {spread}"
        means = ", ".join(f"{measure} {mean_over_sets(records, name, measure):.4g}" for measure in SCORES)
        print(f"spread {spread}, {len(records)} sets: {means}")
    print(f"median of the best: {chosen(records):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
