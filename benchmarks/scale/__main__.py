"""Growth with the number of rows, on one CPU thread: ``python -m benchmarks.scale --out benchmarks/results/scale``.

For every N a new process makes N x 10 numbers and one target, prepares a fit of the default model (scaling, subset,
split) and takes 20 steps. The same fit then reads its rows from a Parquet file in a temporary folder, in whose memory
only private pages count (RssAnon): those of files are given back on demand. Then predictions: rows a second of the
default model in Python, and of the command line on a Parquet file with one and with two processes. CPU seconds count
all threads and processes; peaks are those above what the process held before; of preparations they are of the resident
memory, in sizes of the data. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from sodgp import DeepGPRegressor
from sodgp.data import open_rows
from sodgp.estimator.memory_budget import preparation_bytes
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.prepare import checked_data, prepare
from sodgp.system.validation import FloatArray

_MB = 2**20


def table(rows: int, columns: int = 10) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(0)
    X = np.empty((rows, columns))
    for start in range(0, rows, 100_000):
        part = X[start : start + 100_000]
        rng.standard_normal(out=part)
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=rows)


def _held(what: str) -> float:
    """A line of the kernel's record of this process, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))


def _forget_peak() -> float:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _held("VmRSS")


def preparation(rows: int) -> dict[str, float]:
    """CPU seconds and peak memory of a preparation and of a short fit."""
    model = DeepGPRegressor(random_state=0, max_iter=20, verbose=0)
    config = Configuration.from_estimator(model)
    # What is imported on the way is not counted.
    prepare(config, checked_data("", *table(25_000)), seed=None, previous=None, plan=None)
    X, y = table(rows)
    size = (X.nbytes + y.nbytes) / _MB
    base, began = _forget_peak(), time.process_time()
    ready = prepare(config, checked_data("", X, y), seed=None, previous=None, plan=None)
    found = {"rows": rows, "data_mb": size, "cpu_seconds": time.process_time() - began}
    found |= {"peak": (_held("VmHWM") - base) / size, "estimate": preparation_bytes(X, y, 1) / _MB / size}
    del ready
    base = _forget_peak()
    model.fit(X, y)
    history = model.history_
    found["fit_peak_mb"] = _held("VmHWM") - base
    found["step_ms"] = (
        1000 * (history.seconds[-1] - history.seconds[0]) / (history.iteration[-1] - history.iteration[0])
    )
    return found


class _Watch(threading.Thread):
    """Looks at the private memory of this process again and again, in MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.is_over = 0.0, threading.Event()

    def run(self) -> None:
        while not self.is_over.wait(0.01):
            self.peak = max(self.peak, _held("RssAnon"))


def _write_parquet(path: str, rows: int) -> None:
    """The rows of `table`, but a million of them at a time and with other random numbers in each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(f"x{number}", pa.float64()) for number in range(10)] + [("y", pa.float64())])
    with pq.ParquetWriter(path, schema, compression="none") as writer:
        for start in range(0, rows, 10**6):
            X = np.random.default_rng(start).standard_normal((min(10**6, rows - start), 10))
            y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * np.random.default_rng(start + 1).normal(size=len(X))
            writer.write_table(pa.table([*X.T, y], schema=schema))


def stream(rows: int) -> dict[str, float]:
    """Seconds of a fit of 20 steps to a Parquet file, without a cache and with one; peak of the private memory."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        # In a process of its own: what it frees stays with its process for a while.
        for name, count in (("t", rows), ("small", 30_000)):
            path = str(folder / f"{name}.parquet")
            code = f"from benchmarks.scale.__main__ import _write_parquet as write; write({path!r}, {count})"
            subprocess.run([sys.executable, "-c", code], check=True)
        model = DeepGPRegressor(random_state=0, max_iter=20, verbose=0)
        # What is imported on the way is not counted.
        model.fit(open_rows(folder / "small.parquet", "y"))
        found, base = {"rows": float(rows), "data_mb": 88e-6 * rows}, _held("RssAnon")
        for name in ("first", "again"):
            watch = _Watch()
            watch.start()
            cpu, wall = time.process_time(), time.perf_counter()
            model.fit(open_rows(folder / "t.parquet", "y", cache=folder / "cache"))
            watch.is_over.set()
            watch.join()
            found |= {f"{name}_cpu_seconds": time.process_time() - cpu, f"{name}_seconds": time.perf_counter() - wall}
            found[f"{name}_private_mb"] = watch.peak - base
        found["cache_mb"] = sum(path.stat().st_size for path in (folder / "cache").rglob("*")) / _MB
    history = model.history_
    found["step_ms"] = (
        1000 * (history.seconds[-1] - history.seconds[0]) / (history.iteration[-1] - history.iteration[0])
    )
    return found


def prediction(rows: int) -> dict[str, float]:
    """Rows a second of the default model, and peak memory."""
    X, y = table(3000)
    model = DeepGPRegressor(random_state=0, max_iter=40, verbose=0).fit(X, y)
    new, _ = table(rows)
    model.predict(new[:100], return_std=True)
    base, found = _forget_peak(), {"rows": float(rows)}
    for name, options in (("mean", {}), ("std", {"return_std": True})):
        began = time.process_time()
        for _ in model.predict_batches(new, **options):
            pass
        found[name] = rows / (time.process_time() - began)
    return found | {"peak_mb": _held("VmHWM") - base}


def command(rows: int, jobs: int) -> dict[str, float]:
    """Wall and CPU seconds of ``sodgp predict`` on a Parquet file, and the largest process."""
    X, y = table(3000)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        import pandas as pd

        names = [f"x{number}" for number in range(X.shape[1])]
        DeepGPRegressor(random_state=0, max_iter=40, verbose=0).fit(pd.DataFrame(X, columns=names), y).save(
            folder / "m"
        )
        pd.DataFrame(table(rows)[0], columns=names).to_parquet(folder / "t.parquet")
        line = [sys.executable, "-m", "sodgp", "predict", "m", "t.parquet", "--out", "p.parquet", "--jobs", str(jobs)]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(line, cwd=folder, check=True, capture_output=True)
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        assert len(pd.read_parquet(folder / "p.parquet")) == rows
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"rows": rows, "jobs": jobs, "wall": wall, "cpu_seconds": cpu, "largest_mb": after.ru_maxrss / 1024}


def _alone(what: str, *numbers: int) -> dict[str, float]:
    """One measurement in a process of its own, with the load of the machine when it began."""
    load = os.getloadavg()[0]
    line = [sys.executable, "-m", "benchmarks.scale", "--only", what, *map(str, numbers)]
    told = subprocess.run(line, check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found = {**json.loads(told.stdout.splitlines()[-1]), "load": load}
    print(what, {name: round(value, 2) for name, value in found.items()}, flush=True)
    return found


def _markdown(found: dict[str, Any]) -> str:
    """The results as tables."""
    text = ["# Growth with the number of rows", ""]
    for name, (line, when) in found["measured"].items():
        lines = found[name]
        if not lines:
            continue
        text += [f"## {name}", "", f"`{line}`, one thread, {when}.", ""]
        text += ["| " + " | ".join(lines[0]) + " |", "|" + "---|" * len(lines[0])]
        text += ["| " + " | ".join(f"{value:,.4g}" for value in line.values()) + " |" for line in lines] + [""]
    return "\n".join(text)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**4, 10**5, 10**6, 10**7])
    parser.add_argument("--streams", type=int, nargs="*", default=[10**6, 10**7], help="rows of streamed fits")
    parser.add_argument("--new", type=int, default=200_000, help="rows that are predicted")
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, 2])
    parts = ("preparation", "stream", "prediction", "command")
    parser.add_argument("--measure", nargs="+", choices=parts, default=parts, help="the others stay as they were")
    parser.add_argument("--out", type=Path, help="results go to OUT.json and OUT.md")
    parser.add_argument("--only", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.only:
        what, *numbers = options.only
        measures = {"preparation": preparation, "stream": stream, "prediction": prediction, "command": command}
        print(json.dumps(measures[what](*map(int, numbers))))
        return
    line = " ".join(["python -m benchmarks.scale", *(sys.argv[1:] if arguments is None else arguments)])
    sizes = {
        "preparation": [(rows,) for rows in options.rows],
        "stream": [(rows,) for rows in options.streams],
        "prediction": [(options.new,)],
        "command": [(options.new, jobs) for jobs in options.jobs],
    }
    file = None if options.out is None else options.out.with_suffix(".json")
    found: dict[str, Any] = {"measured": {}}
    if file is not None and file.exists() and set(options.measure) < set(sizes):
        found = json.loads(file.read_text(encoding="utf-8"))
    for name in options.measure:
        found[name] = [_alone(name, *numbers) for numbers in sizes[name]]
        found["measured"][name] = [line, time.strftime("%Y-%m-%d")]
    if file is not None:
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        options.out.with_suffix(".md").write_text(_markdown(found), encoding="utf-8")


if __name__ == "__main__":
    main()
