"""The number of layers that the data decide: one is trained first, and kept where more do not raise the objective."""

import logging

import numpy as np
import pytest
from sklearn.base import clone

from sodgp import DeepGPRegressor, SoD
from sodgp.errors import ConfigurationError, NumericalError
from sodgp.estimator import depth
from sodgp.estimator.describe import describe
from sodgp.estimator.many import fit_replicates
from sodgp.inference.sod import SoD as Method

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X @ [1.0, -0.5] + 0.3 * RNG.normal(size=40)


@pytest.fixture
def short(monkeypatch):
    """Compare after a few steps, as if these were enough."""
    monkeypatch.setattr("sodgp.inference.sod._DEEP_STEPS", 4)


def make(**options):
    options = {"max_iter": 4, "subset_size": 8, "n_samples": 3, "random_state": 0, "n_predict_samples": 4, **options}
    return DeepGPRegressor(**options)


def says(monkeypatch, nats):
    monkeypatch.setattr(depth, "depth_gain", lambda *_: nats)


@pytest.mark.parametrize("options", [{}, {"n_members": 2}, {"n_restarts": 2}, {"validation_fraction": 0.2}])
@pytest.mark.parametrize(("nats", "n_layers"), [(0.0, 1), (0.074, 1), (0.076, 3), (float("nan"), 1)])
def test_the_gain_decides(short, monkeypatch, options, nats, n_layers):
    says(monkeypatch, nats)
    model = make(**options).fit(X, Y)
    assert model.n_layers_ == n_layers
    assert model.n_layers_reason_.startswith(f"{n_layers} layer")
    assert {len(each.model.layers) for each in model.fitted_.models} == {n_layers}
    if n_layers == 3 and options != {"n_restarts": 2}:
        expected = make(n_layers=3, **options).fit(X, Y)
    elif not options:
        expected = make(n_layers=1).fit(X, Y)
    else:
        return
    assert np.array_equal(model.predict(X), expected.predict(X))
    assert not hasattr(expected, "n_layers_reason_")


def test_a_line_needs_one_layer_and_says_so(short, caplog, tmp_path):
    with caplog.at_level(logging.INFO, "sodgp"):
        model = make().fit(X, Y)
    assert model.n_layers_ == 1
    assert model.n_layers_reason_ in caplog.text
    assert "than one" in describe(model)["n_layers_reason"]
    model.save(tmp_path / "m.sodgp")
    again = DeepGPRegressor.load(tmp_path / "m.sodgp")
    assert (again.n_layers_, again.n_layers_reason_) == (1, model.n_layers_reason_)
    assert np.array_equal(again.predict(X), model.predict(X))
    # The same seed, the same model; a fit that goes on has its layers.
    assert np.array_equal(clone(model).fit(X, Y).predict(X), model.predict(X))
    assert not hasattr(model.set_params(warm_start=True).fit(X, Y), "n_layers_reason_")
    assert model.n_layers_ == 1


@pytest.mark.parametrize(
    "options",
    [
        {"n_layers": 2},
        {"max_iter": 3},
        {"inference": SoD(objective="bound")},
        {"inference": SoD(separate_kernels=True)},
        {"inference": "dsvi"},
    ],
)
def test_what_is_given_or_cannot_be_compared_is_not_tried(short, monkeypatch, options):
    monkeypatch.setattr(depth, "depth_gain", lambda *_: pytest.fail("compared"))
    assert make(**options).fit(X, Y).n_layers_ > 1


def test_every_data_set_has_its_own_depth(short, monkeypatch):
    gains = iter([0.5, -0.5])
    monkeypatch.setattr(depth, "depth_gain", lambda *_: next(gains))
    models = fit_replicates([make(random_state=seed) for seed in range(2)], [(X, Y), (X, -Y)])
    assert [model.n_layers_ for model in models] == [3, 1]


def test_a_shallow_fit_that_fails_is_left_out(short, monkeypatch):
    def fails(*_):
        raise NumericalError("ran away")

    monkeypatch.setattr(depth, "with_one_layer", lambda config, deep: deep)
    assert depth.one_layer_first(make_config(), [None], fails) == []


def make_config():
    from sodgp.estimator.options.configuration import Configuration

    return Configuration.from_estimator(make())


def test_a_checkpointed_fit_goes_on_to_the_same_model(short, tmp_path):
    whole = make().fit(X, Y)
    model = make(checkpoint=tmp_path / "c")
    model.fit(X, Y)
    again = make(checkpoint=tmp_path / "c").fit(X, Y, resume=True)
    assert again.n_layers_reason_ == whole.n_layers_reason_ == model.n_layers_reason_
    assert np.array_equal(again.predict(X), whole.predict(X))


def test_a_time_limit_is_for_both(short, monkeypatch):
    limits = []
    honest = depth.with_seconds_left
    monkeypatch.setattr(
        "sodgp.estimator.many.with_seconds_left",
        lambda *args: limits.append(honest(*args)[0].max_seconds) or honest(*args),
    )
    make(max_minutes=1.0).fit(X, Y)
    assert 0.0 < limits[0] < 60.0


def test_methods_say_what_can_be_compared():
    assert Method(objective="bound").depth_rule(1000) is None
    assert Method(objective="collapsed").depth_rule(99) is None
    judge, margin = Method(objective="collapsed").depth_rule(100)
    assert judge == Method(objective="leave_one_out")
    assert margin == 0.075
    with pytest.raises(ConfigurationError):
        Method(separate_kernels=True).settled(n_rows=9, n_layers=1, kernel="rbf", likelihood=make_config().likelihood)
