"""Command line: ``python -m benchmarks.subsets``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks.subsets.cells import DATA_SETS, SIZES, Cell, Settings, compute, finished, store
from benchmarks.subsets.report import draw, markdown
from benchmarks.subsets.timing import ROWS, selection_times
from sodgp.errors import SodgpError
from sodgp.selectors import SELECTORS

_RESULTS = Path(__file__).resolve().parents[1] / "results" / "subsets"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, then write the report."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    ends = time.perf_counter() + 60.0 * options.budget
    settings = Settings(options.iterations, options.splits, options.layers, options.max_rows)
    cells = [Cell(d, s, m) for d in options.data for m in options.sizes for s in options.selectors]
    try:
        if options.selection_time:
            _time(options)
        else:
            _run(cells, settings, options, ends)
    except SodgpError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    records = [record for cell in cells if (record := finished(cell, settings, options.out)) is not None]
    times = _stored_times(options.out)
    report = markdown(records, times, len(cells) - len(records))
    (options.out / "subsets.md").write_text(report)
    pictures = draw(records, times, options.out)
    print(report)
    print(f"written: {', '.join(map(str, [options.out / 'subsets.md', *pictures]))}")
    return 0


def _run(cells: Sequence[Cell], settings: Settings, options: argparse.Namespace, ends: float) -> None:
    missing = [cell for cell in cells if finished(cell, settings, options.out) is None]
    # On a GPU all selectors of one data set and size share a program.
    together = options.device == "cuda"
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in missing:
        groups.setdefault((cell.data, cell.size, None if together else cell.selector), []).append(cell)
    done = len(cells) - len(missing)
    for group in groups.values():
        if time.perf_counter() >= ends:
            print(f"the time is up after cell {done} of {len(cells)}; run the same command again to go on.")
            return
        for cell, record in zip(group, compute(group, settings, device=options.device), strict=True):
            store(record, cell.path(options.out))
            done += 1
            outcome = record.get("error") or f"NLPP {sum(record['nlpp']) / len(record['nlpp']):.3f}"
            print(f"{done}/{len(cells)} {asdict(cell)}: {outcome}, {record['seconds']:.0f} s", flush=True)


def _time(options: argparse.Namespace) -> None:
    times = []
    for record in selection_times(options.selectors, options.rows, size=options.size, columns=options.columns):
        print(f"{record['selector']}, {record['rows']:,} rows: {record['seconds']:.2f} s", flush=True)
        times.append(record)
        (options.out / "selection-time.json").write_text(json.dumps(times, indent=1) + "\n")


def _stored_times(out: Path) -> list[dict[str, float]]:
    path = out / "selection-time.json"
    return json.loads(path.read_text()) if path.exists() else []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.subsets", description="Subset selectors compared.")
    parser.add_argument("--data", nargs="+", choices=DATA_SETS, default=list(DATA_SETS), metavar="SET")
    parser.add_argument("--selectors", nargs="+", choices=tuple(SELECTORS), default=list(SELECTORS), metavar="NAME")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="M")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--max-rows", type=int, help="of training and of test rows, for trials")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of torch on the CPU (default 1)")
    parser.add_argument(
        "--budget", type=float, default=float("inf"), metavar="MINUTES", help="begin no cell after these"
    )
    parser.add_argument("--out", type=Path, default=_RESULTS, help="folder of cells, table and pictures")
    parser.add_argument("--selection-time", action="store_true", help="time selections instead of fitting")
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS), metavar="N", help="with --selection-time")
    parser.add_argument("--size", type=int, default=100, metavar="M", help="with --selection-time")
    parser.add_argument("--columns", type=int, default=90, metavar="D", help="with --selection-time")
    return parser


if __name__ == "__main__":
    sys.exit(main())
