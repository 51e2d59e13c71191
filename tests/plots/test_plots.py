"""Pictures: into the Axes that is given, with the band of f inside the band of y."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from sodgp import DeepGPEnsemble, DeepGPRegressor, plots
from sodgp.data import step
from sodgp.errors import InputError
from sodgp.evaluation.scores import Evaluation, evaluate
from sodgp.plots.calibration import chance_band
from sodgp.training.history import History

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


def test_hidden_layers(model, ax):
    assert plots.plot_hidden(model, x, layer=2, n_samples=6, ax=ax) is ax
    assert len(ax.lines) == 6
    values = plots.hidden_draws(model, x[:, None], 1, 6)
    assert values.shape == (6, 30, 1)
    # A row's draw depends on that row alone.
    np.testing.assert_allclose(plots.hidden_draws(model, x[:3, None], 1, 6), values[:, :3], atol=1e-9)


@pytest.mark.parametrize("options", [{"coupling": "marginal"}, {"coupling": "joint"}, {"inference": "dsvi"}])
def test_hidden_draws_are_those_that_predictions_use(options):
    from sodgp.layers.contract import Points
    from sodgp.linalg.draws import SharedDraws

    model = DeepGPRegressor(max_iter=3, subset_size=8, random_state=0, **options).fit(x[:, None], np.sign(x))
    values, drawn = plots.hidden_draws(model, x[:4, None], 1, 6), []
    propagate = model.model_.layers[0].propagate

    def noted(*arguments):
        drawn.append(propagate(*arguments)[0])
        return drawn[-1], torch.zeros(())

    model.model_.layers[0].propagate = noted
    rows = model._scaled_rows(x[:4, None])
    with torch.no_grad():
        model._method.predict(
            model.model_, model._X_s, model._y_s, rows[None], SharedDraws(model._predict_seed, 6, dtype=rows.dtype)
        )
    assert isinstance(drawn[0], Points)
    np.testing.assert_allclose(values, drawn[0].rest.numpy(), atol=1e-12)


def test_the_current_axes_are_the_default(model):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    assert plots.plot_fit(model, x) is ax
    plt.close(figure)


def test_functions_come_with_the_fit_and_labels_have_units(model, ax):
    plots.plot_fit(model, x, n_functions=2, units=("m", "kW"), ax=ax)
    assert labels(ax)[-1] == "drawn functions f"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x (m)", "y (kW)")


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


rng = np.random.default_rng(0)
FRAME = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b$", "c"])
Y = FRAME["a"].to_numpy() + 0.1 * rng.normal(size=60)


@pytest.fixture(scope="module")
def tabular():
    return DeepGPRegressor(max_iter=20, subset_size=12, hidden_width=2, random_state=0).fit(FRAME[:40], Y[:40])


@pytest.fixture(scope="module")
def found(tabular):
    return evaluate(tabular, FRAME[40:], Y[40:], targets=["load $"])


def forecasts(std, n=4000):
    """Standard normal observations, forecast with mean zero and this standard deviation."""
    from scipy.stats import norm

    y = np.random.default_rng(0).normal(size=(n, 1))
    zero, s = np.zeros_like(y), np.full_like(y, std)
    ends = (zero - 1.645 * std, zero + 1.645 * std)
    return Evaluation(("y",), y, zero, s, *ends, norm.logpdf(y, 0, std), y**2, norm.cdf(y, 0, std), zero, zero + 1)


def test_columns_in_another_order_are_no_background_of_a_subset(ax):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "b"])
    model = DeepGPRegressor(max_iter=2, subset_size=8, random_state=0).fit(frame, frame["a"])
    plots.plot_subset(model, frame, inputs=(0, 1), ax=ax)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), frame["a"])
    with pytest.raises(InputError, match="order"):
        plots.plot_subset(model, frame[["b", "a"]], ax=ax)


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
    options = {"n_posterior_samples": 4, "thinning": 2} if inference == "sghmc" else {}
    model = DeepGPRegressor(inference=inference, max_iter=5, subset_size=8, random_state=0, **options)
    model.fit(FRAME[:40], Y[:40])
    draws = plots.hidden_draws(model, FRAME[:7], 1, 5)
    assert draws.shape == (5, 7, 3)
    assert np.ptp(draws, axis=0).max() > 0
    plots.plot_subset(model, FRAME[:40], ax=ax)
    assert labels(ax) == ["rows (40)", "subset S (8)" if inference == "sod" else "inducing inputs (8)"]
    plots.plot_history(model, ax=Figure().subplots())
    plots.plot_warp(model, ax=Figure().subplots())


def test_subset_points_are_rows_of_the_data(tabular, model, ax):
    plots.plot_subset(tabular, inputs=(0, 2), ax=ax)
    points = ax.lines[0].get_xydata()
    np.testing.assert_allclose(points, FRAME.iloc[tabular.subset_indices_][["a", "c"]].to_numpy(), rtol=1e-10)
    plots.plot_subset(model, step(20).X, ax=(one := Figure().subplots()))
    assert one.get_xlabel() == "x0"
    ticks = one.collections[0].get_segments()
    assert [segment[0, 0] for segment in ticks] == pytest.approx(step(20).X[model.subset_indices_, 0].tolist())


def test_relevance_is_the_inverse_lengthscale(tabular, ax):
    values = plots.relevance(tabular)
    expected = 1 / tabular.model_.layers[0].kernel.base_kernel.lengthscale.detach().numpy().ravel()
    np.testing.assert_allclose(values, expected, rtol=1e-10)
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


def test_matplotlib_is_imported_when_a_picture_is_drawn():
    code = "import sys; import sodgp.plots; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
