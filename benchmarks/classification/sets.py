"""The sets: tables of classes and of counts that are split, and some that are drawn and whose best score is known."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn import datasets

from benchmarks.accuracy.cells import STAGES, parts
from benchmarks.paper.splits import Split
from sodgp.errors import InputError
from sodgp.system.validation import FloatArray

__all__ = ["SETS", "Set", "split_of"]

Table = tuple[FloatArray, FloatArray]
Drawn = Callable[[int, int], Table]
# Probabilities of classes [N, K] or rates [N, 1] that produced the labels.
Truth = Callable[[FloatArray], FloatArray]

# Training rows that are used of magic, and rows to score of the sets that are drawn.
_MAGIC_ROWS, _SCORED_ROWS = 3000, 2000
_NORM_INPUTS = 20
_NORM_MEAN = 2.0 / _NORM_INPUTS**0.5
_COUNT_ROWS, _COUNT_INPUTS, _COUNT_DISPERSION = 1000, 5, 0.3


@dataclass(frozen=True)
class Set:
    """A table that is split, or one that is drawn.

    Parameters
    ----------
    label : str
        As it stands in tables.
    task : {"classes", "counts"}
    table : function () -> (X, y), or None
        Split as in `benchmarks.accuracy`; classes are numbered from 0.
    drawn : function (rows, seed) -> (X, y), or None
        Training and scored rows are drawn with different seeds.
    truth : function (X) -> probabilities or rates, or None
        What the labels of a set that is drawn were drawn from.
    most_rows : int or None
        Training rows: a random choice of so many, the same for everyone.
    rows : int
        Training rows of a set that is drawn.
    """

    label: str
    task: str = "classes"
    table: Callable[[], Table] | None = None
    drawn: Drawn | None = None
    truth: Truth | None = None
    most_rows: int | None = None
    rows: int = 0


def _file(path: str) -> Callable[[], Table]:
    """A gzipped CSV of the folder ``SODGP_DATA``: numbers, the target last; text becomes numbers in ascending order."""

    def table() -> Table:
        file = Path(os.environ.get("SODGP_DATA", "")) / path
        try:
            with gzip.open(file, "rt", newline="") as lines:
                rows = list(csv.reader(lines))[1:]
        except OSError as error:
            raise InputError(f"{path} is not in the folder that SODGP_DATA names: {error}") from error
        columns = [_numbers(column) for column in zip(*rows, strict=True)]
        return np.column_stack(columns[:-1]), columns[-1]

    return table


def _numbers(column: tuple[str, ...]) -> FloatArray:
    try:
        return np.array(column, dtype=np.float64)
    except ValueError:
        return np.unique(column, return_inverse=True)[1].astype(np.float64)


def _abalone() -> Table:
    """Sex as three columns of zeros and ones."""
    X, y = _file("tables/abalone.csv.gz")()
    return np.column_stack([np.eye(3)[X[:, 0].astype(int)], X[:, 1:]]), y


def _bundled(name: str) -> Callable[[], Table]:
    def table() -> Table:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return X.astype(np.float64), y.astype(np.float64)

    return table


def _twonorm(rows: int, seed: int) -> Table:
    """Two Gaussians with unit covariance."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    return rng.normal(size=(rows, _NORM_INPUTS)) + np.where(y, _NORM_MEAN, -_NORM_MEAN)[:, None], y.astype(np.float64)


def _twonorm_truth(X: FloatArray) -> FloatArray:
    return _two_columns(2.0 * _NORM_MEAN * X.sum(1))


def _ringnorm(rows: int, seed: int) -> Table:
    """A wide Gaussian around zero, and one of unit covariance inside it."""
    rng = np.random.default_rng(seed)
    y, z = rng.integers(0, 2, rows), rng.normal(size=(rows, _NORM_INPUTS))
    return np.where(y[:, None], z + _NORM_MEAN, 2.0 * z), y.astype(np.float64)


def _ringnorm_truth(X: FloatArray) -> FloatArray:
    inner, outer = -0.5 * ((X - _NORM_MEAN) ** 2).sum(1), -0.125 * (X**2).sum(1)
    return _two_columns(inner - outer + _NORM_INPUTS * np.log(2.0))


def _two_columns(log_odds: FloatArray) -> FloatArray:
    return np.column_stack([1.0 / (1.0 + np.exp(log_odds)), 1.0 / (1.0 + np.exp(-log_odds))])


def _rate(X: FloatArray) -> FloatArray:
    """Not linear in its first three inputs; the last two are without effect."""
    return np.exp(0.8 + np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2])[:, None]


def _poisson(rows: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, _COUNT_INPUTS))
    return X, rng.poisson(_rate(X)[:, 0]).astype(np.float64)


def _overdispersed(rows: int, seed: int) -> Table:
    """Rates that vary around their means as a gamma distribution: counts are negative binomial."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, _COUNT_INPUTS))
    shape = 1.0 / _COUNT_DISPERSION
    return X, rng.poisson(_rate(X)[:, 0] * rng.gamma(shape, 1.0 / shape, rows)).astype(np.float64)


SETS: dict[str, Set] = {
    **{
        name: Set(name, table=_file(f"classification/{name}.csv.gz"))
        for name in ("banana", "pima", "ionosphere", "phoneme", "waveform")
    },
    "magic": Set(f"magic ({_MAGIC_ROWS:,} rows)", table=_file("classification/magic.csv.gz"), most_rows=_MAGIC_ROWS),
    **{name: Set(name, table=_bundled(name)) for name in ("breast_cancer", "wine", "digits")},
    **{
        f"{name}{rows}": Set(f"{name} ({rows:,} rows)", drawn=drawn, truth=truth, rows=rows)
        for name, drawn, truth in (
            ("twonorm", _twonorm, _twonorm_truth),
            ("ringnorm", _ringnorm, _ringnorm_truth),
        )
        for rows in (1000, 7000)
    },
    "abalone": Set("abalone, rings", task="counts", table=_abalone),
    "poisson": Set(f"Poisson ({_COUNT_ROWS:,} rows)", task="counts", drawn=_poisson, truth=_rate, rows=_COUNT_ROWS),
    "overdispersed": Set(
        f"negative binomial ({_COUNT_ROWS:,} rows)", task="counts", drawn=_overdispersed, truth=_rate, rows=_COUNT_ROWS
    ),
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
