"""The wheel alone: build it, install it into an empty environment, and use it far from the repository.

python tools/check_wheel.py            torch is the version of constraints.txt, other packages as pip finds them
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = """
import pathlib, sys
import numpy as np
import sodgp
from sodgp import DeepGPRegressor

assert pathlib.Path(sys.prefix) in pathlib.Path(sodgp.__file__).parents, sodgp.__file__
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (60, 2)); y = np.sign(X[:, 0])
model = DeepGPRegressor(max_iter=50, random_state=0).fit(X, y)
mean, std = model.predict(X, return_std=True)
model.save("m.sodgp")
assert (DeepGPRegressor.load("m.sodgp").predict(X) == mean).all() and (std > 0).all()
np.savetxt("table.csv", np.column_stack([X, y]), delimiter=",", header="a,b,y", comments="")
print("library works:", sodgp.__version__)
"""
COMMANDS = (
    ("fit", "table.csv", "--target", "y", "--out", "model", "--max-iter", "20"),
    ("predict", "model", "table.csv", "--out", "predictions.csv", "--quantiles", "0.05,0.95"),
    ("info", "model"),
)


def main() -> None:
    """Build, install, use; SystemExit or CalledProcessError where something fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
        (wheel,) = folder.glob("sodgp-*.whl")
        check_content(wheel)
        venv.create(folder / "env", with_pip=True)
        binaries = folder / "env" / "bin"
        pip = (binaries / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        torch = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
        run(*pip, torch, cwd=folder)
        run(*pip, f"{wheel}[frames]", cwd=folder)
        work = folder / "work"
        work.mkdir()
        run(binaries / "python", "-c", PROGRAM, cwd=work)
        for arguments in COMMANDS:
            run(binaries / "sodgp", *arguments, cwd=work)
        rows = (work / "predictions.csv").read_text().count("\n")
        if rows != 61:
            raise SystemExit(f"predictions.csv has {rows} lines, not 61")
        print(f"{wheel.name} works alone")


def check_content(wheel: Path) -> None:
    """Only the package and its metadata, with `py.typed`, the CUDA sources and the templates of reports."""
    names = zipfile.ZipFile(wheel).namelist()
    strange = [name for name in names if not name.startswith(("sodgp/", "sodgp-"))]
    files = ("py.typed", "linalg/cuda/factor.cu", "linalg/cuda/adam.cu")
    templates = ("report/templates/page.html", "report/templates/style.css")
    missing = {f"sodgp/{name}" for name in (*files, *templates)} - set(names)
    if strange or missing:
        raise SystemExit(f"the wheel holds {strange or 'no ' + ', '.join(missing)}")


def run(*command: object, cwd: Path) -> None:
    """Run a program without the caller's Python path."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    subprocess.run([str(part) for part in command], cwd=cwd, env=environment, check=True)


if __name__ == "__main__":
    main()
