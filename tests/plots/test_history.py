"""The course of training."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from plot_data import labels, x
from sklearn.exceptions import NotFittedError

from sodgp import DeepGPRegressor, SoD, plots
from sodgp.errors import InputError
from sodgp.training.history import History


def test_the_history_of_several_members_is_that_of_the_first(ax):
    model = DeepGPRegressor(max_iter=2, n_layers=1, n_members=2, random_state=0).fit(x[:20, None], x[:20])
    plots.plot_history(model, ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.members_[0].history_.bound)
    with pytest.raises(NotFittedError):
        plots.plot_history(DeepGPRegressor(), ax=ax)


@pytest.mark.parametrize(("objective", "name"), [("bound", "bound"), (None, "objective")])
def test_history_has_the_bound_and_its_terms(ax, objective, name):
    options = {"inference": SoD(objective=objective), "n_layers": 3, "subset_size": 8, "max_iter": 5}
    model = DeepGPRegressor(**options, random_state=0).fit(x[:20, None], x[:20])
    assert plots.plot_history(model, ax=ax) is ax
    assert labels(ax)[0] == name
    assert len(ax.lines) == 1 + len(model.history_.terms)
    total = np.sum([line.get_ydata() for line in ax.lines[1:]], axis=0)
    np.testing.assert_allclose(total, ax.lines[0].get_ydata(), rtol=1e-6)


def test_a_history_alone_is_of_a_bound(ax):
    history = History([1, 50, 100], [-9.0, -5.0, -4.0], {}, [0.0, 1.0, 2.0])
    alone = plots.plot_history(history, terms=False, ax=Figure().subplots())
    assert [line.get_label() for line in alone.lines] == ["bound"]
    with pytest.raises(InputError, match="no iteration was logged"):
        plots.plot_history(History(), ax=ax)


def test_history_of_a_fit_that_was_trained_for_prediction(ax):
    X = np.linspace(-1, 1, 12)[:, None]
    options = {
        "inference": SoD(objective="predictive"),
        "likelihood": "heavy_tailed",
        "max_iter": 3,
        "subset_size": 4,
        "random_state": 0,
    }
    plots.plot_history(DeepGPRegressor(**options).fit(X, X[:, 0]), ax=ax)
    assert labels(ax)[0] == "objective"
    assert "−KL, noise" in labels(ax)


def test_a_lone_spike_does_not_flatten_the_history(ax):
    bound = np.full(100, -10.0)
    bound[50] = -1e6
    plots.plot_history(History(list(range(1, 101)), bound.tolist(), {}, [0.0] * 100), ax=ax)
    assert ax.get_ylim()[0] > -100
