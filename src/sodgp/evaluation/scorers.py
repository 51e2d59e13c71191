"""Scores of the whole predictive distribution, as scikit-learn's searches and cross-validation take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sodgp.errors import ConfigurationError
from sodgp.evaluation.pipelines import last_step
from sodgp.evaluation.scores import observed

__all__ = ["neg_crps", "neg_nlpp"]


def neg_nlpp(model: Any, X: Any, y: Any) -> float:
    """Mean log predictive density of rows (of counts and classes log probability); larger is better.

    Parameters
    ----------
    model : DeepGPRegressor, DeepGPClassifier, or a Pipeline that ends in one
        Fitted.
    X, y : array or data frame of shape [N, D] and [N] or [N, P]

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0)
    >>> cross_val_score(model, X, X[:, 0], scoring=neg_nlpp, cv=2).shape
    (2,)
    """
    return float(_each("log_prob", model, X, y).mean())


def neg_crps(model: Any, X: Any, y: Any) -> float:
    """Minus the mean continuous ranked probability score of rows, in the units of y; larger is better.

    Parameters
    ----------
    model : DeepGPRegressor or a Pipeline that ends in one
        Fitted.
    X, y : array or data frame of shape [N, D] and [N] or [N, P]

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, X[:, 0])
    >>> neg_crps(model, X, X[:, 0]) < 0
    True
    """
    return -float(_each("crps", model, X, y).mean())


def _each(score: str, model: Any, X: Any, y: Any) -> Any:
    """A score of every row and target."""
    estimator, rows = last_step(model, X)
    if "classes" in estimator.takes:
        if score == "crps":
            raise ConfigurationError(
                "neg_crps is of numbers and counts; classes have neg_nlpp, which is minus log loss."
            )
        # A label that was thought impossible costs a finite number, or no search could go on.
        values = estimator.predict_distribution(rows).log_prob(np.asarray(y))
        return np.maximum(values, np.log(np.finfo(np.float64).tiny))
    truth = observed(estimator, rows, y)
    dist = estimator.predict_distribution(rows)
    return getattr(dist, score)(truth.reshape(dist.mean.shape))
