"""Calibration: coverage of the predictive intervals, and the histogram of the PIT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom

from sodgp.evaluation.scores import Evaluation
from sodgp.plots.style import ALARM, BAND_Y, GREY, MEAN, SKY, axes_or_current, plain, tidy
from sodgp.system.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIMULATIONS = 1000
_CHANCE = "95 % range of chance"


def plot_coverage(evaluation: Evaluation, target: int = 0, *, ax: Axes | None = None) -> Axes:
    """Share of the observations inside central intervals of every level.

    Below the diagonal the model is overconfident, above it underconfident. The band holds 95 % of the whole curves that
    a perfect model would have by chance.

    Parameters
    ----------
    evaluation : sodgp.evaluation.scores.Evaluation
    target : int, column of the targets
    ax : Axes, default=the current one

    Examples
    --------
    >>> from sodgp import DeepGPRegressor, evaluation
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPRegressor(max_iter=5, random_state=0).fit(X, X[:, 0])
    >>> plot_coverage(evaluation.evaluate(model, X, X[:, 0])).get_xlabel()
    'level of the interval (%)'
    """
    ax = axes_or_current(ax)
    levels, count = np.linspace(0.01, 0.99, 99), len(evaluation)
    found = 100 * evaluation.coverage(levels, target)
    low, high = (100 * end for end in chance_band(levels, count))
    ax.fill_between(100 * levels, low, high, color=BAND_Y, linewidth=0, zorder=0, label=f"{_CHANCE}, {count:,} rows")
    ax.plot([0, 100], [0, 100], color=GREY, linewidth=1.0, linestyle="--", zorder=1, label="perfect")
    ax.plot(100 * levels, found, color=MEAN, linewidth=2, zorder=3, label=plain(evaluation.targets[target], 18))
    wrong = (found < low) | (found > high)
    if wrong.any():
        ax.plot(100 * levels[wrong], found[wrong], "s", markersize=3.5, color=ALARM, zorder=4, label="beyond chance")
    ax.set(xlim=(0, 100), ylim=(0, 100), xlabel="level of the interval (%)", ylabel="observations inside (%)")
    ax.set_aspect("equal")
    return tidy(ax)


def chance_band(levels: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Band that holds 95 % of the whole coverage curves of a perfect model on `count` rows, at ascending `levels`.

    All levels have binomial intervals of the same probability, which is found by simulation: with 95 % at each level a
    third of the curves would leave the band somewhere.
    """
    steps = np.diff(np.concatenate([[0.0], levels, [1.0]]))
    curves = np.random.default_rng(0).multinomial(count, steps, size=_SIMULATIONS)[:, :-1].cumsum(1)
    below, above = binom.cdf(curves, count, levels), binom.sf(curves - 1, count, levels)
    tail = np.quantile(np.minimum(below, above).min(1), 0.05)
    return binom.ppf(tail, count, levels) / count, binom.isf(tail, count, levels) / count


def plot_pit(evaluation: Evaluation, target: int = 0, *, bins: int | None = None, ax: Axes | None = None) -> Axes:
    """Histogram of the predictive cdf at the observations (PIT), flat if the model is right.

    A hump: intervals too wide. A trough: too narrow. A slope: means too high (left) or too low (right).

    Parameters
    ----------
    evaluation : sodgp.evaluation.scores.Evaluation
    target : int, column of the targets
    bins : int or None, 5 to 20 by the number of rows
    ax : Axes, default=the current one

    Examples
    --------
    >>> from sodgp import DeepGPRegressor, evaluation
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPRegressor(max_iter=5, random_state=0).fit(X, X[:, 0])
    >>> plot_pit(evaluation.evaluate(model, X, X[:, 0])).get_xlabel()
    'cdf at the observed y'
    """
    ax = axes_or_current(ax)
    count = len(evaluation)
    bins = int(np.clip(count // 15, 5, 20)) if bins is None else bins
    heights, edges = np.histogram(evaluation.pit[:, target], bins=bins, range=(0, 1))
    low, high = (binom.ppf(tail, count, 1 / bins) * bins / count for tail in (0.025, 0.975))
    shares = heights * bins / count
    ax.bar(edges[:-1], shares, 1 / bins, align="edge", color=SKY, edgecolor="white", linewidth=1.2, zorder=2)
    ax.axhline(1, color=MEAN, linewidth=1.2, linestyle="--", zorder=3, label="perfect")
    for end, label in ((low, f"{_CHANCE}, each bin"), (high, None)):
        ax.axhline(end, color=MEAN, linewidth=1.2, linestyle=":", zorder=3, label=label)
    ax.set(xlim=(0, 1), ylim=(0, 1.35 * max(high, shares.max())))
    ax.set(xlabel=f"cdf at the observed {plain(evaluation.targets[target], 20)}", ylabel="density of rows")
    return tidy(ax, grid="y")
