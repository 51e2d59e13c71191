"""What allowing for outliers is worth on validation rows: ``python -m benchmarks.outliers``.

One fit of the defaults to every split, scored with several probabilities of outliers: training knows nothing of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.cells import DATA_SETS, parts
from benchmarks.paper.machine import origin
from sodgp import DeepGPRegressor, Tuning
from sodgp.data import load
from sodgp.predictive import metrics
from sodgp.system.validation import resolve_device

_RESULTS = Path(__file__).parent / "results" / "outliers.json"
# None is the default, 1 / (N + 1).
PROBABILITIES: dict[str, float | None] = {"none": 0.0, "1 / (N + 1)": None, "1 %": 0.01}
SCORES = ("nlpp", "crps", "coverage_90")


def score(data: str, split: int, options: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Scores of one fit on the validation rows of a split, for every probability."""
    table = load(data)
    train, held_out = parts("validation", len(table.y), split)
    model = DeepGPRegressor(random_state=100 * split, **options).fit(table.X[train], table.y[train])
    found = {}
    for name, probability in PROBABILITIES.items():
        model.set_params(likelihood__outlier_probability=probability)
        scores = metrics.scores(table.y[held_out], model.predict_distribution(table.X[held_out]))
        found[name] = {score: scores[score] for score in SCORES}
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and print everything."""
    parser = argparse.ArgumentParser("python -m benchmarks.outliers", description=__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA_SETS, default=["energy", "concrete", "winered"])
    parser.add_argument("--splits", type=int, default=5, help="how many of the paper's, from number 0 on")
    parser.add_argument("--effort", choices=("quick", "standard", "thorough"), default="standard")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--compile", action="store_true", help="fuse the steps with PyTorch's compiler")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="file of results")
    options = parser.parse_args(arguments)
    fits = {"effort": options.effort, "device": options.device, "tuning": Tuning(compile=options.compile)}
    stored = json.loads(options.out.read_text()) if options.out.exists() else {}
    records = stored.get("splits", {}) if stored.get("effort") == options.effort else {}
    for data in options.data:
        for split in range(options.splits):
            if str(split) not in records.setdefault(data, {}):
                records[data][str(split)] = score(data, split, fits)
                found = {"effort": options.effort, "origin": origin(resolve_device(options.device)), "splits": records}
                options.out.write_text(json.dumps(found, indent=1) + "\n")
                print(f"{data} {split}: {records[data][str(split)]}", flush=True)
    for data, splits in records.items():
        for name in PROBABILITIES:
            means = {score: statistics.fmean(scores[name][score] for scores in splits.values()) for score in SCORES}
            print(f"{data} ({len(splits)} splits), {name}: {means}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
