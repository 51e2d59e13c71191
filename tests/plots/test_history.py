"""The course of training."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from plot_data import labels, x

from sodgp import DeepGPEnsemble, DeepGPRegressor, plots
from sodgp.errors import InputError
from sodgp.training.history import History


def test_the_history_of_an_ensemble_is_that_of_its_members(ax):
    ensemble = DeepGPEnsemble(DeepGPRegressor(max_iter=2, n_layers=1), n_members=2).fit(x[:20, None], x[:20])
    with pytest.raises(InputError, match="one of an ensemble's members_"):
        plots.plot_history(ensemble, ax=ax)
    assert plots.plot_history(ensemble.members_[0], ax=ax) is ax


def test_history_has_the_bound_its_terms_and_moves_of_the_subset(model, ax):
    assert plots.plot_history(model, ax=ax) is ax
    assert labels(ax)[0] == "bound"
    assert len(ax.lines) == 1 + len(model.history_.terms)
    total = np.sum([line.get_ydata() for line in ax.lines[1:]], axis=0)
    np.testing.assert_allclose(total, ax.lines[0].get_ydata(), rtol=1e-6)
    history = History([1, 50, 100], [-9.0, -5.0, -4.0], {}, [0.0, 1.0, 2.0])
    history.reselections.append({"iteration": 50})
    alone = plots.plot_history(history, terms=False, ax=Figure().subplots())
    assert [line.get_xdata()[0] for line in alone.lines] == [1, 50]
    with pytest.raises(InputError, match="no iteration was logged"):
        plots.plot_history(History(), ax=ax)


def test_history_of_a_fit_that_was_trained_for_prediction(ax):
    X = np.linspace(-1, 1, 12)[:, None]
    options = {"predictive_weight": 1.0, "noise": "heavy_tailed", "max_iter": 3, "subset_size": 4, "random_state": 0}
    plots.plot_history(DeepGPRegressor(**options).fit(X, X[:, 0]), ax=ax)
    assert labels(ax)[0] == "objective"
    assert "−KL, noise" in labels(ax)


def test_a_lone_spike_does_not_flatten_the_history(ax):
    bound = np.full(100, -10.0)
    bound[50] = -1e6
    plots.plot_history(History(list(range(1, 101)), bound.tolist(), {}, [0.0] * 100), ax=ax)
    assert ax.get_ylim()[0] > -100
