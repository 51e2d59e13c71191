"""Command line: ``python -m benchmarks.time_to_accuracy``. Run it again to go on where it was stopped."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.accuracy.cells import STAGES
from benchmarks.time_to_accuracy.cells import BUDGETS, Cell, compute, finished, one_thread, store, stored
from benchmarks.time_to_accuracy.contestants import CONTESTANTS, USUAL
from benchmarks.time_to_accuracy.report import markdown, picture
from benchmarks.time_to_accuracy.sets import SETS
from sodgp.errors import SodgpError

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
    try:
        _run([cell for cell in cells if finished(cell, options.out, options.budgets) is None], options)
    except SodgpError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    records = stored(options.stage, options.out)
    options.out.mkdir(parents=True, exist_ok=True)
    report = markdown(records, options.stage)
    (options.out / f"{options.stage}.md").write_text(report)
    picture(records).savefig(options.out / f"{options.stage}.png", dpi=110)
    print(report)
    return 0


def _run(missing: Sequence[Cell], options: argparse.Namespace) -> None:
    """One cell after another, each in a process of its own."""
    ends = time.perf_counter() + 60.0 * options.minutes
    # A fresh process for each: what one fit leaves in memory and caches is not the next one's.
    context = multiprocessing.get_context("spawn")
    for number, cell in enumerate(missing):
        if time.perf_counter() >= ends:
            print(f"the time is up with {len(missing) - number} cells to go; run the same command again to go on.")
            return
        with ProcessPoolExecutor(1, mp_context=context, initializer=one_thread) as pool:
            record = pool.submit(compute, cell, options.budgets).result()
        store(record, cell.path(options.out))
        points = ", ".join(f"{point['seconds']:.1f} s {point['nlpp']:.3f}" for point in record["points"])
        outcome = record.get("not_run") or record.get("error") or points
        print(f"{cell.data} {cell.contestant} {cell.split}: {outcome}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.time_to_accuracy", description=__doc__)
    parser.add_argument("--stage", choices=STAGES, default="validation", help="rows to score")
    parser.add_argument("--data", nargs="+", choices=tuple(SETS), default=list(SETS), metavar="SET")
    parser.add_argument("--contestants", nargs="+", choices=tuple(CONTESTANTS), default=list(USUAL), metavar="NAME")
    parser.add_argument("--splits", type=int, default=1, help="how many, from number 0 on")
    parser.add_argument(
        "--budgets", type=float, nargs="+", default=list(BUDGETS), metavar="SECONDS", help="of runs that have them"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no cell after these")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="folder of cells, tables and picture")
    return parser


if __name__ == "__main__":
    sys.exit(main())
