"""Where the time of a recorded step goes on a GPU."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.speed.contestants import StepFunction

_STEPS = 50
_DEAREST = 12

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
    """Microseconds and launches per step by kind, the most expensive first, from (name, microseconds, launches)."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, microseconds, launches in kernels:
        entry = sums[kind_of(name)]
        entry[0] += microseconds / steps
        entry[1] += launches / steps
    return dict(sorted(((kind, (a, b)) for kind, (a, b) in sums.items()), key=lambda item: -item[1][0]))


def profile_step(step: StepFunction) -> dict[str, Any]:
    """Microseconds and launches of the kernels of a step that has run before.

    Returns
    -------
    dict
        ``kinds``, the most expensive first, each with microseconds and launches per step; ``dearest``, the names of the
        kernels that take most, each with the same.
    """
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        for _ in range(_STEPS):
            step()
        torch.cuda.synchronize()
    events = [(e.key, e.self_device_time_total, e.count) for e in prof.key_averages() if e.self_device_time_total > 0]
    dearest = sorted(events, key=lambda event: -event[1])[:_DEAREST]
    return {
        "kinds": tally(events, _STEPS),
        "dearest": [(name[:90], micro / _STEPS, count / _STEPS) for name, micro, count in dearest],
    }
