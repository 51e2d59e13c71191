"""The sets, their training rows, and the rows that are scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1

from benchmarks.accuracy.cells import STAGES, parts
from benchmarks.paper.splits import Split
from sodgp.data import load, step
from sodgp.system.validation import FloatArray

__all__ = ["SETS", "split_of"]

Table = tuple[FloatArray, FloatArray]

# Rows of the training parts that are used of naval and protein.
_SUBSAMPLE = 1500
_FRIEDMAN_ROWS, _STEP_ROWS, _SCORED_ROWS = 1000, 40, 1000


@dataclass(frozen=True)
class Set:
    """A table that is split, or one that is drawn.

    Parameters
    ----------
    label : str
        As it stands in tables and pictures.
    table : function () -> (X, y), or None
        Split as in `benchmarks.accuracy`.
    drawn : function (rows, seed) -> (X, y), or None
        Training and scored rows are drawn with different seeds.
    most_rows : int or None
        Training rows: a random choice of so many, the same for everyone.
    rows : int
        Training rows of a set that is drawn.
    """

    label: str
    table: Callable[[], Table] | None = None
    drawn: Callable[[int, int], Table] | None = None
    most_rows: int | None = None
    rows: int = 0


def _loaded(name: str) -> Callable[[], Table]:
    def table() -> Table:
        data = load(name)
        return data.X, data.y

    return table


def _diabetes() -> Table:
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return X, y


def _friedman(rows: int, seed: int) -> Table:
    X, y = make_friedman1(rows, n_features=10, noise=1.0, random_state=seed)
    return X, y


def _step(rows: int, seed: int) -> Table:
    data = step(rows, random_state=seed)
    return data.X, data.y


SETS: dict[str, Set] = {
    **{name: Set(name, _loaded(name)) for name in ("boston", "energy", "concrete", "winered")},
    **{
        name: Set(f"{name} ({_SUBSAMPLE:,} rows)", _loaded(name), most_rows=_SUBSAMPLE) for name in ("naval", "protein")
    },
    "diabetes": Set("diabetes", _diabetes),
    "friedman1": Set(f"Friedman 1 ({_FRIEDMAN_ROWS:,} rows)", drawn=_friedman, rows=_FRIEDMAN_ROWS),
    "step": Set(f"step ({_STEP_ROWS} rows)", drawn=_step, rows=_STEP_ROWS),
}


def split_of(name: str, split: int, stage: str) -> Split:
    """The rows to train on, and in the place of test rows those that this stage scores."""
    described = SETS[name]
    if described.drawn is not None:
        # Three seeds a split: of training, validation and test rows.
        X, y = described.drawn(described.rows, 3 * split)
        return Split(X, y, *described.drawn(_SCORED_ROWS, 3 * split + 1 + STAGES.index(stage)))
    assert described.table is not None
    X, y = described.table()
    train, scored = parts(stage, len(y), split)
    if described.most_rows is not None and len(train) > described.most_rows:
        train = np.random.default_rng(split).permutation(train)[: described.most_rows]
    return Split(X[train], y[train], X[scored], y[scored])
