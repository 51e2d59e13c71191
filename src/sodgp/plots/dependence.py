"""Partial dependence: what a model predicts on average where one column has a given value and the others stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import InputError
from sodgp.estimator.columns import EncodedRows, rows_of
from sodgp.estimator.describe import feature_names, input_groups, input_names, target_names
from sodgp.plots.style import BAND_F, CYCLE, GREY, MEAN, axes_or_current, plain, tidy
from sodgp.system.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sodgp.estimator.base import DeepGPEstimator

__all__ = ["Dependence", "partial_dependence", "plot_dependence"]

_LEVEL = 0.95
_POINTS, _MOST_LEVELS, _MOST_CURVES, _ROWS = 20, 10, 4, 40
# Kinds of columns whose values are drawn as bars.
_LEVELS = ("category", "boolean")


@dataclass(frozen=True)
class Dependence:
    """Average predictions over the values of one column.

    Attributes
    ----------
    name : str
        Of the column.
    values : ndarray of shape [G]
        Numbers along an axis; places of `levels` where there are some.
    levels : tuple of str
        Of a category.
    mean, low, high : ndarray of shape [G, K]
        Average of the function over the rows, and of the ends of its 95 % interval: noise is not in it. For classes
        these are probabilities, of K classes.
    curves : tuple of str, length K
    """

    name: str
    values: FloatArray
    levels: tuple[str, ...]
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    curves: tuple[str, ...]


def partial_dependence(
    model: DeepGPEstimator, X: Any, column: int | str = 0, *, target: int = 0, random_state: int = 0
) -> Dependence:
    """Predictions averaged over up to 40 of the rows, for values of one column that these rows have.

    Parameters
    ----------
    model : DeepGPRegressor or DeepGPClassifier
    X : array or data frame of shape [N, D]
    column : int or str
        Of the columns that are inputs.
    target : int, column of the targets
    random_state : int, of the choice of rows

    Raises
    ------
    InputError
        There is no such column.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, X[:, 0])
    >>> partial_dependence(model, X, 0).mean.shape
    (20, 1)
    """
    names, rows = input_names(model), rows_of(model, X)
    place = names.index(column) if column in names else column
    if not isinstance(place, int | np.integer) or not 0 <= place < len(names):
        raise InputError(f"column {column!r} is no input of the model; it has {', '.join(names[:20])}.")
    numbers = np.flatnonzero(input_groups(model) == place)
    values, levels, vectors = _settings(model, int(place), numbers, rows)
    chosen = np.random.default_rng(random_state).permutation(len(rows))[:_ROWS]
    all_rows = np.tile(rows[chosen], (len(values), 1))
    all_rows[:, numbers] = np.repeat(vectors, len(chosen), axis=0)
    ends, curves = _of_function(model, EncodedRows(all_rows), target)
    mean, low, high = (each.reshape(len(values), len(chosen), -1).mean(1) for each in ends)
    return Dependence(names[place], values, levels, mean, low, high, curves)


def _settings(
    model: DeepGPEstimator, place: int, numbers: NDArray[np.int64], rows: FloatArray
) -> tuple[FloatArray, tuple[str, ...], FloatArray]:
    """Values of a column, names of levels, and the numbers that the column becomes, [G, width]."""
    encoder = model.fitted_.columns.encoder
    kind = "number" if encoder is None else encoder.used_[place].kind
    own = rows[:, numbers]
    if kind in _LEVELS:
        found, counts = np.unique(own, axis=0, return_counts=True)
        vectors = found[np.argsort(-counts, kind="stable")[:_MOST_LEVELS]]
        features = [feature_names(model)[i] for i in numbers]
        return np.arange(len(vectors), dtype=np.float64), _level_names(features, vectors, kind), vectors
    low, high = np.quantile(own[:, 0], [0.02, 0.98])
    distinct = np.unique(own[:, 0])
    if kind == "date":
        order = np.argsort(own[:, 0], kind="stable")
        vectors = own[order[np.linspace(0, len(order) - 1, min(_POINTS, len(order))).astype(int)]]
        return vectors[:, 0], (), vectors
    grid = distinct if len(distinct) <= _POINTS else np.linspace(low, high, _POINTS)
    vectors = np.zeros((len(grid), len(numbers)))
    vectors[:, 0] = grid
    return grid, (), vectors


def _level_names(features: list[str], vectors: FloatArray, kind: str) -> tuple[str, ...]:
    if kind == "boolean":
        return tuple({0.0: "no", 1.0: "yes"}.get(float(vector[0]), "unknown") for vector in vectors)
    return tuple(
        features[int(vector.argmax())].partition("=")[2] or features[int(vector.argmax())]
        if vector.max() > 0
        else "others"
        for vector in vectors
    )


def _of_function(
    model: Any, rows: EncodedRows, target: int
) -> tuple[tuple[FloatArray, FloatArray, FloatArray], tuple[str, ...]]:
    """Mean and ends of the function at rows, each [N, K], and the names of the K curves."""
    columns = model.fitted_.columns
    if columns.classes is not None:
        dist = model.predict_distribution(rows)
        often = np.argsort(-columns.class_rows, kind="stable")[:_MOST_CURVES]
        which = np.array([1]) if len(columns.classes) == 2 else np.sort(often)
        low, high = dist.interval(_LEVEL)
        names = tuple(f"P({columns.classes.tolist()[k]})" for k in which)
        return (dist.mean[:, which], low[:, which], high[:, which]), names
    latent = model.predict_distribution(rows, latent=True)
    parts = [latent.mean, *latent.interval(_LEVEL)]
    mean, low, high = (part.reshape(len(rows), -1)[:, [target]] for part in parts)
    if model.likelihood_.targets == "counts":
        # The function is the log of the rate.
        mean = model.predict(rows).reshape(len(rows), -1)[:, [target]]
        low, high = np.exp(low), np.exp(high)
    return (mean, low, high), (target_names(model)[target],)


def plot_dependence(
    model: DeepGPEstimator, X: Any, column: int | str = 0, *, target: int = 0, ax: Axes | None = None
) -> Axes:
    """Average predictions over the values of one column, with a band for the function; categories as bars.

    Parameters
    ----------
    model : DeepGPRegressor or DeepGPClassifier
    X : array or data frame of shape [N, D]
        Rows whose other columns are kept.
    column : int or str
        Of the columns that are inputs.
    target : int, column of the targets
    ax : Axes, default=the current one

    Raises
    ------
    InputError
        There is no such column.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sodgp import DeepGPRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(30, 2))
    >>> model = DeepGPRegressor(n_layers=1, max_iter=20, random_state=0).fit(X, np.sign(X[:, 0]))
    >>> ax = plot_dependence(model, X, "x0", ax=Figure().subplots())
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('x0', 'y, average')
    """
    ax = axes_or_current(ax)
    found = partial_dependence(model, X, column, target=target)
    single = len(found.curves) == 1
    label = f"{plain(found.curves[0])}, average" if single else "probability, average"
    if found.levels:
        _bars(ax, found)
        ax.set_xlabel(label)
        return tidy(ax, grid="x")
    for k, curve in enumerate(found.curves):
        colour, band = (MEAN, BAND_F) if single else (CYCLE[k], CYCLE[k])
        name = "95 % of f" if single else None
        ax.fill_between(found.values, found.low[:, k], found.high[:, k], color=band, alpha=0.3, linewidth=0, label=name)
        ax.plot(found.values, found.mean[:, k], color=colour, linewidth=2, label="mean" if single else plain(curve, 18))
    ax.set(xlabel=plain(found.name), ylabel=label)
    return tidy(ax)


def _bars(ax: Axes, found: Dependence) -> None:
    """A bar for each level, or with many curves a dot for each of them."""
    count = len(found.curves)
    for k, curve in enumerate(found.curves):
        places = found.values + (0.0 if count == 1 else 0.16 * (k - 0.5 * (count - 1)))
        mean = found.mean[:, k]
        around = np.stack([mean - found.low[:, k], found.high[:, k] - mean]).clip(0.0)
        if count == 1:
            ax.barh(places, mean, color=BAND_F, height=0.62, label="mean", zorder=2)
            ax.errorbar(mean, places, xerr=around, fmt="none", ecolor=GREY, elinewidth=1.4, label="95 % of f", zorder=3)
        else:
            ax.errorbar(
                mean, places, xerr=around, fmt="o", color=CYCLE[k], markersize=4, label=plain(curve, 18), zorder=3
            )
    ax.set_yticks(found.values, [plain(level, 16) for level in found.levels])
    ax.set_ylim(len(found.levels) - 0.4, -0.6)
    ax.set_title(plain(found.name))
