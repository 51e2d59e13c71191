"""Several models on the same rows."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure
from plot_data import forecasts

from sodgp import plots
from sodgp.errors import InputError


def test_comparison_marks_the_best(ax):
    several = {"right": forecasts(1.0), "timid": forecasts(2.0)}
    plots.plot_comparison(several, "nlpp", unit="kW", ax=ax)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["right", "timid"]
    fills = [line.get_markerfacecolor() for line in ax.lines]
    assert fills[1] == "white" != fills[0]
    plots.plot_comparison(several, "rmse", unit="kW", n_bootstrap=0, ax=(other := Figure().subplots()))
    assert other.get_xlabel() == "RMSE (kW); lower is better"
    plots.plot_comparison({**several, "shy": forecasts(0.2)}, "coverage_90", ax=Figure().subplots())


def test_comparisons_that_mean_nothing(ax):
    with pytest.raises(InputError, match="on different rows"):
        plots.plot_comparison({"a": forecasts(1.0), "b": forecasts(1.0, n=50)}, ax=ax)
    with pytest.raises(InputError, match="choose one of 'nlpp'"):
        plots.plot_comparison({"a": forecasts(1.0)}, "accuracy", ax=ax)
    with pytest.raises(InputError, match="at least one model"):
        plots.plot_comparison({}, ax=ax)
