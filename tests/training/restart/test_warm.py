"""`warm_start`: the next fit begins where the last one ended, also with other rows."""

import copy
import functools

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError, InputError
from sodgp.inference.sod_transfer import Subset
from sodgp.training.restart.warm import matching_rows

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (50, 2))
Y = np.sign(X[:, 0]) + 0.1 * RNG.standard_normal(50)
# A step so small that predictions are those of the carried parameters.
STILL = {"warm_start": True, "max_iter": 1, "learning_rate": 1e-12}
KINDS = [
    {},
    {"subset_size": 10, "n_layers": 1},
    {"subset_size": 10, "n_layers": 3},
    {"subset_size": 10, "inference__parameterization": "paper", "hidden_width": 3},
    {"subset_size": 40, "inference__tie_label_noise": False},
    {"subset_size": 10, "inference__separate_kernels": True},
    {"inference": "dsvi"},
]


def fitted(**options):
    return copy.deepcopy(_fitted(tuple(options.items())))


@functools.cache
def _fitted(options):
    settings = {"max_iter": 40, "n_samples": 2, "n_predict_samples": 10, "random_state": 0, **dict(options)}
    return DeepGPRegressor().set_params(**settings).fit(X[:40], Y[:40])


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_the_same_data_continue_at_the_same_predictions(options):
    model = fitted(**options)
    before = model.predict(X, return_std=True)
    model.set_params(**STILL).fit(X[:40], Y[:40])
    for ours, theirs in zip(model.predict(X, return_std=True), before, strict=True):
        assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_more_rows_begin_far_above_a_cold_start(options):
    model = fitted(**options)
    cold = DeepGPRegressor().set_params(**{**model.get_params(), "max_iter": 1}).fit(X, Y)
    model.set_params(**STILL).fit(X, Y)
    assert model.history_.bound[0] > cold.history_.bound[0] + 20.0


def test_fewer_and_other_rows_are_taken_too():
    model = fitted().set_params(**STILL)
    before = model.predict(X[40:])
    model.fit(X[5:30], Y[5:30])
    assert len(model.fitted_.subset.X) == 13
    assert len(model.fitted_.X_s[0]) == 25
    assert np.corrcoef(model.predict(X[40:]), before)[0, 1] > 0.9


def test_the_scaling_of_the_first_fit_is_kept():
    model = fitted()
    shift, scale = model.fitted_.y_scaler.mean_.copy(), model.fitted_.y_scaler.scale_.copy()
    model.set_params(**STILL).fit(X[:45], Y[:45] + 3.0)
    assert_array_equal(model.fitted_.y_scaler.mean_, shift)
    assert_array_equal(model.fitted_.y_scaler.scale_, scale)
    assert model.fitted_.x_scaler.n_samples_seen_ == 45


def test_without_warm_start_a_second_fit_forgets_the_first():
    model = fitted()
    again = fitted(max_iter=5).fit(X, Y).set_params(max_iter=40).fit(X[:40], Y[:40])
    assert_array_equal(again.predict(X), model.predict(X))


def test_a_first_fit_is_a_plain_fit():
    assert_array_equal(fitted(warm_start=True).predict(X), fitted().predict(X))


def test_a_loaded_model_continues(tmp_path):
    model = fitted(warm_start=True)
    model.save(tmp_path / "m.sodgp")
    loaded = DeepGPRegressor.load(tmp_path / "m.sodgp")
    for each in (model, loaded):
        each.set_params(max_iter=5).fit(X, Y)
    assert_allclose(loaded.predict(X), model.predict(X), atol=1e-10)
    model.save(tmp_path / "again.sodgp")
    assert_array_equal(DeepGPRegressor.load(tmp_path / "again.sodgp").predict(X), model.predict(X))


@pytest.mark.parametrize(
    "change",
    [
        {"n_layers": 2},
        {"hidden_width": 1},
        {"kernel": "matern32"},
        {"inference__parameterization": "paper", "hidden_width": 3},
        {"hidden_mean": "zero"},
        {"inference__tie_label_noise": False},
        {"inference__separate_kernels": False},
        {"inference__objective": "bound"},
        {"inference__coupling": "joint"},
        {"inference": "dsvi"},
        {"dtype": "float32"},
    ],
    ids=str,
)
def test_another_model_cannot_continue(change):
    model = fitted(hidden_width=2, max_iter=2)
    before = model.predict(X)
    with pytest.raises(ConfigurationError, match="warm_start continues a fitted model"):
        model.set_params(warm_start=True, **change).fit(X, Y)
    assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"inference": "dsvi"}, {"inference": "sod"}),
        ({"inference__objective": "bound"}, {"inference__objective": "collapsed"}),
    ],
    ids=str,
)
def test_what_has_a_last_q_cannot_continue_without_one(first, then):
    model = fitted(max_iter=2, **first)
    with pytest.raises(ConfigurationError, match="warm_start continues a fitted model"):
        model.set_params(warm_start=True, **then).fit(X, Y)


@pytest.mark.parametrize("n_layers", [None, 2])
@pytest.mark.parametrize("objective", [None, "bound"])
def test_another_number_of_rows_changes_neither_depth_nor_objective(tmp_path, monkeypatch, n_layers, objective):
    monkeypatch.setattr("sodgp.inference.sod._SMALL", 45)  # from there on two layers are the default
    monkeypatch.setattr("sodgp.inference.sod.ALL_LABELS_ROWS", 45)
    model = fitted(max_iter=2, n_layers=n_layers, inference__objective=objective)
    depth, kept = len(model.model_.layers), model.inference_.conditions_on_all
    assert depth == (3 if n_layers is None else 2)
    model.set_params(warm_start=True).fit(X, Y)
    assert len(model.model_.layers) == depth
    assert model.inference_.conditions_on_all is kept is (objective is None)
    model.save(tmp_path / "m.sodgp")
    assert_allclose(DeepGPRegressor.load(tmp_path / "m.sodgp").predict(X), model.predict(X), rtol=1e-12)


def test_other_columns_cannot_continue():
    model = fitted().set_params(**STILL)
    with pytest.raises(InputError, match="2 columns of X and 1 of y; these data have 1 and 1"):
        model.fit(X[:, :1], Y)
    assert model.predict(X).shape == (50,)


def test_targets_in_another_order_cannot_continue():
    targets = pd.DataFrame({"load": Y, "price": 10 + Y})
    model = DeepGPRegressor().set_params(n_layers=1, max_iter=2, warm_start=True, random_state=0).fit(X, targets)
    with pytest.raises(InputError, match="columns of y load, price; these data have price, load"):
        model.fit(X, targets[["price", "load"]])


@pytest.mark.parametrize("method", ["sghmc", "mean_field"])
def test_methods_without_a_state_for_new_rows_refuse(method):
    with pytest.raises(ConfigurationError, match="warm_start=True has no meaning for inference"):
        DeepGPRegressor().set_params(inference=method, warm_start=True).fit(X, Y)


def test_restarts_and_ensembles_refuse():
    with pytest.raises(ConfigurationError, match="n_restarts=2 begins several anew"):
        fitted(max_iter=1).set_params(warm_start=True, n_restarts=2).fit(X, Y)
    with pytest.raises(ConfigurationError, match="leave warm_start at False"):
        DeepGPRegressor(warm_start=True, n_members=2).fit(X, Y)
    with pytest.raises(ConfigurationError, match="does not carry noise that varies"):
        DeepGPRegressor().set_params(warm_start=True, likelihood="heteroscedastic").fit(X, Y)
    with pytest.raises(ConfigurationError, match="warm_start must be True or False"):
        DeepGPRegressor().set_params(warm_start="yes").fit(X, Y)


def test_equal_rows_are_matched_once():
    old = Subset(torch.tensor([[1.0], [1.0], [2.0]]), torch.zeros(3, 1))
    new = Subset(torch.tensor([[2.0], [1.0], [3.0], [1.0], [1.0]]), torch.zeros(5, 1))
    assert matching_rows(old, new).tolist() == [2, 0, -1, -1, -1]
    assert len(set(matching_rows(old, old).tolist()) - {-1}) == len([p for p in matching_rows(old, old) if p >= 0])


def test_other_columns_or_another_order_are_refused_by_name():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = DeepGPRegressor().set_params(max_iter=3, random_state=0, warm_start=True).fit(frame, Y)
    before = model.predict(frame)
    for other in (frame[["b", "a"]], frame.rename(columns={"a": "z"})):
        with pytest.raises(InputError, match=r"columns a, b; these data have"):
            model.fit(other, Y)
        assert_array_equal(model.predict(frame), before)
    model.fit(X, Y)  # without names nothing can be said
    model.fit(frame, Y)
