"""Command line: ``python -m benchmarks.accuracy``."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path

from benchmarks.accuracy.cells import DATA_SETS, N_SPLITS, STAGES, Cell, compute, finished, store
from benchmarks.accuracy.pool import one_thread
from benchmarks.accuracy.report import markdown
from benchmarks.accuracy.variants import ABLATION, FINAL, VARIANTS

_RESULTS = Path(__file__).resolve().parents[1] / "results" / "accuracy"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, then write the report."""
    options = _parser().parse_args(arguments)
    # Nothing but what the validation rows have chosen ever sees a test row.
    variants = options.variants or list(ABLATION if options.stage == "validation" else FINAL)
    cells = [Cell(options.stage, data, variant) for variant in variants for data in options.data]
    _run([cell for cell in cells if finished(cell, options.out, options.splits) is None], options)
    stored = [Cell(options.stage, data, variant) for variant in VARIANTS for data in DATA_SETS]
    records = [record for cell in stored if (record := finished(cell, options.out)) is not None]
    report = markdown(records, options.stage)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{options.stage}.md").write_text(report)
    print(report)
    return 0


def _run(missing: Sequence[Cell], options: argparse.Namespace) -> None:
    waiting, running = list(missing), {}
    arguments = {"device": options.device, "splits": options.splits, "compile": options.compile}
    ends = time.perf_counter() + 60.0 * options.budget
    # Fresh processes: PyTorch's threads and CUDA do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, initializer=one_thread) as pool:
        while waiting or running:
            while waiting and len(running) < options.jobs and time.perf_counter() < ends:
                cell = waiting.pop(0)
                running[pool.submit(compute, cell, **arguments)] = cell
            if not running:
                print(f"the time is up with {len(waiting)} cells to go; run the same command again to go on.")
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell, record = running.pop(future), future.result()
                store(record, cell.path(options.out))
                outcome = record.get("error") or f"NLPP {sum(record['nlpp']) / len(record['nlpp']):.3f}"
                print(f"{cell.data} {cell.variant}: {outcome}, {record['seconds']:.0f} s", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.accuracy", description="Accuracy of options and efforts.")
    parser.add_argument("--stage", choices=STAGES, default="validation", help="rows to score")
    parser.add_argument("--data", nargs="+", choices=DATA_SETS, default=list(DATA_SETS), metavar="SET")
    parser.add_argument(
        "--variants", nargs="+", choices=tuple(VARIANTS), metavar="NAME", help="those of the stage by default"
    )
    parser.add_argument("--splits", type=int, default=N_SPLITS, help="how many of the paper's, from number 0 on")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--compile", action="store_true", help="fuse the steps with PyTorch's compiler")
    parser.add_argument(
        "--budget", type=float, default=float("inf"), metavar="MINUTES", help="begin no cell after these"
    )
    parser.add_argument("--out", type=Path, default=_RESULTS, help="folder of cells and tables")
    return parser


if __name__ == "__main__":
    sys.exit(main())
