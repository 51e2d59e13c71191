"""Hostile data: every fit must end in finite predictions, or in a typed error that names the cause.

python -m benchmarks.reliability.hostile                  the whole grid with every method; half an hour on one core
python -m benchmarks.reliability.hostile --every 20       a twentieth of it
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.hostile_sets import Case, cases
from sodgp import SGHMC, DeepGPRegressor
from sodgp.errors import SodgpError, SodgpWarning

RESULTS = Path(__file__).parents[1] / "results"
CLOSED = {"n_predict_samples": 10, "max_iter": 30, "random_state": 0}
SMALL = {**CLOSED, "n_samples": 3, "batch_size": 400}
METHODS: dict[str, dict[str, Any]] = {
    "SoD": SMALL,
    "DSVI": {**SMALL, "inference": "dsvi"},
    "SVGP": {**SMALL, "inference": "dsvi", "n_layers": 1},
    "mean-field": {**CLOSED, "inference": "mean_field"},
    "SGHMC": {**CLOSED, "inference": SGHMC(n_posterior_samples=10, thinning=2), "batch_size": 400},
}


def options(method: str, n_rows: int) -> dict[str, Any]:
    """Smaller subsets, and fewer steps, for those who look at all rows in every one of them."""
    chosen = {**METHODS[method], "subset_size": min(50, max(1, (n_rows + 1) // 2))}
    if method == "mean-field" and n_rows > 300:
        chosen |= {"max_iter": 15, "subset_size": 20}
    return chosen


def one(case: Case, method: str) -> dict[str, Any]:
    """Fit and predict once; what happened."""
    X, y = case.data()
    found: dict[str, Any] = {"data": case.name, "kind": case.kind, "method": method}
    began = time.perf_counter()
    model = DeepGPRegressor(**options(method, case.n_rows))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model.fit(X, y)
            rows = X.iloc[:50] if hasattr(X, "iloc") else X[:50]
            mean, std = model.predict(rows, return_std=True)
            good = np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all()
            scores = model.predict_distribution(rows).log_prob(np.asarray(y[: len(rows)], dtype=float))
            found["outcome"] = "finite" if good and np.isfinite(scores).all() else "unexplained: not finite"
            spread = np.ptp(np.asarray(y, dtype=float), axis=0) + np.spacing(np.abs(np.asarray(y, dtype=float)).max())
            found["strayed"] = bool((np.abs(mean - np.mean(np.asarray(y, dtype=float), axis=0)) > 10.0 * spread).any())
        except SodgpError as error:
            named = len(str(error)) > 20
            found["outcome"] = f"{type(error).__name__}" if named else "unexplained: an error without a cause"
            found["message"] = str(error)[:300]
        except Exception as error:
            found["outcome"] = f"unexplained: {type(error).__name__}"
            found["message"] = str(error)[:300]
    # NumPy's and PyTorch's own warnings do not help a user.
    raw = sorted({str(w.message)[:100] for w in said if not issubclass(w.category, SodgpWarning)})
    if raw:
        found["warnings"] = raw
        if not found["outcome"].startswith("unexplained"):
            found["outcome"] = f"unexplained: warnings, then {found['outcome']}"
    history = getattr(model, "history_", None)
    found["rollbacks"] = getattr(history, "rollbacks", 0)
    found["jitter_climbs"] = getattr(history, "jitter_climbs", 0)
    found["seconds"] = round(time.perf_counter() - began, 2)
    return found


def table(results: list[dict[str, Any]]) -> str:
    """Outcomes and safeguards by method, in Markdown."""
    lines = [
        "| method | fits | finite | typed error | unexplained | roll-back | more jitter | strayed | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for method in [*METHODS, "all"]:
        mine = [r for r in results if method in (r["method"], "all")]
        if not mine:
            continue
        finite = sum(r["outcome"] == "finite" for r in mine)
        unexplained = sum(r["outcome"].startswith("unexplained") for r in mine)
        rolled, climbed = sum(r["rollbacks"] > 0 for r in mine), sum(r["jitter_climbs"] > 0 for r in mine)
        lines.append(
            f"| {method} | {len(mine)} | {finite} | {len(mine) - finite - unexplained} | {unexplained} |"
            f" {rolled} ({100 * rolled / len(mine):.1f} %) | {climbed} ({100 * climbed / len(mine):.1f} %) |"
            f" {sum(r.get('strayed', False) for r in mine)} | {sum(r['seconds'] for r in mine):.0f} |"
        )
    return "\n".join(lines)


def errors_table(results: list[dict[str, Any]]) -> str:
    """The typed errors by kind of data, in Markdown."""
    counts = Counter((r["kind"], r["outcome"]) for r in results if r["outcome"] != "finite")
    examples = {(r["kind"], r["outcome"]): r["message"] for r in results if r["outcome"] != "finite" and "message" in r}
    lines = ["| data | error | fits | for example |", "|---|---|---:|---|"]
    for (kind, outcome), count in sorted(counts.items()):
        said = " ".join(examples.get((kind, outcome), "").split())[:160].replace("|", "\\|")
        lines.append(f"| {kind} | {outcome} | {count} | {said} |")
    return "\n".join(lines)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="take one data set of so many")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--out", type=Path, default=RESULTS / "reliability-hostile.json")
    given = parser.parse_args()
    chosen = list(cases())[:: given.every]
    results = []
    for number, case in enumerate(chosen, 1):
        for method in given.methods:
            found = one(case, method)
            results.append(found)
            if found["outcome"].startswith("unexplained"):
                print(found, file=sys.stderr)
        if number % 20 == 0:
            print(f"{number} of {len(chosen)} data sets", file=sys.stderr)
    import torch

    command = "python -m benchmarks.reliability.hostile"
    about = {
        "command": command,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "data_sets": len(chosen),
    }
    given.out.write_text(json.dumps({**about, "fits": results}, indent=0) + "\n", encoding="utf-8")
    said = (
        f"# Hostile data\n\n`{command}` (one thread; {len(chosen)} data sets, {len(results)} fits)\n\n"
        f"{table(results)}\n\n"
        "*Strayed*: a finite prediction at a training row that is more than ten times the spread of y away from its"
        " mean.\n\n## Typed errors\n\n"
        f"{errors_table(results)}\n"
    )
    given.out.with_suffix(".md").write_text(said, encoding="utf-8")
    print(table(results))
    return int(any(r["outcome"].startswith("unexplained") for r in results))


if __name__ == "__main__":
    sys.exit(main())
