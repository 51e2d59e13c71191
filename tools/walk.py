"""Files of the package that a step, a fit and a prediction visit, and how often the code goes from one to another.

    python tools/walk.py            # a step, a fit and a prediction with the defaults, 600 rows
    python tools/walk.py --files    # with the names of the files

Counted with `sys.setprofile`: a visit is a file of which a function ran, a switch is a call in another file than
the call before it. A fit takes two steps.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

import sodgp

ROOT = Path(sodgp.__file__).parent


class Walk:
    """Counts visits and switches while it is entered."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.switches = 0
        self._last = ""

    def __enter__(self) -> Walk:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(str(ROOT)):
            return
        # A module or class body that is run by an import is no part of the work.
        if frame.f_code.co_name == "<module>" or "__qualname__" in frame.f_code.co_names:
            return
        name = Path(frame.f_code.co_filename).relative_to(ROOT).as_posix()
        self.files[name] = self.files.get(name, 0) + 1
        self.switches += name != self._last
        self._last = name


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A step in the first of four columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 4))
    return X, np.sign(X[:, 0]) + 0.1 * rng.normal(size=rows)


def walked(work: Callable[[], object]) -> Walk:
    """One run of `work`, after another that imports what it needs and fills the caches of the interpreter."""
    work()
    with Walk() as walk:
        work()
    return walk


def step_of(X: np.ndarray, y: np.ndarray) -> Walk:
    """One training step in the middle of a fit: not one that is logged."""
    from sodgp import DeepGPRegressor
    from sodgp.training.steps import EagerStep

    walk, count, plain = Walk(), 0, EagerStep.__call__

    def watched(step: EagerStep) -> object:
        nonlocal count
        count += 1
        if count != 5:
            return plain(step)
        with walk:
            return plain(step)

    EagerStep.__call__ = watched  # type: ignore[method-assign, assignment]
    try:
        DeepGPRegressor(max_iter=6, random_state=0).fit(X, y)
    finally:
        EagerStep.__call__ = plain  # type: ignore[method-assign]
    return walk


def main() -> None:
    """Print the three counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--files", action="store_true", help="name the files, with the calls in each")
    arguments = parser.parse_args()
    from sodgp import DeepGPRegressor

    X, y = data(arguments.rows)
    model = DeepGPRegressor(max_iter=1, random_state=0).fit(X, y)
    walks = {
        "step": step_of(X, y),
        "fit": walked(lambda: DeepGPRegressor(max_iter=2, random_state=0).fit(X, y)),
        "prediction": walked(lambda: model.predict(X[:100], return_std=True)),
    }
    for name, walk in walks.items():
        print(f"{name:<11} {len(walk.files):>3} files {walk.switches:>6} switches")
        if arguments.files:
            for file, calls in sorted(walk.files.items()):
                print(f"            {calls:>6} {file}")


if __name__ == "__main__":
    main()
