"""A soak: short fits, predictions, saves and loads, all in one process, whose memory must not grow by more than 5 %.

python -m benchmarks.reliability.soak                 2,000 rounds; about 20 minutes on one core
python -m benchmarks.reliability.soak --rounds 100    a few

Every round takes the next method. After a warm-up, in which caches fill, the resident set is read at intervals; growth
is that of the mean of the last fifth of the readings over that of the first fifth.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability.hostile import METHODS
from sodgp import DeepGPRegressor

RESULTS = Path(__file__).parents[1] / "results"
LIMIT = 0.05
SMALL = {"max_iter": 4, "n_predict_samples": 4, "subset_size": 8}


def resident_bytes() -> int:
    """Memory that this process holds now."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(fields["VmRSS"].split()[0])


def one(number: int, folder: Path) -> None:
    """One fit, one prediction; every tenth round also to a file and back, every fiftieth an error on the way."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(int(rng.integers(20, 60)), 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=len(X))
    method = list(METHODS)[number % len(METHODS)]
    model = DeepGPRegressor(**{**METHODS[method], **SMALL, "random_state": number}).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    model.predict_distribution(X[:5]).quantile([0.05, 0.95])
    if number % 10 == 0:
        model.save(folder / "m.sodgp")
        assert np.array_equal(DeepGPRegressor.load(folder / "m.sodgp").predict(X), mean)
    if number % 50 == 0:
        try:
            model.fit(X * np.nan, y)
        except ValueError:
            pass
        else:
            raise AssertionError("NaN went unnoticed")


def soak(rounds: int, warm_up: int, every: int) -> dict[str, Any]:
    """Run the rounds and read memory."""
    readings: list[int] = []
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(warm_up + rounds):
            one(number, Path(folder))
            if number >= warm_up and (number - warm_up) % every == 0:
                gc.collect()
                readings.append(resident_bytes())
    part = max(1, len(readings) // 5)
    first, last = float(np.mean(readings[:part])), float(np.mean(readings[-part:]))
    return {
        "rounds": rounds,
        "warm_up": warm_up,
        "readings_mb": [round(reading / 1e6, 1) for reading in readings],
        "first_mb": first / 1e6,
        "last_mb": last / 1e6,
        "growth": last / first - 1.0,
        "seconds": time.perf_counter() - began,
    }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--warm-up", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS / "reliability-soak.json")
    given = parser.parse_args()
    found = soak(given.rounds, given.warm_up, max(1, given.rounds // 100))
    import torch

    command = f"python -m benchmarks.reliability.soak --rounds {given.rounds} --warm-up {given.warm_up}"
    about = {"command": command, "python": platform.python_version(), "torch": torch.__version__}
    given.out.write_text(json.dumps({**about, **found}, indent=1) + "\n", encoding="utf-8")
    said = (
        f"# Soak\n\n`{command}` (one thread)\n\n{given.rounds} fits and predictions in one process, the methods"
        f" ({', '.join(METHODS)}) in turn, every tenth also to a file and back, after {given.warm_up} to warm up.\n\n"
        "| resident set, first fifth | last fifth | largest | growth | seconds |\n|---:|---:|---:|---:|---:|\n"
        f"| {found['first_mb']:.1f} MB | {found['last_mb']:.1f} MB | {max(found['readings_mb']):.1f} MB |"
        f" {100 * found['growth']:.2f} % | {found['seconds']:.0f} |\n"
    )
    given.out.with_suffix(".md").write_text(said, encoding="utf-8")
    print(said)
    return int(found["growth"] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
