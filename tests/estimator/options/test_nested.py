"""Parameters of parameters: set, cloned, searched."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from sodgp import DSVI, SGHMC, Checkpoint, DeepGPRegressor, SoD, Tuning
from sodgp.errors import ConfigurationError
from sodgp.estimator.options.nested import copy_of
from sodgp.likelihoods import Gaussian, HeavyTailed

X = np.linspace(-1, 1, 40)[:, None]
Y = np.sin(4 * X[:, 0])


def test_parts_are_set_where_the_argument_is_a_name_or_nothing():
    model = DeepGPRegressor(checkpoint="runs")
    model.set_params(
        inference__coupling="joint",
        likelihood__outlier_probability=0.1,
        tuning__jitter=1e-4,
        checkpoint__every=500,
        n_layers=2,
    )
    assert model.inference == SoD(coupling="joint")
    assert model.likelihood == Gaussian(outlier_probability=0.1)
    assert model.tuning == Tuning(jitter=1e-4)
    assert model.checkpoint == Checkpoint("runs", every=500)
    assert model.n_layers == 2


def test_parts_are_those_of_the_new_object_where_both_are_set():
    model = DeepGPRegressor(inference=SoD(coupling="joint"))
    model.set_params(inference__thinning=3, inference="sghmc")
    assert model.inference == SGHMC(thinning=3)


def test_an_object_is_left_as_it_is():
    method = SoD()
    DeepGPRegressor(inference=method).set_params(inference__coupling="joint")
    assert method.coupling == "ancestral"


def test_params_show_the_parts():
    params = DeepGPRegressor(inference="dsvi").get_params()
    assert params["inference"] == "dsvi"
    assert params["inference__learn_inducing_inputs"] is True
    assert params["likelihood__outlier_probability"] is None
    assert params["tuning__schedule"] == "cosine"
    assert not any(name.startswith("checkpoint__") for name in params)
    assert not any("__" in name for name in DeepGPRegressor().get_params(deep=False))
    assert "inference__coupling" not in DeepGPRegressor(inference="no method").get_params()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"inference__step_size": 0.1}, "SoD has no parameter step_size"),
        ({"inference__coupling": "loose"}, "coupling='loose'"),
        ({"likelihood__outlier_probability": 2.0}, "outlier_probability=2"),
        ({"tuning__schedule": lambda i: 1.0}, "schedule"),
        ({"tuning__initialization": 3}, "initialization must be an Initialization"),
        ({"checkpoint__every": 5}, "while checkpoint is None"),
        ({"inference": "map", "inference__coupling": "joint"}, "inference='map' is unknown"),
    ],
)
def test_bad_parts_are_refused(params, words):
    with pytest.raises(ConfigurationError, match=words):
        DeepGPRegressor().set_params(**params)


def test_clones_and_copies_are_equal():
    model = DeepGPRegressor(
        inference=DSVI(objective="predictive"),
        likelihood=HeavyTailed(outlier_probability=0.1),
        tuning=Tuning(compile=True),
        checkpoint=Checkpoint("runs"),
    )
    assert clone(model).get_params() == model.get_params() == copy_of(model).get_params()
    assert copy_of(model, n_layers=1).inference is model.inference


def test_a_search_over_the_options_of_a_method():
    model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0)
    search = GridSearchCV(model, {"inference__objective": ["bound", "predictive"]}, cv=2).fit(X, Y)
    best = search.best_params_["inference__objective"]
    assert search.best_estimator_.inference.objective == search.best_estimator_.objective_ == best


def test_a_pipeline_reaches_the_options_of_a_method():
    pipeline = Pipeline([("scale", StandardScaler()), ("model", DeepGPRegressor(n_layers=2, max_iter=3))])
    pipeline.set_params(model__inference__coupling="joint").fit(X, Y)
    assert pipeline["model"].inference_.coupling == "joint"
    search = GridSearchCV(pipeline, {"model__inference__coupling": ["joint", "marginal"]}, cv=2).fit(X, Y)
    assert search.best_estimator_["model"].inference.coupling in ("joint", "marginal")
