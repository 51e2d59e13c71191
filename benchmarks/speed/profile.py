"""Where the time of a recorded step goes on a GPU: ``python -m benchmarks.speed.profile``."""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.speed.ours import our_step
from benchmarks.speed.shapes import SHAPES, synthetic_data
from sodgp.inference.sod import SubsetOfData

_RESULTS = Path(__file__).resolve().parents[1] / "results"
_STEPS = 50

# The first pattern that a kernel's name matches decides.
_KINDS = (
    ("Cholesky factorisation", r"potrf|potf2|chol|sodgp_factor"),
    ("triangular solve", r"trsm|trsv|trtri"),
    ("matrix product", r"gemm|gemv|cutlass|splitK|dot_kernel|xmma|cublas"),
    ("fused by the compiler", r"^triton"),
    ("random numbers", r"distribution|philox|normal_kernel|curand"),
    ("Adam", r"adam|FusedOptimizer|multi_tensor"),
    ("copy or fill", r"copy|fill|memcpy|memset|Memcpy|Memset|CatArray"),
    ("other small kernel", r""),
)


def kind_of(kernel: str) -> str:
    """What a CUDA kernel does, by its name."""
    return next(kind for kind, pattern in _KINDS if re.search(pattern, kernel, re.IGNORECASE))


def tally(kernels: Iterable[tuple[str, float, int]], steps: int) -> dict[str, tuple[float, float]]:
    """Microseconds and launches per step by kind, the dearest first, from (name, microseconds, launches)."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, microseconds, launches in kernels:
        entry = sums[kind_of(name)]
        entry[0] += microseconds / steps
        entry[1] += launches / steps
    return dict(sorted(((kind, (a, b)) for kind, (a, b) in sums.items()), key=lambda item: -item[1][0]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Profile the compiled and recorded SoD step of every shape."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.profile", description=__doc__)
    parser.add_argument(
        "--shapes", nargs="+", choices=tuple(SHAPES), default=["energy2", "energy3", "protein3", "year3"]
    )
    parser.add_argument("--plain", action="store_true", help="without the compiler")
    parser.add_argument("--out", type=Path, default=_RESULTS / "speed-cuda-profile.md")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("Error: no CUDA device was found.", file=sys.stderr)
        return 2
    device = torch.device("cuda")
    compiled = not options.plain
    parts = [
        "# Where the time of a step goes\n",
        f"SoD, ancestral, recorded as a CUDA graph{', compiled' if compiled else ''}; {torch.cuda.get_device_name()},"
        f" torch {torch.__version__}, float64; `python -m benchmarks.speed.profile`. Kernels run one by one, so"
        " the sum is the step, but for the gaps between them.\n",
    ]
    for name in options.shapes:
        shape = SHAPES[name]
        step = our_step(SubsetOfData(), shape, synthetic_data(shape, device), device, captured=True, compiled=compiled)
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(_STEPS):
            step()
        end.record()
        torch.cuda.synchronize()
        total = 1e3 * begin.elapsed_time(end) / _STEPS
        with profile(activities=[ProfilerActivity.CUDA]) as prof:
            for _ in range(_STEPS):
                step()
            torch.cuda.synchronize()
        events = [
            (e.key, e.self_device_time_total, e.count) for e in prof.key_averages() if e.self_device_time_total > 0
        ]
        rows = tally(events, _STEPS)
        busy = sum(microseconds for microseconds, _ in rows.values())
        parts.append(f"## {name}: {total:.0f} µs a step without the profiler, {busy:.0f} µs in kernels\n")
        parts.append("| kind | µs | launches |\n|---|---|---|")
        parts += [f"| {kind} | {micro:.0f} | {launches:.0f} |" for kind, (micro, launches) in rows.items()]
        dearest = sorted(events, key=lambda event: -event[1])[:8]
        parts.append(
            "\n"
            + "\n".join(
                f"* `{key[:90]}`: {micro / _STEPS:.0f} µs, {count / _STEPS:.0f}x" for key, micro, count in dearest
            )
            + "\n"
        )
    text = "\n".join(parts)
    options.out.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
