"""Where the subset is, and which inputs matter."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from plot_data import FRAME, Y

from sodgp import DeepGPRegressor, plots
from sodgp.data import step
from sodgp.errors import InputError


def test_columns_in_another_order_are_no_background_of_a_subset(ax):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "b"])
    model = DeepGPRegressor(max_iter=2, subset_size=8, random_state=0).fit(frame, frame["a"])
    plots.plot_subset(model, frame, inputs=(0, 1), ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), frame["a"])
    with pytest.raises(InputError, match="order"):
        plots.plot_subset(model, frame[["b", "a"]], ax=ax)


def test_subset_points_are_rows_of_the_data(tabular, model, ax):
    plots.plot_subset(tabular, inputs=(0, 2), ax=ax)
    points = ax.lines[0].get_xydata()
    np.testing.assert_allclose(points, FRAME.iloc[tabular.subset_indices_][["a", "c"]].to_numpy(), rtol=1e-10)
    plots.plot_subset(model, step(20).X, ax=(one := Figure().subplots()))
    assert one.get_xlabel() == "x0"
    ticks = one.collections[0].get_segments()
    assert [segment[0, 0] for segment in ticks] == pytest.approx(step(20).X[model.subset_indices_, 0].tolist())


def test_relevance_is_the_inverse_lengthscale(tabular, ax):
    first, second, _ = (layer.kernel.base_kernel.lengthscale.detach().numpy() for layer in tabular.model_.layers)
    values = plots.relevance(tabular)
    # Each of the two outputs of layer 1 has a kernel, of which a bar shows the mean square.
    np.testing.assert_allclose(values, np.sqrt((first.reshape(2, 3) ** -2).mean(0)), rtol=1e-10)
    np.testing.assert_allclose(plots.relevance(tabular, 2), 1 / second.ravel(), rtol=1e-10)
    plots.plot_relevance(tabular, most=2, ax=ax)
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(sorted(values)[::-1][:2])
    assert "1 shorter bars left out" in ax.get_xlabel()
    plots.plot_relevance(tabular, 2, ax=(second := Figure().subplots()))
    assert all(text.get_text().startswith("z") for text in second.get_yticklabels())
    with pytest.raises(InputError, match="layer=4 does not exist"):
        plots.relevance(tabular, 4)
    same = DeepGPRegressor(kernel="rbf-iso", max_iter=1, subset_size=8).fit(FRAME[:40], Y[:40])
    with pytest.raises(InputError, match="cannot tell them apart"):
        plots.relevance(same)
    plots.plot_subset(same, ax=ax)
