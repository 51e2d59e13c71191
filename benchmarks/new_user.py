"""A new user's path, timed: clone, install, and from an own table of 1,000 rows x 10 columns to the first report.

python -m benchmarks.new_user                          writes benchmarks/results/new-user.md
python -m benchmarks.new_user --repository URL         another source than this checkout's last commit

Every command is one of README.md. Nothing of this checkout or its environment is used: a fresh clone, a fresh virtual
environment, and an empty folder to work in.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "new-user.md"
# Friedman's function with a jump, ten columns of which six matter, and noise of 1.
TABLE = """
import numpy as np, pandas as pd
rng = np.random.default_rng(0)
X = rng.uniform(size=(1200, 10))
y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
y += 8 * (X[:, 5] > 0.6) + rng.standard_normal(1200)
table = pd.DataFrame(X.round(4), columns=[f"sensor_{i}" for i in range(10)]).assign(load=y.round(3))
table[:1000].to_csv("data.csv", index=False)
table[1000:].to_csv("held-out.csv", index=False)
"""


@dataclass(frozen=True)
class Step:
    """One command, its seconds on the clock and on the processors."""

    what: str
    command: str
    wall: float
    cpu: float


def timed(what: str, command: str, folder: Path, environment: dict[str, str]) -> Step:
    """Run a shell command in a folder; stop everything if it fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, shell=True, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    step = Step(what, command, time.perf_counter() - began, cpu)
    print(f"{what}: {step.wall:.0f} s, {step.cpu:.0f} CPU seconds", flush=True)
    return step


def path(repository: str, folder: Path) -> list[Step]:
    """The steps of README.md, in order."""
    work, clone = folder / "work", folder / "sodgp"
    work.mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    torch = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    program = clone / ".venv" / "bin"
    kept["PATH"] = f"{program}{os.pathsep}{kept['PATH']}"
    install = f"pip install -q {torch} && pip install -q -c constraints.txt '.[frames]'"
    return [
        timed("clone", f"git clone -q {repository} sodgp", folder, kept),
        timed("environment", f"{sys.executable} -m venv .venv", clone, kept),
        timed("install", install, clone, kept),
        timed("(make the table)", f"python -c '{TABLE}'", work, kept),
        timed("fit", "sodgp fit data.csv --target load --out model/", work, kept),
        timed("report", "sodgp report model/ held-out.csv --out report.html", work, kept),
    ]


def page(steps: list[Step], commit: str, load: float) -> str:
    """The result, in Markdown."""
    counted = [step for step in steps if not step.what.startswith("(")]
    lines = [
        "# A new user's path",
        "",
        "`python -m benchmarks.new_user`: a fresh clone, a fresh environment, a table of 1,000 rows x 10 columns, and",
        f"200 rows kept apart for the report. {platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the",
        "start (above the number of cores the machine was shared, and the clock says more than the path needs);",
        f"commit {commit}.",
        "",
        "| step | seconds on the clock | CPU seconds |",
        "|---|---:|---:|",
        *(f"| {step.what} | {step.wall:.0f} | {step.cpu:.0f} |" for step in counted),
        f"| **all** | **{sum(s.wall for s in counted):.0f}** | **{sum(s.cpu for s in counted):.0f}** |",
        "",
        "Reading and typing are not counted: seven lines of the README, copied.",
        "",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Run the path in a temporary folder and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", default=str(ROOT))
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    folder = Path(tempfile.mkdtemp())
    try:
        steps = path(options.repository, folder)
        head = ["git", "-C", str(folder / "sodgp"), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
        options.out.write_text(page(steps, commit, load), encoding="utf-8")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
