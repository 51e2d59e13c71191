"""Pipelines of scikit-learn that end in one of our estimators: the estimator, and the rows as it gets them."""

from __future__ import annotations

from typing import Any, cast

from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sodgp.errors import InputError
from sodgp.estimator.base import DeepGPEstimator
from sodgp.predictive.contract import Predictive

__all__ = ["last_step", "predict_distribution"]


def predict_distribution(model: Any, X: Any) -> Predictive:
    """The predictive distribution of a fitted estimator, also where it is the last step of a pipeline.

    Parameters
    ----------
    model : DeepGPRegressor, DeepGPClassifier, or a Pipeline that ends in one
        Fitted.
    X : array or data frame of shape [N, D]
        Rows as the pipeline takes them.

    Raises
    ------
    InputError
        The model is neither, or the rows do not fit it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> steps = PolynomialFeatures(2), DeepGPRegressor(n_layers=1, max_iter=5, random_state=0)
    >>> predict_distribution(make_pipeline(*steps).fit(X, X[:, 0]), X[:4]).mean.shape
    (4,)
    """
    estimator, rows = last_step(model, X)
    found: Predictive = cast(Any, estimator).predict_distribution(rows)
    return found


def last_step(model: Any, X: Any) -> tuple[DeepGPEstimator, Any]:
    """The estimator of a fitted model, and the rows X after all steps before it.

    Raises
    ------
    InputError
        It is neither one of our estimators nor a pipeline that ends in one.
    """
    if isinstance(model, Pipeline):
        check_is_fitted(model)
        estimator, rows = last_step(model.steps[-1][1], None)[0], X
        # With X None only the estimator is asked for.
        if len(model.steps) > 1 and X is not None:
            rows = model[:-1].transform(X)
        return estimator, rows
    if isinstance(model, DeepGPEstimator):
        return model, X
    if isinstance(model, TransformedTargetRegressor):
        raise InputError(
            "a TransformedTargetRegressor knows how to map a mean back, not a density: put"
            " DeepGPRegressor(target_transform='log') or 'box_cox' in its place. Linear scaling of y is done inside."
        )
    raise InputError(
        f"it takes a DeepGPRegressor, a DeepGPClassifier, or a Pipeline that ends in one, not a {type(model).__name__}."
    )
