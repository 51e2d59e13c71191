"""What scikit-learn users do with any regressor: pipelines, searches, routing, importances, names."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sodgp import DeepGPRegressor

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RNG.uniform(-1, 1, 40), "b": RNG.uniform(-1, 1, 40)})
Y = np.sin(3 * FRAME["a"].to_numpy()) + 0.05 * RNG.standard_normal(40)
NOISE = np.full(40, 0.05**2)


def tiny(**options):
    options = {"max_iter": 40, "n_samples": 2, "n_predict_samples": 5, "learning_rate": 0.05, **options}
    return DeepGPRegressor().set_params(n_layers=1, random_state=0, **options)


def test_weights_are_routed_through_searches_and_pipelines_to_fits_and_scores():
    weight = np.where(FRAME["a"] > 0, 1.0, 0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = tiny().set_fit_request(sample_weight=True, noise_variance=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        search = GridSearchCV(make_pipeline(scaler, model), {"deepgpregressor__subset_size": [5]}, cv=2)
        search.fit(FRAME, Y, sample_weight=weight, noise_variance=NOISE)
        fitted = search.best_estimator_[-1].fitted_
        assert fitted.n_left_out == (weight == 0).sum()
        assert fitted.n_rows == weight.sum()
        assert fitted.likelihood.name == "known_noise"
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_weight"):
            cross_validate(clone(tiny()), FRAME, Y, params={"sample_weight": weight}, cv=2)
    alone = tiny(subset_size=5).fit(FRAME, Y, weight)
    assert alone.score(FRAME, Y, weight) != alone.score(FRAME, Y)


def test_noise_variances_are_routed_through_searches_and_pipelines():
    with sklearn.config_context(enable_metadata_routing=True):
        model = tiny().set_fit_request(noise_variance=True)
        pipeline = make_pipeline(StandardScaler(), model)
        search = GridSearchCV(pipeline, {"deepgpregressor__subset_size": [5, 10]}, cv=2)
        search.fit(FRAME, Y, noise_variance=NOISE)
        fitted = search.best_estimator_[-1]
        assert fitted.likelihood_.name == "known_noise"
        std = cross_validate(model, FRAME, Y, params={"noise_variance": NOISE}, return_estimator=True, cv=2)
        assert all(each.likelihood_.name == "known_noise" for each in std["estimator"])
        unasked = clone(tiny())
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="noise_variance"):
            cross_validate(unasked, FRAME, Y, params={"noise_variance": NOISE}, cv=2)
    # The units of y are undone inside: the noise of predictions is the known one.
    gap = fitted.predict_distribution(pipeline[0].fit_transform(FRAME)).variance
    assert_allclose(
        gap - fitted.predict_distribution(pipeline[0].transform(FRAME), latent=True).variance, NOISE[0], rtol=1e-6
    )


def test_names_of_columns_are_remembered_and_checked():
    model = tiny().fit(FRAME, Y)
    assert_array_equal(model.feature_names_in_, ["a", "b"])
    assert_array_equal(model.predict(FRAME), model.predict(FRAME[["a", "b"]]))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(FRAME.rename(columns={"b": "c"}))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(FRAME[["b", "a"]])


def test_a_pipelines_set_output_gives_the_model_names():
    frame = FRAME.assign(kind=np.where(FRAME["b"] > 0, "x", "y"))
    columns = ColumnTransformer([("kind", OneHotEncoder(sparse_output=False), ["kind"])], remainder="passthrough")
    pipeline = Pipeline([("columns", columns), ("gp", tiny())]).set_output(transform="pandas").fit(frame, Y)
    assert_array_equal(
        pipeline["gp"].feature_names_in_, ["kind__kind_x", "kind__kind_y", "remainder__a", "remainder__b"]
    )
    assert pipeline.score(frame, Y) > 0.5
    # As for every regressor of scikit-learn, predictions are arrays, and there is nothing to set.
    assert isinstance(pipeline.predict(frame), np.ndarray)
    assert not hasattr(tiny(), "set_output")


def test_importances_searches_and_transformed_targets():
    model = GridSearchCV(tiny(), {"kernel": ["rbf", "matern52"]}, cv=2, scoring="neg_root_mean_squared_error")
    model.fit(FRAME, Y)
    importance = permutation_importance(model, FRAME, Y, n_repeats=2, random_state=0).importances_mean
    assert importance[0] > 10 * max(importance[1], 1e-3)
    bent = TransformedTargetRegressor(tiny(), func=np.log, inverse_func=np.exp).fit(FRAME, np.exp(Y))
    assert bent.predict(FRAME).min() > 0


def test_warm_start_is_a_parameter_like_any_other():
    model = tiny(warm_start=True).fit(FRAME, Y)
    first = model.history_.bound[-1]
    assert model.fit(FRAME, Y).history_.bound[0] > first - 5.0
    assert not hasattr(clone(model), "model_")
