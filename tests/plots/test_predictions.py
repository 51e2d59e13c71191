"""Predictions and residuals."""

from __future__ import annotations

import numpy as np
from plot_data import forecasts, labels

from sodgp import plots
from sodgp.evaluation import Evaluation


def test_predictions_tell_rows_inside_and_outside(found, ax):
    assert plots.plot_predictions(found, unit="kW", ax=ax) is ax
    assert ax.get_xlabel() == r"observed load \$ (kW)"
    inside, outside = (next(line for line in ax.lines if line.get_label().startswith(w)) for w in ("inside", "outs"))
    y, low, high = found.y[:, 0], found.low[:, 0], found.high[:, 0]
    assert set(inside.get_xdata()) == set(y[(y >= low) & (y <= high)])
    assert len(inside.get_xdata()) + len(outside.get_xdata()) == 20
    (bars,) = ax.collections
    assert len(bars.get_segments()) == 20


def test_many_rows_show_some_intervals(ax):
    plots.plot_predictions(forecasts(1.0), ax=ax)
    assert len(ax.collections[0].get_segments()) == 150
    assert "90 % interval, 150 of 4,000 rows" in labels(ax)


def test_residuals_mark_what_is_far(ax):
    plots.plot_residuals(forecasts(0.5), ax=ax)
    far = int((np.abs(forecasts(0.5).z) > 3).sum())
    assert f"beyond 3 ({far:,})" in labels(ax)
    assert "running median" in labels(ax)


def test_spread_over_an_input_has_the_sizes_of_the_residuals(ax):
    n = 80
    one, z = np.ones((n, 1)), np.random.default_rng(0).normal(size=(n, 1))
    found = Evaluation(("y",), z, 0 * z, one, -one, one, -one, one, one / 2, 0 * one, one)
    plots.plot_spread(found, np.arange(n), "dose", ax=ax)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.abs(z[:, 0]))
    assert ax.get_xlabel() == "dose"
