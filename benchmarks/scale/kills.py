"""Ten kills of a process under torchrun, each followed by a restart: ``python -m benchmarks.scale.kills``.

Two processes train one model with checkpoints. Once the first checkpoint is there, one of the two gets SIGKILL;
torchrun starts both again, and they resume. The model must have the bits of one that was not killed. With ``--others``
the fit is not restarted by torchrun but continued by so many processes; the predictions must then agree to 1e-8. Linux
only.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from sodgp import DeepGPRegressor

_FIT = (
    *("-m", "sodgp", "fit", "d.csv", "--target", "y", "--objective", "predictive", "--n-layers", "2"),
    *("--subset-size", "20", "--batch-size", "60", "--max-iter", "400", "--checkpoint-every", "20", "--resume"),
    *("--quiet", "--distributed"),
)


def _started(folder: Path, name: str, processes: int, restarts: int) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    line += ["--max-restarts", str(restarts), "--monitor-interval", "0.1", "--standalone", *_FIT]
    line += ["--out", f"{name}.sodgp", "--checkpoint", f"{name}-steps"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(line, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=quiet, stderr=quiet)


def _workers(agent: int) -> dict[int, int]:
    """The processes that an agent of torchrun has started, by their ranks."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            rank = dict(v.split("=", 1) for v in (entry / "environ").read_text().split("\0") if "=" in v).get("RANK")
        except OSError:
            continue
        if parent == agent and rank is not None:
            found[int(rank)] = int(entry.name)
    return found


def _killed(folder: Path, name: str, rank: int, restarts: int) -> tuple[int, float]:
    """Kill one process after the first checkpoint; torchrun's exit code, and the seconds until it came to an end."""
    agent = _started(folder, name, 2, restarts)
    while agent.poll() is None and not list((folder / f"{name}-steps").glob("checkpoint-*.safetensors")):
        time.sleep(0.02)
    began = time.perf_counter()
    os.kill(_workers(agent.pid)[rank], signal.SIGKILL)
    return agent.wait(600), time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--others", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    frame = pd.DataFrame(X, columns=list("abc"))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        frame.assign(y=np.sin(X[:, 0]) + 0.1 * rng.normal(size=400)).to_csv(folder / "d.csv", index=False)
        assert _started(folder, "whole", 2, 0).wait(600) == 0
        whole = DeepGPRegressor.load(folder / "whole.sodgp").predict(frame)
        for number in range(given.kills):
            name = f"killed-{number}"
            code, seconds = _killed(folder, name, number % 2, 0 if given.others else 1)
            if given.others:
                code = _started(folder, name, given.others, 0).wait(600)
            found = DeepGPRegressor.load(folder / f"{name}.sodgp").predict(frame) if code == 0 else np.full(1, np.nan)
            difference = float(np.abs(found - whole).max())
            print(f"kill {number + 1} of rank {number % 2}: exit {code}, {seconds:.1f} s, {difference:.1e}", flush=True)


if __name__ == "__main__":
    main()
