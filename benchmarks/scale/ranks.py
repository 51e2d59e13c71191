"""One fit on 1, 2, 4, ... processes of this machine: ``python -m benchmarks.scale.ranks --out FILE``.

The time of a step of the default model (10 inputs, T = 10, M = 100) for batches of 200 and 1,800 rows of the rest, one
thread in each process; wall time says something only on a machine with as many idle cores as processes. Then a model of
the speed-up on more processes from the constants that were measured: a step of ``a + b B`` on one process becomes
``a + b B / W + c(W)`` on W, where c is the sum over processes, 2 (W - 1) / W times the bytes over the speed of the
network and 2 (W - 1) latencies (a ring). It is a model, not a measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROWS, STEPS, SUBSET = 20_000, 60, 100
BATCHES = (200, 1800)
# Seconds of latency and bytes a second between hosts: 10 Gbit/s and 100 microseconds, as of ordinary Ethernet.
LATENCY, SPEED = 1e-4, 1.25e9


def measured(batch: int, device: str) -> dict[str, float]:
    """Milliseconds of a step, by the clock and of the process's CPU, and of the sum over processes alone."""
    import torch
    import torch.distributed as dist

    from sodgp import DeepGPRegressor, SoD

    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, 10))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=ROWS)
    model = DeepGPRegressor(
        inference=SoD(objective="predictive"),
        n_layers=3,
        subset_size=SUBSET,
        batch_size=SUBSET + batch,
        max_iter=10,
        random_state=0,
        verbose=False,
        device=device,
    )
    model.fit(X, y)
    model.set_params(max_iter=STEPS)
    from sodgp.training import steps

    clock: list[tuple[float, float]] = []
    honest = steps.EagerStep.__call__

    def timed(step: Any) -> Any:
        clock.append((time.perf_counter(), time.process_time()))
        return honest(step)

    steps.EagerStep.__call__ = timed  # type: ignore[method-assign]
    try:
        model.fit(X, y)
    finally:
        steps.EagerStep.__call__ = honest  # type: ignore[method-assign]
    wall, cpu = (np.diff(values) for values in zip(*clock, strict=True))
    found = {"ms": 1e3 * float(np.median(wall[5:])), "cpu_ms": 1e3 * float(np.median(cpu[5:]))}
    numbers = sum(p.numel() for p in model.fitted_.model.parameters())
    if dist.is_initialized():
        buffer = torch.zeros(numbers, dtype=torch.float64, device=model.fitted_.model.device)
        times = []
        for _ in range(50):
            began = time.perf_counter()
            dist.all_reduce(buffer)
            if buffer.is_cuda:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
        found["sum_ms"] = 1e3 * float(np.median(times))
    return found | {"numbers": numbers, "bound": model.history_.bound[-1]}


def _work(device: str) -> None:
    import torch

    from sodgp.training.distributed.joining import process_group, started_with

    torch.set_num_threads(1)
    if started_with() == 1:
        print(json.dumps({str(batch): measured(batch, device) for batch in BATCHES}))
        return
    with process_group(torch.device(device)) as rank:
        found = {str(batch): measured(batch, device) for batch in BATCHES}
        if rank == 0:
            print(json.dumps(found))


def on(count: int, device: str = "cpu", port: int = 29600) -> dict[str, Any]:
    """What the first of so many processes measured."""
    shared = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(count)}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port + count)}
    line = [sys.executable, "-m", "benchmarks.scale.ranks", "--work", "--device", device]
    processes = []
    with tempfile.TemporaryFile("w+") as told:
        for rank in range(count):
            to: Any = told if rank == 0 else subprocess.DEVNULL
            env = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            processes.append(subprocess.Popen(line, stdout=to, env=env))
        codes = [process.wait() for process in processes]
        if any(codes):
            raise RuntimeError(f"a process of {count} failed")
        told.seek(0)
        return {"ranks": count, "load": os.getloadavg()[0], **json.loads(told.read().splitlines()[-1])}


def model(alone: dict[str, Any], counts: tuple[int, ...] = (2, 4, 8, 16, 32, 64)) -> list[dict[str, Any]]:
    """The speed-up on more processes, from the time of a step on one: a model."""
    small, large = (alone[str(batch)]["ms"] for batch in BATCHES)
    each = (large - small) / (BATCHES[1] - BATCHES[0])
    fixed = small - each * BATCHES[0]
    bytes_sent = 8 * alone[str(BATCHES[1])]["numbers"]
    rows = []
    for count in counts:
        ring = 2 * (count - 1) * (LATENCY + bytes_sent / count / SPEED) * 1e3
        row: dict[str, Any] = {"ranks": count, "fixed_ms": fixed, "row_ms": each, "sum_ms": ring}
        for batch in (1800, 7200, 28_800):
            row[f"speedup_{batch}"] = (fixed + each * batch) / (fixed + each * batch / count + ring)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        _work(given.device)
        return
    found = []
    for count in given.ranks:
        found.append(on(count, given.device))
        print(json.dumps(found[-1]), flush=True)
    result = {"cores": os.cpu_count(), "device": given.device, "measured": found}
    if given.ranks[0] == 1:
        result["model"] = model(found[0])
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
