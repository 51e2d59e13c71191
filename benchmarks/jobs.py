"""Wall time with more processes and more threads: ``python -m benchmarks.jobs``, on a machine that does nothing else.

Members, restarts and folds with `n_jobs`, and one fit with `n_threads`, each against one of both; beside every line the
load of the machine when it was measured. ``--busy`` measures threads beside a process that is pinned to one core.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from sodgp import DeepGPRegressor
from sodgp.report import cross_validated
from sodgp.system.validation import FloatArray


def table(rows: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 10))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=rows)


def timed(label: str, work: Callable[[], object]) -> None:
    load, began = os.getloadavg()[0], time.perf_counter()
    work()
    print(f"{label:<48} {time.perf_counter() - began:8.1f} s wall   load {load:.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--threads", nargs="*", default=["1", "2", "auto"])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--busy", action="store_true")
    options = parser.parse_args()
    X, y = table(1000)
    steps = {"max_iter": options.steps, "random_state": 0}
    for jobs in options.jobs:
        for what in ("n_members", "n_restarts"):
            model = DeepGPRegressor(**steps, **{what: 4}, n_jobs=jobs)
            timed(f"{what}=4, 1,000 rows, n_jobs={jobs}", lambda model=model: model.fit(X, y))
        model = DeepGPRegressor(max_iter=1, random_state=0).fit(X, y).set_params(**steps)
        timed(f"4 folds of 1,000 rows, n_jobs={jobs}", lambda m=model, j=jobs: cross_validated(m, X, y, 4, n_jobs=j))
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if options.busy else None
    try:
        if busy is not None:
            os.sched_setaffinity(busy.pid, {min(os.sched_getaffinity(0))})
        for rows, effort in ((1000, "standard"), (1000, "thorough"), (50_000, "standard")):
            X, y = table(rows)
            for text in options.threads:
                threads = int(text) if text.isdigit() else text
                model = DeepGPRegressor(**steps, effort=effort, n_members=1, subset="random", n_threads=threads)
                timed(f"{effort}, {rows:,} rows, n_threads={threads}", lambda m=model, X=X, y=y: m.fit(X, y))
    finally:
        if busy is not None:
            busy.kill()


if __name__ == "__main__":
    main()
