"""Data sets that nobody wishes for, each a function (random generator, N, D) -> (X, y)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

Rng = np.random.Generator
Make = Callable[[Rng, int, int], tuple[Any, Any]]


@dataclass(frozen=True)
class Case:
    """One data set: its kind, and how to make it."""

    kind: str
    n_rows: int
    n_columns: int
    make: Make

    @property
    def name(self) -> str:
        """Kind and shape."""
        return f"{self.kind} {self.n_rows}x{self.n_columns}"

    def data(self, seed: int = 0) -> tuple[Any, Any]:
        """The same X and y every time."""
        words = [seed, *self.name.encode()]
        return self.make(np.random.default_rng(words), self.n_rows, self.n_columns)


def plain(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Nothing wrong: what the others spoil."""
    X = rng.normal(size=(N, D))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, -1] + 0.1 * rng.normal(size=N)


def scaled(x: float, y: float, rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Other units."""
    X, target = plain(rng, N, D)
    return X * x, target * y


def shifted(x: float, y: float, rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Little spread far from zero."""
    X, target = plain(rng, N, D)
    return X + x, target + y


def mixed_scales(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Columns from 1e-12 to 1e12 side by side."""
    X, y = plain(rng, N, D)
    return X * np.logspace(-12, 12, D), y


def duplicates(distance: float, rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """A handful of rows again and again, a hair apart, with targets that differ."""
    base, _ = plain(rng, max(2, N // 10), D)
    X = np.resize(base, (N, D)) + distance * rng.normal(size=(N, D))
    return X, rng.normal(size=N)


def equal_rows(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """One row N times."""
    return np.ones((N, D)) * rng.normal(size=D), rng.normal(size=N)


def collinear(distance: float, rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """All columns multiples of one, up to a hair."""
    t = rng.normal(size=(N, 1))
    return t * np.linspace(-2.0, 3.0, D) + distance * rng.normal(size=(N, D)), t[:, 0] ** 2


def one_hot(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """A block of indicators that sums to one."""
    level = rng.integers(D, size=N)
    return np.eye(D)[level], level + 0.1 * rng.normal(size=N)


def constant_columns(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Every second column says nothing."""
    X, y = plain(rng, N, D)
    X[:, ::2] = 7.0
    return X, y


def sparse(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Almost all entries zero."""
    X, y = plain(rng, N, D)
    return np.where(rng.random((N, D)) < 0.02, X, 0.0), y


def heavy(tails: str, rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Tails without a variance, or nearly so."""
    draw = {
        "cauchy": lambda size: rng.standard_cauchy(size),
        "log-normal": lambda size: rng.lognormal(0.0, 6.0, size),
        "pareto": lambda size: rng.pareto(0.5, size),
    }[tails]
    return draw((N, D)), draw(N)


def outlier(size: float, rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """One row far away from all others, in X and in y."""
    X, y = plain(rng, N, D)
    X[0], y[-1] = size, -size
    return X, y


def constant_y(value: float, rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Nothing to learn."""
    return plain(rng, N, D)[0], np.full(N, value)


def nearly_constant_y(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Targets that differ in their last bits."""
    return plain(rng, N, D)[0], 1.0 + np.spacing(1.0) * rng.integers(3, size=N)


def steps(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """A jump of 1e9 that a kernel cannot follow."""
    X, _ = plain(rng, N, D)
    return X, 1e9 * np.sign(X[:, 0])


def clusters(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Two heaps of rows 1e12 apart, each with a life of its own."""
    X, y = plain(rng, N, D)
    return X + 1e12 * (np.arange(N) % 2)[:, None], y


def time_stamps(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Nanoseconds since 1970, a minute apart, as whole numbers."""
    start = 1_600_000_000_000_000_000 + 60_000_000_000 * np.arange(N)
    return np.stack([start + 7 * j for j in range(D)], axis=1), np.sin(np.arange(N) / 5.0)


def ties(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Few levels in every column, and in y."""
    return rng.integers(3, size=(N, D)), rng.integers(2, size=N)


def as_type(kind: str, rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Other types than float64."""
    X, y = plain(rng, N, D)
    if kind == "object":
        return X.astype(object), y.astype(object)
    if kind == "bool":
        return X > 0, y > 0
    if kind in ("float32", "float16"):
        return X.astype(kind), y.astype(kind)
    if kind == "int64 extremes":
        return rng.integers(-(2**62), 2**62, size=(N, D)), rng.integers(-(2**62), 2**62, size=N)
    return (10 * X).astype(kind), (10 * y).astype(kind)


def frame(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """A data frame of integer, boolean, single precision and object columns."""
    import pandas as pd

    X, y = plain(rng, N, D)
    casts = [
        lambda c: c.round().astype("int64"),
        lambda c: c > 0,
        lambda c: c.astype("float32"),
        lambda c: c.astype(object),
    ]
    columns = {f"column {j}": casts[j % 4](pd.Series(X[:, j])) for j in range(D)}
    return pd.DataFrame(columns), pd.Series(y, name="target")


def several_outputs(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Three targets of very different size, one of them constant."""
    X, y = plain(rng, N, D)
    return X, np.stack([1e9 * y, 1e-9 * X[:, 0], np.full(N, 3.0)], axis=1)


def subnormal(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Numbers below the smallest normal one."""
    X, y = plain(rng, N, D)
    return X * 1e-310, y * 1e-310


def huge(size: float, rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Numbers near the end of the range."""
    X, y = plain(rng, N, D)
    return X * size, y * size


def spoiled(what: Any, where: str, rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """One cell is not a number."""
    X, y = plain(rng, N, D)
    if isinstance(what, float):
        (X if where == "X" else y.reshape(-1, 1))[N // 2, 0] = what
        return X, y
    X, y = X.astype(object), y.astype(object)
    (X if where == "X" else y.reshape(-1, 1))[N // 2, 0] = what
    return X, y


def as_dates(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Dates are not numbers."""
    return np.full((N, D), np.datetime64("2020-01-01")), rng.normal(size=N)


def as_complex(rng: Rng, N: int, D: int) -> tuple[Any, Any]:
    """Nor are complex numbers."""
    X, y = plain(rng, N, D)
    return X + 1j, y


SHAPES = ((2, 1), (3, 2), (5, 20), (10, 1), (40, 5), (200, 3), (200, 40), (1000, 2))
FEW = ((2, 1), (10, 3), (200, 5))
LARGE = ((5000, 1), (5000, 8), (500, 200), (3, 200))
KINDS: dict[str, tuple[Make, tuple[tuple[int, int], ...]]] = {
    "plain": (plain, (*SHAPES, *LARGE)),
    **{f"X times {s:g}": (partial(scaled, s, 1.0), SHAPES[2:7]) for s in (1e-12, 1e-6, 1e6, 1e12)},
    **{f"y times {s:g}": (partial(scaled, 1.0, s), SHAPES[2:7]) for s in (1e-12, 1e-6, 1e6, 1e12)},
    "X times 1e-12, y times 1e12": (partial(scaled, 1e-12, 1e12), SHAPES),
    "X plus 1e8": (partial(shifted, 1e8, 0.0), FEW),
    "X plus 1e15": (partial(shifted, 1e15, 0.0), FEW),
    "y plus 1e8": (partial(shifted, 0.0, 1e8), FEW),
    "y plus 1e15": (partial(shifted, 0.0, 1e15), FEW),
    "mixed scales": (mixed_scales, (*SHAPES[1:], *LARGE[1:])),
    **{f"duplicates {d:g} apart": (partial(duplicates, d), (*SHAPES, LARGE[0])) for d in (0.0, 1e-15, 1e-9, 1e-4)},
    "equal rows": (equal_rows, SHAPES),
    **{f"collinear up to {d:g}": (partial(collinear, d), (*SHAPES[1:], LARGE[1])) for d in (0.0, 1e-10)},
    "one-hot": (one_hot, (*SHAPES[1:], *LARGE[1:3])),
    "constant columns": (constant_columns, SHAPES),
    "sparse": (sparse, SHAPES[2:]),
    **{f"{tails} tails": (partial(heavy, tails), (*SHAPES, LARGE[1])) for tails in ("cauchy", "log-normal", "pareto")},
    **{f"outlier at {s:g}": (partial(outlier, s), SHAPES[3:7]) for s in (1e3, 1e9, 1e15)},
    **{f"constant y {v:g}": (partial(constant_y, v), SHAPES[:6]) for v in (0.0, 5.0, -1e12, 1e-12)},
    "nearly constant y": (nearly_constant_y, SHAPES),
    "jump": (steps, SHAPES),
    "clusters 1e12 apart": (clusters, SHAPES),
    "time stamps": (time_stamps, SHAPES),
    "ties": (ties, (*SHAPES, LARGE[2])),
    **{
        f"type {kind}": (partial(as_type, kind), FEW)
        for kind in ("int64", "int8", "bool", "float32", "float16", "object", "int64 extremes")
    },
    "data frame": (frame, (*FEW, LARGE[0])),
    "several outputs": (several_outputs, (*FEW, LARGE[0])),
    "subnormal": (subnormal, SHAPES[:6]),
    **{f"times {s:g}": (partial(huge, s), FEW) for s in (1e100, 1e150, 1e160, 1e300)},
    **{
        f"{what!r} in {where}": (partial(spoiled, what, where), FEW[1:])
        for what in (np.nan, np.inf, -np.inf, None, "text", "1.5")
        for where in ("X", "y")
    },
    "dates": (as_dates, FEW[1:]),
    "complex": (as_complex, FEW[1:]),
    "one row": (plain, ((1, 1), (1, 5))),
}


def cases() -> Iterator[Case]:
    """Every data set of the grid."""
    for kind, (make, shapes) in KINDS.items():
        for N, D in shapes:
            yield Case(kind, N, D, make)
