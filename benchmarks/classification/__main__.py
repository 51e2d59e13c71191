"""Command line: ``python -m benchmarks.classification``. Run it again to go on where it was stopped."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy.cells import STAGES
from benchmarks.classification.cells import CONTESTANTS, Cell, compute, finished, store, stored
from benchmarks.classification.report import markdown
from benchmarks.classification.sets import SETS
from benchmarks.processes import in_fresh_processes

_RESULTS = Path(__file__).resolve().parents[1] / "results" / "classification"
_NAMES = tuple(dict.fromkeys(name for each in CONTESTANTS.values() for name in each))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, then write the tables of all results of the stage."""
    options = _parser().parse_args(arguments)
    cells = [
        Cell(options.stage, data, contestant, split)
        for split in range(options.splits)
        for data in options.data
        for contestant in CONTESTANTS[SETS[data].task]
        if contestant in options.contestants
    ]
    _run([cell for cell in cells if finished(cell, options.out) is None], options)
    report = markdown(stored(options.stage, options.out), options.stage)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{options.stage}.md").write_text(report)
    print(report)
    return 0


def _run(missing: Sequence[Cell], options: argparse.Namespace) -> None:
    done, calls = 0, [(cell,) for cell in missing]
    for number, record in in_fresh_processes(compute, calls, jobs=options.jobs, minutes=options.minutes):
        cell, done = missing[number], done + 1
        if not isinstance(record, str):
            store(record, cell.path(options.out))
        print(f"{cell.data} {cell.contestant} {cell.split}: {_outcome(record)}", flush=True)
    if done < len(missing):
        print(f"the time is up with {len(missing) - done} cells to go; run the same command again to go on.")


def _outcome(record: dict[str, Any] | str) -> str:
    if isinstance(record, str):
        return record
    if "scores" not in record:
        return str(record.get("not_run") or record.get("error"))
    scores = record["scores"]
    return f"{scores.get('log_loss', scores.get('nlpp')):.4f} in {record['seconds']:.1f} s"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.classification", description=__doc__)
    parser.add_argument("--stage", choices=STAGES, default="validation", help="rows to score")
    parser.add_argument("--data", nargs="+", choices=tuple(SETS), default=list(SETS), metavar="SET")
    parser.add_argument("--contestants", nargs="+", choices=_NAMES, default=list(_NAMES), metavar="NAME")
    parser.add_argument("--splits", type=int, default=5, help="how many, from number 0 on")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no cell after these")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="folder of cells and tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())
