"""Counts: how often each was seen, and how often the model expected it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sodgp.errors import InputError
from sodgp.evaluation.counts import Frequencies, frequencies_of, steps_of
from sodgp.plots.style import ALARM, GREY, MEAN, SKY, axes_or_current, tidy
from sodgp.predictive.counts import CountMixture

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_rootogram(dist: CountMixture, y: Any, target: int = 0, *, ax: Axes | None = None) -> Axes:
    """Hanging rootogram: bars of the square roots of observed frequencies, hung from those that the model expects.

    A bar that ends above zero is a count that was seen less often than expected, one that ends below was seen more
    often. Beyond the dotted lines, at -1 and 1, the difference is more than chance usually makes. With a wide range
    several counts share a bar.

    Parameters
    ----------
    dist : sodgp.predictive.counts.CountMixture
        As `DeepGPRegressor.predict_distribution` gives it.
    y : array of shape [N] or [N, P]
        The observed counts.
    target : int, column of the targets
    ax : Axes, default=the current one

    Examples
    --------
    >>> dist = CountMixture([0.0], np.full((1, 200, 1), 3.0))
    >>> plot_rootogram(dist, np.random.default_rng(0).poisson(3.0, size=200)).get_ylabel()
    'square root of the number of rows'
    """
    if not isinstance(dist, CountMixture):
        raise InputError(f"a rootogram is of a distribution of counts, not {dist!r}; see likelihood='poisson'.")
    observed = dist.align(y).reshape(len(dist), -1)[:, target]
    expected_most = float(np.max(dist.quantile(0.999).reshape(len(dist), -1)[:, target]))
    most = max(observed.max(), min(expected_most, 2 * observed.max() + 10))
    return plot_frequencies(frequencies_of(dist, y, steps_of(most)), target, ax=ax)


def plot_frequencies(found: Frequencies, target: int = 0, *, ax: Axes | None = None) -> Axes:
    """The rootogram of numbers of rows that were counted already, such as those of many folds.

    Parameters
    ----------
    found : sodgp.evaluation.counts.Frequencies
    target : int, column of the targets
    ax : Axes, default=the current one

    Examples
    --------
    >>> found = frequencies_of(CountMixture([0.0], np.full((1, 2, 1), 3.0)), [3.0, 4.0], np.arange(6.0))
    >>> plot_frequencies(found).get_xlabel()
    'count'
    """
    ax = axes_or_current(ax)
    width = found.edges[1] - found.edges[0]
    expected, seen = np.sqrt(found.expected[:, target].clip(0.0)), np.sqrt(found.seen[:, target])
    middle = found.edges[:-1] + 0.5 * (width - 1)
    ax.bar(middle, seen, 0.8 * width, bottom=expected - seen, color=SKY, edgecolor="white", zorder=2, label="observed")
    ax.plot(middle, expected, "o-", color=MEAN, markersize=4, linewidth=1.5, zorder=3, label="expected")
    ax.axhline(0, color=GREY, linewidth=1.0, zorder=4)
    for end, label in ((-1, "usual range of chance"), (1, None)):
        ax.axhline(end, color=ALARM, linewidth=1.0, linestyle=":", zorder=4, label=label)
    label = "count" if width == 1 else f"count, in steps of {width:,.0f}"
    ax.set(xlabel=label, ylabel="square root of the number of rows")
    return tidy(ax, grid="y")
