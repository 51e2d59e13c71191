"""Cross-validation of a model's options."""

from __future__ import annotations

import numpy as np
import pytest

from sodgp import DeepGPClassifier, DeepGPRegressor
from sodgp.errors import ConfigurationError
from sodgp.evaluation import cross_validate, evaluate

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))


def test_scores_are_those_of_models_that_have_not_seen_the_rows():
    y = X[:, 0] + 0.1 * RNG.normal(size=40)
    model = DeepGPRegressor(n_layers=1, max_iter=10, subset_size=10, random_state=0).fit(X, y)
    rows = np.arange(40)
    folds = [(rows[:20], rows[20:]), (rows[20:], rows[:20])]
    found = cross_validate(model, X, y, folds)
    again = DeepGPRegressor(**model.get_params(deep=False) | {"inference": model.inference_}).fit(X[:20], y[:20])
    np.testing.assert_array_equal(found.mean[20:, 0], again.predict(X[20:]))
    assert found.scores()["rmse"].value > evaluate(model, X, y).scores()["rmse"].value


def test_labels_come_back_in_the_order_of_the_rows():
    y = np.where(X[:, 0] > 0, "b", "a")
    model = DeepGPClassifier(n_layers=1, max_iter=5, subset_size=10, random_state=0).fit(X, y)
    found = cross_validate(model, X, y, 2)
    assert found.classes[found.y].tolist() == y.tolist()
    assert found.scores(n_bootstrap=0)["accuracy"].value > 0.6


def test_known_noise_is_refused():
    model = DeepGPRegressor(n_layers=1, max_iter=2, random_state=0).fit(X, X[:, 0], noise_variance=0.1)
    with pytest.raises(ConfigurationError, match="which the folds would lack"):
        cross_validate(model, X, X[:, 0])


def test_weights_count_in_fits_and_scores_of_folds():
    X, weight = np.linspace(-1, 1, 24)[:, None], np.where(np.arange(24) % 3 == 0, 0.0, 2.0)
    model = DeepGPRegressor(n_layers=1, subset_size=4, max_iter=3, random_state=0).fit(X, X[:, 0], weight)
    with pytest.raises(ConfigurationError, match="fitted with sample_weight"):
        cross_validate(model, X, X[:, 0], cv=2)
    found = cross_validate(model, X, X[:, 0], cv=2, sample_weight=weight)
    np.testing.assert_array_equal(found.weight, weight)
    assert found.scores(n_bootstrap=0)["rmse"].value == pytest.approx(
        np.sqrt(np.average(found.residual[:, 0] ** 2, weights=weight))
    )
