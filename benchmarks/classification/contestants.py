"""Who is compared on classes: ours, other Gaussian processes, and what one would use instead."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.classification.gpytorch_runs import deep_gp, variational
from benchmarks.paper.splits import Split
from sodgp import DSVI, DeepGPClassifier
from sodgp.estimator.options.fields import EFFORTS
from sodgp.system.validation import FloatArray

__all__ = ["CLASSES", "Contestant", "Predict"]

# Probabilities [N, K], or a distribution of counts, of new rows.
Predict = Callable[[FloatArray], Any]
Fit = Callable[[Split, dict[str, Any], int], Predict]


@dataclass(frozen=True)
class Contestant:
    """One way to fit.

    Parameters
    ----------
    label : str
    fit : function (split, options, seed) -> (function (X) -> predictions)
    options : dict
        They stand in every result: a result of other options is run again.
    package : str or None
        That it needs and sodgp does not.
    most_rows : int or None
        It is not run with more.
    is_gp : bool
        Whether it is a Gaussian process of somebody else.
    """

    label: str
    fit: Fit
    options: dict[str, Any] = field(default_factory=dict)
    package: str | None = None
    most_rows: int | None = None
    is_gp: bool = False

    def refusal(self, n_rows: int) -> str | None:
        """Why it is not run on so many rows; None where it is."""
        if self.package is not None and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed"
        if self.most_rows is not None and n_rows > self.most_rows:
            return f"more than {self.most_rows:,} rows"
        return None


def _ours(split: Split, options: dict[str, Any], seed: int) -> Predict:
    # The size of the effort stands in the results, since what its name means may change.
    given = {name: value for name, value in options.items() if name in ("n_layers", "likelihood")}
    method = DSVI() if options.get("inference") == "dsvi" else "sod"
    model = DeepGPClassifier(
        inference=method, effort=options["effort"], random_state=seed, device="cpu", n_threads=1, verbose=0, **given
    )
    return model.fit(split.X_train, split.y_train.astype(int)).predict_proba


def _effort(label: str, **options: Any) -> Contestant:
    return Contestant(label, _ours, {**options, "effort": "standard", **asdict(EFFORTS["standard"])})


def _scikit_learn(split: Split, options: dict[str, Any], seed: int) -> Predict:
    """Laplace's approximation, one against the rest."""
    from sklearn.exceptions import ConvergenceWarning

    dims = split.X_train.shape[1]
    # Only one lengthscale: with one for each input its optimiser takes hours on the wider sets.
    kernel = ConstantKernel() * RBF(dims**0.5, (1e-2, 1e4))
    model = make_pipeline(StandardScaler(), GaussianProcessClassifier(kernel, random_state=seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(split.X_train, split.y_train.astype(int)).predict_proba


def _logistic(split: Split, options: dict[str, Any], seed: int) -> Predict:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    return model.fit(split.X_train, split.y_train.astype(int)).predict_proba


def _boosting(split: Split, options: dict[str, Any], seed: int) -> Predict:
    model = HistGradientBoostingClassifier(random_state=seed)
    return model.fit(split.X_train, split.y_train.astype(int)).predict_proba


def _catboost(split: Split, options: dict[str, Any], seed: int) -> Predict:
    classifier = importlib.import_module("catboost").CatBoostClassifier
    model = classifier(random_seed=seed, thread_count=1, verbose=False, allow_writing_files=False)
    model.fit(split.X_train, split.y_train.astype(int))
    return lambda X: np.asarray(model.predict_proba(X))


CLASSES: dict[str, Contestant] = {
    "default": _effort("SoD, defaults"),
    "sod1": _effort("SoD, 1 layer", n_layers=1),
    "sod2": _effort("SoD, 2 layers", n_layers=2),
    "sod3": _effort("SoD, 3 layers", n_layers=3),
    "dirichlet": _effort("SoD, Dirichlet", likelihood="dirichlet"),
    "dsvi2": _effort("DSVI, 2 layers", inference="dsvi", n_layers=2),
    "variational": Contestant(
        "variational GP (GPyTorch)",
        variational,
        {"inducing": 200, "learning_rate": 0.01, "batch_size": 1024, "steps": 1000, "most_seconds": 300.0},
        is_gp=True,
    ),
    "deep": Contestant(
        "deep GP (GPyTorch)",
        deep_gp,
        {
            "inducing": 128,
            "learning_rate": 0.01,
            "batch_size": 1024,
            "steps": 500,
            "most_seconds": 300.0,
            "n_layers": 2,
            "n_samples": 10,
            "n_predict": 50,
        },
        is_gp=True,
    ),
    "laplace": Contestant("GP classifier (scikit-learn)", _scikit_learn, most_rows=1000, is_gp=True),
    "logistic": Contestant("logistic regression", _logistic),
    "boosting": Contestant("HistGradientBoosting", _boosting),
    "catboost": Contestant("CatBoost", _catboost, package="catboost"),
}
