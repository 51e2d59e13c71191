"""Fits over one input: mean, the bands of f and of y, data, subset and drawn functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from sodgp.errors import InputError
from sodgp.estimator.describe import n_inputs, n_training_rows, target_names
from sodgp.plots.inputs import line_name, subset_inputs, subset_labels, with_names
from sodgp.plots.style import ALARM, BAND_F, BAND_Y, DRAW, MEAN, axes_or_current, tidy, with_unit
from sodgp.system.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sodgp.estimator.regressor import DeepGPRegressor


def plot_fit(
    model: DeepGPRegressor,
    x: ArrayLike,
    *,
    data: tuple[ArrayLike, ArrayLike] | None = None,
    level: float = 0.9,
    n_functions: int = 0,
    units: tuple[str, str] = ("", ""),
    ax: Axes | None = None,
) -> Axes:
    """Mean and central bands of f and of y over one input, with the data and the subset.

    Parameters
    ----------
    model : DeepGPRegressor
        Fitted, with one input and one target.
    x : array of shape [N]
        Where to draw, ascending.
    data : (X, y) or None
        Rows to show. Rings then mark the subset, unless it is all training rows.
    level : float, probability of the bands
    n_functions : int, drawn from the posterior
    units : (str, str), of the input and the target
    ax : Axes, default=the current one

    Raises
    ------
    InputError
        The model has several inputs or targets, or `x` fewer than two points.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sodgp import DeepGPRegressor
    >>> x = np.linspace(-1, 1, 30)
    >>> model = DeepGPRegressor(max_iter=20, random_state=0).fit(x[:, None], np.sign(x))
    >>> plot_fit(model, x, data=(x, np.sign(x)), ax=Figure().subplots()).get_xlabel()
    'x'
    """
    ax = axes_or_current(ax)
    _refuse_others(model, "plot_fit")
    x = line(model, x)
    rows = with_names(model, x[:, None])
    y_dist, f_dist = (model.predict_distribution(rows, latent=latent) for latent in (False, True))
    name = f"{100 * level:g} % band"
    low, high = y_dist.interval(level)
    ax.fill_between(x, low, high, color=BAND_Y, linewidth=0, label=f"{name} of y (with noise)")
    low, high = f_dist.interval(level)
    ax.fill_between(x, low, high, color=BAND_F, alpha=0.55, linewidth=0, label=f"{name} of f (function)")
    ax.plot(x, y_dist.mean, color=MEAN, linewidth=1.6, label="mean", zorder=3)
    if data is not None:
        X, y = (np.asarray(values, dtype=np.float64).reshape(-1) for values in data)
        ax.plot(X, y, "o", color="black", markersize=3, label="data", zorder=5)
        _rings(ax, model)
    if n_functions:
        plot_functions(model, x, n_samples=n_functions, ax=ax)
    ax.set_xlim(x[0], x[-1])
    ax.set(xlabel=with_unit(line_name(model), units[0]), ylabel=with_unit(target_names(model)[0], units[1]))
    return tidy(ax, grid="")


def plot_functions(
    model: DeepGPRegressor, x: ArrayLike, *, n_samples: int = 5, random_state: int = 0, ax: Axes | None = None
) -> Axes:
    """Whole functions f drawn from the posterior, over one input.

    Parameters
    ----------
    model : DeepGPRegressor
    x : array of shape [N], at most 1,000 points
    n_samples : int, number of functions
    random_state : int
    ax : Axes, default=the current one

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sodgp import DeepGPRegressor
    >>> x = np.linspace(-1, 1, 30)
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(x[:, None], np.sign(x))
    >>> len(plot_functions(model, x, n_samples=3, ax=Figure().subplots()).lines)
    3
    """
    ax = axes_or_current(ax)
    _refuse_others(model, "plot_functions")
    x = line(model, x)
    draws = model.sample_y(with_names(model, x[:, None]), n_samples, random_state, latent=True).reshape(len(x), -1)
    lines = ax.plot(x, draws, color=DRAW, linewidth=0.9, alpha=0.9)
    lines[0].set_label("drawn functions f")
    ax.set_xlim(x[0], x[-1])
    return ax


def _refuse_others(model: DeepGPRegressor, name: str) -> None:
    """InputError unless y and f have one axis."""
    targets = model.fitted_.likelihood.targets
    if targets != "numbers":
        raise InputError(
            f"{name} draws y and f on one axis, and this model predicts {targets}, whose f is something else: draw"
            " quantiles of predict_distribution(X)."
        )


def _rings(ax: Axes, model: DeepGPRegressor) -> None:
    """Rings at the rows of the subset."""
    if not model.inference_.uses_subset:
        return
    inputs, labels = subset_inputs(model)[:, 0], subset_labels(model)[:, 0]
    if len(inputs) < n_training_rows(model):
        label = f"subset S ({len(inputs)})"
        ax.plot(inputs, labels, "o", mfc="none", mec=ALARM, mew=1.2, markersize=7, zorder=4, label=label)


def line(model: DeepGPRegressor, x: ArrayLike) -> FloatArray:
    """Points of a line, checked, over the input of a model with one input and one target."""
    if n_inputs(model) != 1 or model.model_.n_outputs != 1:
        raise InputError(
            f"this picture needs one input and one target; the model has {n_inputs(model)} and"
            f" {model.model_.n_outputs}."
        )
    grid = np.asarray(x, dtype=np.float64).reshape(-1)
    if len(grid) < 2:
        raise InputError("x needs at least two points to draw a line.")
    return grid
