"""L and L^-1 of small matrices on a GPU, our kernel against the library: ``python -m benchmarks.speed.factor``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sodgp.linalg.cholesky import inverse_triangular
from sodgp.linalg.cuda.factor import factor_pair

SIZES = (50, 100, 128)
BATCHES = (1, 10, 50, 200)
_CALLS, _REPLAYS = 20, 50


def library(K: Tensor) -> object:
    L, _ = torch.linalg.cholesky_ex(K)
    return L, inverse_triangular(L)


def microseconds(function: Callable[[Tensor], object], K: Tensor) -> float:
    """Time of one call among many recorded as a CUDA graph, so that launching from the host costs nothing."""
    for _ in range(3):
        function(K)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_CALLS):
            function(K)
    graph.replay()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(_REPLAYS):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return 1e3 * begin.elapsed_time(end) / (_CALLS * _REPLAYS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table."""
    argparse.ArgumentParser("python -m benchmarks.speed.factor", description=__doc__).parse_args(arguments)
    if not torch.cuda.is_available():
        print("Error: no CUDA device was found.", file=sys.stderr)
        return 2
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, float64; µs a call\n")
    print("| M | matrices | kernel | library |\n|---|---|---|---|")
    for size in SIZES:
        for batch in BATCHES:
            root = torch.randn(batch, size, size, dtype=torch.float64, device="cuda")
            K = root @ root.mT / size + torch.eye(size, dtype=torch.float64, device="cuda")
            ours, theirs = microseconds(factor_pair, K), microseconds(library, K)
            print(f"| {size} | {batch} | {ours:.1f} | {theirs:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
