"""Command line: ``python -m benchmarks.time_to_accuracy``. Run it again to go on where it was stopped."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.accuracy.cells import STAGES
from benchmarks.processes import in_fresh_processes
from benchmarks.time_to_accuracy.cells import BUDGETS, Cell, compute, finished, store, stored
from benchmarks.time_to_accuracy.contestants import CONTESTANTS, USUAL
from benchmarks.time_to_accuracy.report import markdown, picture
from benchmarks.time_to_accuracy.sets import SETS

_RESULTS = Path(__file__).resolve().parents[1] / "results" / "time_to_accuracy"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, then write tables and picture of all results of the stage."""
    options = _parser().parse_args(arguments)
    cells = [
        Cell(options.stage, data, contestant, split)
        for split in range(options.splits)
        for data in options.data
        for contestant in options.contestants
    ]
    _run([cell for cell in cells if finished(cell, options.out, options.budgets) is None], options)
    records = stored(options.stage, options.out)
    options.out.mkdir(parents=True, exist_ok=True)
    report = markdown(records, options.stage)
    (options.out / f"{options.stage}.md").write_text(report)
    picture(records).savefig(options.out / f"{options.stage}.png", dpi=110)
    print(report)
    return 0


def _run(missing: Sequence[Cell], options: argparse.Namespace) -> None:
    """Every cell in a process of its own, as many at a time as `--jobs` says."""
    calls = [(cell, options.budgets) for cell in missing]
    done = 0
    for number, record in in_fresh_processes(compute, calls, jobs=options.jobs, minutes=options.minutes):
        cell, done = missing[number], done + 1
        if isinstance(record, str):
            print(f"{cell.data} {cell.contestant} {cell.split}: {record}", flush=True)
            continue
        store(record, cell.path(options.out))
        points = ", ".join(f"{point['seconds']:.1f} s {point['nlpp']:.3f}" for point in record["points"])
        outcome = record.get("not_run") or record.get("error") or points
        print(f"{cell.data} {cell.contestant} {cell.split}: {outcome}", flush=True)
    if done < len(missing):
        print(f"the time is up with {len(missing) - done} cells to go; run the same command again to go on.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.time_to_accuracy", description=__doc__)
    parser.add_argument("--stage", choices=STAGES, default="validation", help="rows to score")
    parser.add_argument("--data", nargs="+", choices=tuple(SETS), default=list(SETS), metavar="SET")
    parser.add_argument("--contestants", nargs="+", choices=tuple(CONTESTANTS), default=list(USUAL), metavar="NAME")
    parser.add_argument("--splits", type=int, default=1, help="how many, from number 0 on")
    parser.add_argument(
        "--budgets", type=float, nargs="+", default=list(BUDGETS), metavar="SECONDS", help="of runs that have them"
    )
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, each with one thread")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no cell after these")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="folder of cells, tables and picture")
    return parser


if __name__ == "__main__":
    sys.exit(main())
