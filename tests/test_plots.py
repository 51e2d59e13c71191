"""Pictures: into the Axes that is given, with the band of f inside the band of y."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from sodgp import DeepGPRegressor, plots
from sodgp.data import step
from sodgp.errors import InputError

x = np.linspace(-1, 1, 30)


@pytest.fixture(scope="module")
def model():
    data = step(20)
    return DeepGPRegressor(max_iter=30, subset_size=8, n_layers=3, random_state=0).fit(data.X, data.y)


@pytest.fixture
def ax():
    return Figure().subplots()


def labels(ax):
    return ax.get_legend_handles_labels()[1]


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


def test_functions_are_lines_with_one_label(model, ax):
    assert plots.plot_functions(model, x, n_samples=3, ax=ax) is ax
    assert len(ax.lines) == 3
    assert labels(ax) == ["drawn functions f"]


def test_hidden_layers(model, ax):
    assert plots.plot_hidden(model, x, layer=2, n_samples=6, ax=ax) is ax
    assert len(ax.lines) == 6
    values = plots.hidden_draws(model, x[:, None], 1, 6)
    assert values.shape == (6, 30, 1)
    # A row's draw depends on that row alone.
    np.testing.assert_allclose(plots.hidden_draws(model, x[:3, None], 1, 6), values[:, :3], atol=1e-9)


def test_the_current_axes_are_the_default(model):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    assert plots.plot_fit(model, x) is ax
    plt.close(figure)


@pytest.mark.parametrize("layer", [0, 3])
def test_no_such_hidden_layer(model, ax, layer):
    with pytest.raises(InputError, match="not a hidden layer; the model has 2"):
        plots.plot_hidden(model, x, layer=layer, ax=ax)


def test_pictures_need_one_input_and_two_points(model, ax):
    wide = DeepGPRegressor(max_iter=1, random_state=0).fit(np.random.default_rng(0).normal(size=(9, 2)), np.arange(9.0))
    with pytest.raises(InputError, match="one input and one target"):
        plots.plot_fit(wide, x, ax=ax)
    with pytest.raises(InputError, match="two points"):
        plots.plot_fit(model, [0.0], ax=ax)
