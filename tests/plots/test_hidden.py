"""Pictures of hidden layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from plot_data import FRAME, Y, labels, x

from sodgp import DSVI, SGHMC, DeepGPRegressor, SoD, plots
from sodgp.errors import InputError
from sodgp.linalg.draws import SharedDraws


def test_hidden_layers(model, ax):
    assert plots.plot_hidden(model, x, layer=2, n_samples=6, ax=ax) is ax
    assert len(ax.lines) == 6
    values = plots.hidden_draws(model, x[:, None], 1, 6)
    assert values.shape == (6, 30, 1)
    # A row's draw depends on that row alone.
    np.testing.assert_allclose(plots.hidden_draws(model, x[:3, None], 1, 6), values[:, :3], atol=1e-9)


@pytest.mark.parametrize("inference", [SoD(), SoD(coupling="marginal"), SoD(coupling="joint"), DSVI()], ids=repr)
def test_hidden_draws_are_those_that_predictions_use(inference):
    options = {"max_iter": 3, "subset_size": 8, "random_state": 0}
    model = DeepGPRegressor(inference=inference, **options).fit(x[:, None], np.sign(x))
    fitted, seen = model.fitted_, []
    values = plots.hidden_draws(model, x[:4, None], 1, 6)
    draws = [SharedDraws(fitted.predict_seed, 6, dtype=torch.float64) for _ in range(2)]
    predictor = fitted.method.predictor(fitted.model, fitted.X_s, fitted.y_s, draws[0])
    # What the mean function of layer 2 is asked about; the subset has eight rows.
    fitted.model.layers[1].mean.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        predictor.rows(torch.from_numpy(fitted.x_scaler.transform(x[:4, None]))[None], draws[1])
    drawn = torch.cat([rows for rows in seen if rows.shape[-2] == 4])
    np.testing.assert_allclose(values, drawn.numpy().reshape(6, 4, 1), atol=1e-12)


@pytest.mark.parametrize("layer", [0, 3])
def test_no_such_hidden_layer(model, ax, layer):
    with pytest.raises(InputError, match="not a hidden layer; the model has 2"):
        plots.plot_hidden(model, x, layer=layer, ax=ax)


def test_warp_of_a_layer_that_does_nothing_is_the_grid(tabular, ax):
    plots.plot_warp(tabular, inputs=(0, 2), ax=ax)
    assert len(ax.lines) == 26
    assert labels(ax) == ["constant a, rising", "constant c, rising"]
    flat = DeepGPRegressor(max_iter=1, subset_size=12, learning_rate=1e-9, random_state=0).fit(FRAME[:40], Y[:40])
    plots.plot_warp(flat, X=FRAME, n_samples=200, ax=(still := Figure().subplots()))
    path = still.lines[0].get_xydata()
    # Lines of constant a stay near constant: q starts near the prior, whose mean is the identity.
    assert np.ptp(path[:, 0]) < 0.35 * np.ptp(path[:, 1])


def test_a_layer_with_one_output_is_drawn_as_level_lines(ax):
    narrow = DeepGPRegressor(max_iter=2, subset_size=12, hidden_width=1, random_state=0).fit(FRAME[:40], Y[:40])
    plots.plot_warp(narrow, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", r"b\$")
    assert ax.get_title() == "z1 of layer 1 (scaled)"


def test_warps_that_cannot_be_drawn(model, tabular, ax):
    with pytest.raises(InputError, match="at least two inputs"):
        plots.plot_warp(model, ax=ax)
    with pytest.raises(InputError, match="one input"):
        plots.plot_hidden(tabular, x, ax=ax)
    with pytest.raises(InputError, match="not a hidden layer"):
        plots.plot_warp(tabular, 3, ax=ax)
    with pytest.raises(InputError, match="column 3 does not exist"):
        plots.plot_warp(tabular, inputs=(0, 3), ax=ax)
    with pytest.raises(InputError, match="output=1 does not exist"):
        plots.plot_hidden(model, x, output=1, ax=ax)


@pytest.mark.parametrize("inference", ["sod", "dsvi", "sghmc", "mean_field"])
def test_every_method_has_its_pictures(inference, ax):
    method = SGHMC(n_posterior_samples=4, thinning=2) if inference == "sghmc" else inference
    model = DeepGPRegressor(inference=method, max_iter=5, subset_size=8, random_state=0)
    model.fit(FRAME[:40], Y[:40])
    draws = plots.hidden_draws(model, FRAME[:7], 1, 5)
    assert draws.shape == (5, 7, 3)
    assert np.ptp(draws, axis=0).max() > 0
    plots.plot_subset(model, FRAME[:40], ax=ax)
    assert labels(ax) == ["rows (40)", "subset S (8)" if inference == "sod" else "inducing inputs (8)"]
    plots.plot_history(model, ax=Figure().subplots())
    plots.plot_warp(model, ax=Figure().subplots())
