"""Coverage curves and PIT histograms."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from plot_data import forecasts, labels

from sodgp import plots
from sodgp.plots.calibration import chance_band


@pytest.mark.parametrize(("std", "wrong"), [(1.0, False), (0.5, True), (2.0, True)])
def test_coverage_flags_what_chance_does_not_explain(ax, std, wrong):
    plots.plot_coverage(forecasts(std), ax=ax)
    assert ("beyond chance" in labels(ax)) == wrong
    curve = next(line for line in ax.lines if line.get_label() == "y")
    middle = curve.get_ydata()[49]
    assert middle < 45 if std < 1 else middle > 55 if std > 1 else 45 < middle < 55


def test_the_band_of_chance_holds_whole_curves():
    levels = np.linspace(0.01, 0.99, 99)
    low, high = chance_band(levels, 200)
    uniform = np.random.default_rng(1).uniform(size=(2000, 200))
    curves = (uniform[:, :, None] <= levels).mean(1)
    inside = ((curves >= low) & (curves <= high)).all(1).mean()
    assert 0.92 < inside < 0.98


def test_pit_is_a_density(ax):
    plots.plot_pit(forecasts(1.0), bins=8, ax=ax)
    heights = np.array([bar.get_height() for bar in ax.patches])
    assert heights.mean() == pytest.approx(1.0)
    assert heights.min() > 0.8
    plots.plot_pit(forecasts(1.0, n=40), ax=(few := Figure().subplots()))
    assert len(few.patches) == 5
