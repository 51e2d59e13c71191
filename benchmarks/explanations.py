"""Which setting explains the gap to the paper: ``python -m benchmarks.explanations``.

The paper's presets with one thing changed at a time, all splits of a variant in one program.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.paper.machine import origin
from sodgp.data import load, paper_split
from sodgp.errors import NumericalError
from sodgp.estimator.many import fit_replicates
from sodgp.estimator.presets import paper
from sodgp.predictive import metrics
from sodgp.system.files import write_text_whole
from sodgp.system.validation import resolve_device

_RESULTS = Path(__file__).parent / "results" / "explanations"
_ARD = {"kernel": "rbf"}
_TIED = {"inference__tie_label_noise": True}


class Variant(NamedTuple):
    """A method of the paper at a depth, the source of its preset, and what is changed in it."""

    method: str
    layers: int
    source: str
    changes: dict[str, Any]


VARIANTS = {
    "SoD-DGP2": Variant("SoD", 2, "program", {}),
    "SoD-DGP2, ARD": Variant("SoD", 2, "program", _ARD),
    "SoD-DGP2, one noise": Variant("SoD", 2, "program", _TIED),
    "SoD-DGP2, ARD, one noise": Variant("SoD", 2, "program", {**_ARD, **_TIED}),
    "SoD-DGP2, text": Variant("SoD", 2, "text", {}),
    "SoD-DGP2, text, ARD": Variant("SoD", 2, "text", _ARD),
    "SoD-DGP3, ARD": Variant("SoD", 3, "program", _ARD),
    "SoD-DGP4, ARD": Variant("SoD", 4, "program", _ARD),
    "SoD-DGP1, ARD": Variant("SoD", 1, "program", _ARD),
    "SVGP, ARD": Variant("SVGP", 1, "program", _ARD),
}


def score(data: str, name: str, splits: int, iterations: int, device: str, compile: bool) -> dict[str, Any]:
    """NLPP, RMSE and CRPS of a variant on the test parts of the first splits, as lists; ``error`` if it failed."""
    table, variant = load(data), VARIANTS[name]
    parts = [paper_split(len(table.y), split) for split in range(splits)]
    options = {"device": device, "tuning__compile": compile, "max_iter": iterations, **variant.changes}
    models = [
        paper(variant.layers, variant.method, variant.source, random_state=split, **options) for split in range(splits)
    ]
    record = {"data": data, "variant": name, "splits": splits, "iterations": iterations}
    began = time.perf_counter()
    try:
        fit_replicates(models, [(table.X[train], table.y[train]) for train, _ in parts])
    except NumericalError as error:
        return {**record, "error": str(error)}
    found = [
        metrics.scores(table.y[test], model.predict_distribution(table.X[test]))
        for model, (_, test) in zip(models, parts, strict=True)
    ]
    record |= {metric: [scores[metric] for scores in found] for metric in ("nlpp", "rmse", "crps")}
    return {**record, "seconds": time.perf_counter() - began, "origin": origin(resolve_device(device))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and print everything."""
    options = _parser().parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for data in options.data:
        for name in options.variants:
            path = options.out / f"{data}-{name.replace(', ', '-').replace(' ', '_')}.json"
            if path.exists():
                record = json.loads(path.read_text())
                there = record["splits"], record["iterations"]
                if there != (options.splits, options.iterations):
                    stored = f"{there[0]} splits and {there[1]:,} iterations"
                    print(f"{path} has {stored}, and is not overwritten: give another --out.", file=sys.stderr)
                    return 2
            else:
                record = score(data, name, options.splits, options.iterations, options.device, options.compile)
                write_text_whole(path, json.dumps(record, indent=1) + "\n")
            values = record.get("nlpp")
            outcome = f"NLPP {sum(values) / len(values):.3f}" if values else record["error"]
            print(f"{data} {name}: {outcome}", flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.explanations", description=__doc__)
    parser.add_argument("--data", nargs="+", default=["energy", "concrete"], metavar="SET")
    parser.add_argument("--variants", nargs="+", choices=tuple(VARIANTS), default=list(VARIANTS), metavar="NAME")
    parser.add_argument("--splits", type=int, default=5, help="how many of the paper's, from number 0 on")
    parser.add_argument("--iterations", type=int, default=20_000)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--compile", action="store_true", help="fuse the steps with PyTorch's compiler")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="folder of results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
