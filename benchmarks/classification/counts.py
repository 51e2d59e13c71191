"""Who is compared on counts."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import asdict
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.classification.contestants import Contestant, Predict
from benchmarks.paper.splits import Split
from sodgp import DeepGPRegressor
from sodgp.errors import NumericalError
from sodgp.estimator.options.fields import EFFORTS
from sodgp.predictive.counts import CountMixture
from sodgp.system.validation import FloatArray

__all__ = ["COUNTS"]

_LEAST_RATE = 1e-6


def counts(rate: Any, dispersion: float | None = None) -> CountMixture:
    """One Poisson or negative binomial distribution for each row."""
    each = np.maximum(np.asarray(rate, dtype=np.float64), _LEAST_RATE)
    return CountMixture([0.0], each.reshape(1, -1, 1), dispersion)


def _ours(split: Split, options: dict[str, Any], seed: int) -> Predict:
    model = DeepGPRegressor(
        likelihood=options["likelihood"],
        n_layers=options["n_layers"],
        effort=options["effort"],
        random_state=seed,
        device="cpu",
        n_threads=1,
        verbose=0,
    )
    return model.fit(split.X_train, split.y_train).predict_distribution


def _effort(label: str, likelihood: str, n_layers: int | None = None) -> Contestant:
    options = {"likelihood": likelihood, "n_layers": n_layers, "effort": "standard", **asdict(EFFORTS["standard"])}
    return Contestant(label, _ours, options)


def _poisson(split: Split, options: dict[str, Any], seed: int) -> Predict:
    model = make_pipeline(StandardScaler(), PoissonRegressor(alpha=options["alpha"], max_iter=2000))
    model.fit(split.X_train, split.y_train)
    return lambda X: counts(model.predict(X))


def _negative_binomial(split: Split, options: dict[str, Any], seed: int) -> Predict:
    """Statsmodels' NB2; a ridge that hardly matters lets it have columns that repeat each other."""
    discrete = importlib.import_module("statsmodels.discrete.discrete_model")
    scaler = StandardScaler().fit(split.X_train)

    def columns(X: FloatArray) -> FloatArray:
        scaled = scaler.transform(X)
        return np.column_stack([np.ones(len(X)), scaled[:, independent]])

    # Columns that are no sum of others, such as all but one of a one-hot coding.
    scaled = scaler.transform(split.X_train)
    independent = _independent(scaled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = discrete.NegativeBinomial(split.y_train, columns(split.X_train)).fit(maxiter=500, disp=False)
    if not np.isfinite(fitted.params).all():
        raise NumericalError("statsmodels' negative binomial regression did not converge.")
    return lambda X: counts(fitted.predict(columns(X)), float(fitted.params[-1]))


def _independent(X: FloatArray) -> list[int]:
    kept: list[int] = []
    for column in range(X.shape[1]):
        candidate = np.column_stack([np.ones(len(X)), X[:, [*kept, column]]])
        if np.linalg.matrix_rank(candidate) == candidate.shape[1]:
            kept.append(column)
    return kept


def _boosting(split: Split, options: dict[str, Any], seed: int) -> Predict:
    model = HistGradientBoostingRegressor(loss="poisson", random_state=seed).fit(split.X_train, split.y_train)
    return lambda X: counts(model.predict(X))


def _ngboost(split: Split, options: dict[str, Any], seed: int) -> Predict:
    package = importlib.import_module("ngboost")
    poisson = importlib.import_module("ngboost.distns").Poisson
    model = package.NGBRegressor(
        Dist=poisson, n_estimators=options["estimators"], random_state=seed, verbose=False
    ).fit(split.X_train, split.y_train)
    return lambda X: counts(model.pred_dist(X).mu)


COUNTS: dict[str, Contestant] = {
    "sod-poisson": _effort("SoD, Poisson", "poisson"),
    "sod1-poisson": _effort("SoD, Poisson, 1 layer", "poisson", 1),
    "sod-negative": _effort("SoD, negative binomial", "negative_binomial"),
    "sod1-negative": _effort("SoD, negative binomial, 1 layer", "negative_binomial", 1),
    "poisson": Contestant("Poisson regression (scikit-learn)", _poisson, {"alpha": 1e-3}),
    "negative": Contestant("negative binomial regression (statsmodels)", _negative_binomial, package="statsmodels"),
    "boosting": Contestant("HistGradientBoosting, Poisson", _boosting),
    "ngboost": Contestant("NGBoost, Poisson", _ngboost, {"estimators": 500}, package="ngboost"),
}
