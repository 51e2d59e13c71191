"""Which setting of the authors' program explains the gap to the paper: ``python -m benchmarks.explanations``.

SoD-DGP2 with the paper's preset, one thing changed at a time, on one split and with fewer iterations than the table.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sodgp import metrics
from sodgp.data import load, paper_split
from sodgp.presets import paper

# Source of the preset, and what is changed in it.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "program": ("program", {}),
    "ARD": ("program", {"kernel": "rbf"}),
    "tied": ("program", {"tie_label_noise": True}),
    "ARD, tied": ("program", {"kernel": "rbf", "tie_label_noise": True}),
    "text": ("text", {}),
    "text, ARD": ("text", {"kernel": "rbf"}),
}


def score(data: str, variant: str, split: int, iterations: int) -> dict[str, Any]:
    """NLPP, RMSE and CRPS of a variant on the test part of a split."""
    table = load(data)
    train, test = paper_split(len(table.y), split)
    source, changes = VARIANTS[variant]
    began = time.perf_counter()
    model = paper(2, "SoD", source, random_state=split, device="cpu", max_iter=iterations, **changes)
    model.fit(table.X[train], table.y[train])
    found = metrics.scores(table.y[test], model.predict_distribution(table.X[test]))
    kept = {name: found[name] for name in ("nlpp", "rmse", "crps")}
    return {"data": data, "variant": variant, "split": split, **kept, "seconds": time.perf_counter() - began}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all variants and write what came out after each."""
    parser = argparse.ArgumentParser("python -m benchmarks.explanations", description=__doc__)
    parser.add_argument("--data", default="energy")
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=3000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "explanations.json")
    options = parser.parse_args(arguments)
    command = f"python -m benchmarks.explanations --data {options.data} --split {options.split}"
    found: dict[str, Any] = {"command": f"{command} --iterations {options.iterations}", "runs": []}
    for variant in VARIANTS:
        found["runs"].append(score(options.data, variant, options.split, options.iterations))
        options.out.write_text(json.dumps(found, indent=1) + "\n")
        print(found["runs"][-1], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
