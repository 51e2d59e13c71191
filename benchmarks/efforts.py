"""Seconds that a fit takes on one CPU thread of this machine: ``python -m benchmarks.efforts``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from sodgp import DeepGPRegressor
from sodgp.estimator.options.fields import EFFORTS


def seconds(effort: str, n_rows: int = 1000, n_columns: int = 10) -> float:
    """Of one fit to a synthetic table."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n_rows)
    began = time.perf_counter()
    DeepGPRegressor(effort=effort, random_state=0, device="cpu").fit(X, y)
    return time.perf_counter() - began


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit once with every effort that was asked for."""
    parser = argparse.ArgumentParser("python -m benchmarks.efforts", description=__doc__)
    parser.add_argument("--efforts", nargs="+", choices=tuple(EFFORTS), default=["quick", "standard"])
    for effort in parser.parse_args(arguments).efforts:
        print(f"{effort}: {seconds(effort):.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
