"""Pipelines that end in one of our estimators, and scores for searches."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

import sodgp
from sodgp import DeepGPClassifier, DeepGPRegressor
from sodgp.errors import ConfigurationError, InputError, InputTypeError
from sodgp.evaluation import evaluate, neg_crps, neg_nlpp
from sodgp.report import write_report

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(40, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=40)
SMALL = {"n_layers": 1, "subset_size": 8, "max_iter": 5, "n_predict_samples": 3, "random_state": 0}


def pipeline(estimator, y=Y):
    return make_pipeline(PolynomialFeatures(2), estimator).fit(X, y)


def test_a_pipeline_is_predicted_evaluated_and_reported(tmp_path):
    model = pipeline(DeepGPRegressor(**SMALL))
    rows = model[:-1].transform(X)
    dist = sodgp.predict_distribution(model, X)
    np.testing.assert_array_equal(dist.mean, model.predict(X))
    np.testing.assert_array_equal(sodgp.predict_distribution(model[-1], rows).mean, dist.mean)
    found = evaluate(model, X, Y)
    np.testing.assert_allclose(found.log_prob[:, 0], dist.log_prob(Y))
    assert neg_nlpp(model, X, Y) == pytest.approx(dist.log_prob(Y).mean())
    assert neg_crps(model, X, Y) == pytest.approx(-dist.crps(Y).mean())
    with pytest.raises(ConfigurationError, match="last step alone"):
        write_report(tmp_path / "r.html", model, X, Y, cv=2)


def test_classes():
    labels = np.where(X[:, 0] > 0, "up", "down")
    model = pipeline(DeepGPClassifier(**SMALL), labels)
    found = evaluate(model, X, labels)
    assert neg_nlpp(model, X, labels) == pytest.approx(-found.scores(n_bootstrap=0)["log_loss"].value)
    assert cross_val_score(model[-1], X, labels, scoring="neg_log_loss", cv=2).shape == (2,)
    with pytest.raises(ConfigurationError, match="neg_nlpp"):
        neg_crps(model, X, labels)


def test_searches_take_the_scores():
    model = DeepGPRegressor(**SMALL)
    for score in (neg_nlpp, neg_crps):
        assert cross_val_score(model, X, Y, scoring=score, cv=2).shape == (2,)
    search = GridSearchCV(model, {"kernel": ["rbf", "matern32"]}, scoring=neg_nlpp, cv=2).fit(X, Y)
    assert search.best_score_ == pytest.approx(search.cv_results_["mean_test_score"].max())


def test_what_is_refused_says_what_to_do():
    with pytest.raises(InputError, match="target_transform='log'"):
        evaluate(TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp), X, Y)
    with pytest.raises(InputError, match="not a LinearRegression"):
        sodgp.predict_distribution(make_pipeline(LinearRegression()).fit(X, Y), X)
    with pytest.raises(InputTypeError, match="sparse_output=False"):
        make_pipeline(OneHotEncoder(), DeepGPRegressor(**SMALL)).fit(np.round(X), Y)
