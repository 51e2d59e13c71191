"""Fits over one input: the band of f inside the band of y."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from plot_data import labels, x

from sodgp import DeepGPRegressor, plots
from sodgp.data import step
from sodgp.errors import InputError


def extent(band):
    vertices = band.get_paths()[0].vertices
    return vertices[:, 1].min(), vertices[:, 1].max()


def test_fit_has_two_bands_data_and_subset(model, ax):
    data = step(20)
    assert plots.plot_fit(model, x, data=(data.X, data.y), ax=ax) is ax
    assert labels(ax) == [
        "90 % band of y (with noise)",
        "90 % band of f (function)",
        "mean",
        "data",
        "subset S (8)",
    ]
    (y_low, y_high), (f_low, f_high) = (extent(band) for band in ax.collections)
    assert y_low < f_low < f_high < y_high


@pytest.mark.parametrize("shown", [5, 200])
def test_rings_are_at_the_subset_whatever_rows_are_shown(model, ax, shown):
    data, other = step(20), step(shown, random_state=1)
    plots.plot_fit(model, x, data=(other.X, other.y), ax=ax)
    (ring,) = (line for line in ax.lines if line.get_label() == "subset S (8)")
    np.testing.assert_allclose(ring.get_xdata(), data.X[model.subset_indices_, 0])
    np.testing.assert_allclose(ring.get_ydata(), data.y[model.subset_indices_])


def test_a_subset_of_all_rows_has_no_rings(ax):
    data = step(20)
    model = DeepGPRegressor(max_iter=2, subset_size=20, n_layers=1, random_state=0).fit(data.X, data.y)
    plots.plot_fit(model, x, data=(data.X, data.y), ax=ax)
    assert labels(ax)[-1] == "data"


def test_names_of_the_inputs_are_kept(ax):
    data = step(20)
    frame = pd.DataFrame({"depth": data.X[:, 0]})
    model = DeepGPRegressor(max_iter=2, subset_size=8, n_layers=2, random_state=0).fit(frame, data.y)
    # Warnings are errors here: scikit-learn has one for rows without the names of the fit.
    plots.plot_fit(model, x, n_functions=2, ax=ax)
    plots.plot_hidden(model, x, ax=ax)
    assert ax.get_xlabel() == "depth"


def test_functions_are_lines_with_one_label(model, ax):
    assert plots.plot_functions(model, x, n_samples=3, ax=ax) is ax
    assert len(ax.lines) == 3
    assert labels(ax) == ["drawn functions f"]


def test_functions_come_with_the_fit_and_labels_have_units(model, ax):
    plots.plot_fit(model, x, n_functions=2, units=("m", "kW"), ax=ax)
    assert labels(ax)[-1] == "drawn functions f"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x (m)", "y (kW)")


def test_pictures_need_one_input_and_two_points(model, ax):
    wide = DeepGPRegressor(max_iter=1, random_state=0).fit(np.random.default_rng(0).normal(size=(9, 2)), np.arange(9.0))
    with pytest.raises(InputError, match="one input and one target"):
        plots.plot_fit(wide, x, ax=ax)
    with pytest.raises(InputError, match="two points"):
        plots.plot_fit(model, [0.0], ax=ax)


@pytest.mark.parametrize("draw", [plots.plot_fit, plots.plot_functions])
def test_counts_have_no_axis_in_common_with_f(ax, draw):
    x = np.linspace(-1, 1, 12)
    model = DeepGPRegressor(likelihood="poisson", n_layers=1, max_iter=2).fit(x[:, None], np.arange(12))
    with pytest.raises(InputError, match="y and f on one axis, and this model predicts counts"):
        draw(model, x, ax=ax)
