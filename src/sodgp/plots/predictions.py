"""Predictions against observations, and residuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sodgp.evaluation.scores import LEVEL, Evaluation
from sodgp.plots.style import ALARM, BAND_Y, GREY, MEAN, POINT, axes_or_current, crosses, dots, plain, tidy, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More bars than this hide each other.
_MOST_INTERVALS = 150
# Of |z| for a standard normal z.
_MEAN_SIZE = (2 / np.pi) ** 0.5


def plot_predictions(evaluation: Evaluation, target: int = 0, *, unit: str = "", ax: Axes | None = None) -> Axes:
    """Predicted means against observations, with 90 % intervals; rows outside their interval are crosses.

    Parameters
    ----------
    evaluation : sodgp.evaluation.scores.Evaluation
    target : int, column of the targets
    unit : str, of the target
    ax : Axes, default=the current one

    Examples
    --------
    >>> from sodgp import DeepGPRegressor, evaluation
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPRegressor(max_iter=5, random_state=0).fit(X, X[:, 0])
    >>> plot_predictions(evaluation.evaluate(model, X, X[:, 0]), unit="kW").get_ylabel()
    'predicted y (kW)'
    """
    ax = axes_or_current(ax)
    parts = (evaluation.y, evaluation.mean, evaluation.low, evaluation.high)
    y, mean, low, high = (values[:, target] for values in parts)
    inside = (y >= low) & (y <= high)
    ends = np.array([min(y.min(), mean.min()), max(y.max(), mean.max())])
    ends += np.array([-0.04, 0.04]) * (np.ptp(ends) or 1.0)
    ax.plot(ends, ends, color="black", linewidth=1.0, linestyle="--", zorder=2.5, label="observed = predicted")
    drawn = _spread(y, _MOST_INTERVALS)
    some = f", {len(drawn):,} of {len(y):,} rows" if len(drawn) < len(y) else ""
    label = f"{100 * LEVEL:.0f} % interval{some}"
    ax.vlines(y[drawn], low[drawn], high[drawn], color=BAND_Y, linewidth=1.4, zorder=2, label=label)
    ax.plot(y[inside], mean[inside], color=POINT, label="inside", zorder=3, **dots(len(y)))
    label = f"outside ({100 * (1 - inside.mean()):.0f} % of rows)"
    ax.plot(y[~inside], mean[~inside], color=ALARM, label=label, zorder=3.5, **crosses(len(y)))
    name = with_unit(evaluation.targets[target], unit)
    ax.set(xlim=ends, xlabel=f"observed {name}", ylabel=f"predicted {name}")
    return tidy(ax)


def plot_residuals(evaluation: Evaluation, target: int = 0, *, unit: str = "", ax: Axes | None = None) -> Axes:
    """Residuals in predictive standard deviations over the predicted mean: a pattern is something left to learn.

    Parameters
    ----------
    evaluation : sodgp.evaluation.scores.Evaluation
    target : int, column of the targets
    unit : str, of the target
    ax : Axes, default=the current one

    Examples
    --------
    >>> from sodgp import DeepGPRegressor, evaluation
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPRegressor(max_iter=5, random_state=0).fit(X, X[:, 0])
    >>> plot_residuals(evaluation.evaluate(model, X, X[:, 0])).get_ylabel()
    'residual / predictive std'
    """
    ax = axes_or_current(ax)
    mean, z = evaluation.mean[:, target], evaluation.z[:, target]
    far = np.abs(z) > 3
    ax.axhspan(-2, 2, color=BAND_Y, alpha=0.5, linewidth=0, zorder=0, label="about 95 % should be here")
    ax.axhline(0, color=GREY, linewidth=1.0, zorder=1)
    ax.plot(mean[~far], z[~far], color=POINT, zorder=3, **dots(len(z)))
    if far.any():
        label = f"beyond 3 ({far.sum():,})"
        ax.plot(mean[far], z[far], color=ALARM, label=label, zorder=3.5, **crosses(len(z)))
    if len(z) >= 50:
        centres, middle = _running(mean, z, np.median)
        ax.plot(centres, middle, color=MEAN, linewidth=2, zorder=4, label="running median")
    span = max(3.5, 1.05 * float(np.abs(z).max()))
    ax.set_ylim(-span, span)
    name = with_unit(evaluation.targets[target], unit)
    ax.set(xlabel=f"predicted {name}", ylabel="residual / predictive std")
    return tidy(ax, grid="x")


def plot_spread(
    evaluation: Evaluation, x: np.ndarray, name: str = "x", target: int = 0, *, ax: Axes | None = None
) -> Axes:
    """Sizes of the residuals, in predictive standard deviations, over an input: level where the noise is right.

    Where the running mean rises or falls, the noise changes with the input and the model does not know it.

    Parameters
    ----------
    evaluation : sodgp.evaluation.scores.Evaluation
    x : array of shape [N], the input
    name : str, of the input
    target : int, column of the targets
    ax : Axes, default=the current one

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sodgp import DeepGPRegressor, evaluation
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> model = DeepGPRegressor(max_iter=5, random_state=0).fit(X, X[:, 0])
    >>> plot_spread(evaluation.evaluate(model, X, X[:, 0]), X[:, 0], ax=Figure().subplots()).get_ylabel()
    'size of the residual / predictive std'
    """
    ax = axes_or_current(ax)
    size = np.abs(evaluation.z[:, target])
    ax.plot(x, size, color=POINT, zorder=3, **dots(len(size)))
    ax.axhline(_MEAN_SIZE, color=GREY, linewidth=1.0, linestyle="--", zorder=2, label="mean of a Gaussian")
    if len(size) >= 50:
        centres, middle = _running(x, size, np.mean)
        ax.plot(centres, middle, color=MEAN, linewidth=2, zorder=4, label="running mean")
    ax.set_ylim(0, max(3.5, 1.05 * float(size.max())))
    ax.set(xlabel=plain(name), ylabel="size of the residual / predictive std")
    return tidy(ax, grid="x")


def _spread(values: np.ndarray, count: int) -> np.ndarray:
    """Indices of at most `count` rows, evenly spaced in rank."""
    order = np.argsort(values)
    return order if len(order) <= count else order[np.linspace(0, len(order) - 1, count).astype(int)]


def _running(x: np.ndarray, y: np.ndarray, average: Callable[[np.ndarray], float]) -> tuple[np.ndarray, np.ndarray]:
    parts = np.array_split(np.argsort(x), max(5, min(15, len(x) // 25)))
    return np.array([np.median(x[part]) for part in parts]), np.array([average(y[part]) for part in parts])
