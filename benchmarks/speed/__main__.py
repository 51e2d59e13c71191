"""Command line: ``python -m benchmarks.speed``."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.contestants import COMPILED
from benchmarks.speed.growth import measure_growth
from benchmarks.speed.machine import describe_machine, git_commit
from benchmarks.speed.one_shape import measure_at_once, measure_shape
from benchmarks.speed.report import details, disturbances, growth, store, summary
from benchmarks.speed.shapes import DEFAULT_SHAPES, SHAPES

_RESULTS = Path(__file__).resolve().parents[1] / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, store."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(given)
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no CUDA device here; use --device cpu.", file=sys.stderr)
        return 2
    if options.profile and (device.type == "cpu" or COMPILED not in (options.contestants or [COMPILED])):
        print(f"--profile is of {COMPILED} on --device cuda.", file=sys.stderr)
        return 2
    torch.set_num_threads(options.threads)
    _measure(options, given, device)
    return 0


def _measure(options: argparse.Namespace, given: Sequence[str], device: torch.device) -> None:
    path = options.out or _RESULTS / f"speed-{device.type}.json"
    record: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", "benchmarks.speed", *given]),
        "git": {"commit": options.commit} if options.commit else git_commit(),
        "machine": describe_machine(device),
        "seconds": 0.0,
        "shapes": {},
    }
    began = time.perf_counter()

    def keep() -> None:
        # After every part: a run that is cut short leaves what it has.
        record["seconds"] = time.perf_counter() - began
        store(record, path)

    arguments = {"repeats": options.repeats, "threads": options.threads, "memory": options.memory}
    arguments |= {"profiled": options.profile, "only": options.contestants}
    shapes = list(dict.fromkeys(options.shapes))
    one_by_one = ((name, measure_shape(SHAPES[name], device, **arguments)) for name in shapes)
    for name, measured in measure_at_once(shapes, device, arguments) if options.at_once else one_by_one:
        record["shapes"][name] = measured
        keep()
        print(details(name, measured), end="\n\n", flush=True)
    if options.growth:
        record["growth"] = measure_growth(device, options.repeats)
        keep()
        print(growth(record["growth"]), end="\n\n", flush=True)
    if record["shapes"]:
        print(summary(record), end="\n\n")
    if noisy := disturbances(record):
        print(f"The machine was not quiet: other processes took part of the core at {', '.join(noisy)}.")
    print(f"{record['seconds']:.0f} s; stored in {path} and {path.with_suffix('.md')}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.speed", description="Time of one training step.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--shapes",
        nargs="*",
        choices=tuple(SHAPES),
        default=list(DEFAULT_SHAPES),
        metavar="SHAPE",
        help=f"any of {', '.join(SHAPES)}; none at all with --growth alone",
    )
    parser.add_argument("--contestants", nargs="+", metavar="NAME", help="leave the others out")
    parser.add_argument("--repeats", type=_positive, help="rounds; a number for each shape by default")
    parser.add_argument("--threads", type=_positive, default=1, help="of torch on the CPU (default 1)")
    parser.add_argument("--growth", action="store_true", help="also slopes in B, M, T, D and L")
    parser.add_argument("--profile", action="store_true", help="also the kernels of our compiled step, on CUDA")
    parser.add_argument(
        "--at-once",
        action="store_true",
        help="build and compile all shapes together, a process each, and time them one by one",
    )
    parser.add_argument("--no-memory", dest="memory", action="store_false", help="leave peak memory out")
    parser.add_argument("--commit", help="to be recorded where there is no git")
    parser.add_argument("--out", type=Path, help="JSON file; the Markdown report is written next to it")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
