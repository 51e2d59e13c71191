"""Who is compared: our efforts, today's and those before all labels were in q_hat, and what one would use instead."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from benchmarks.paper.peers import fit_exact, fit_ngboost
from benchmarks.paper.splits import Split
from benchmarks.time_to_accuracy.clock import Clock
from benchmarks.time_to_accuracy.gpytorch_runs import deep_gp, sgpr, svgp
from sodgp import DeepGPRegressor, SoD
from sodgp.estimator.options.fields import EFFORTS
from sodgp.inference.sod import MANY_ROWS
from sodgp.predictive.mixture import GaussianMixture

__all__ = ["CONTESTANTS", "Contestant", "Predict"]

Predict = Callable[[Any], GaussianMixture]
# Takes the rows, the options, a seed, the clock and the budgets. Yields a prediction whenever a budget is used up, or
# one at the end of a fit that has no budgets.
Run = Callable[[Split, dict[str, Any], int, Clock, Sequence[float]], Iterator[Predict]]

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Contestant:
    """One way to fit.

    Parameters
    ----------
    label : str
    run : function
    options : dict
        They stand in every result: a result of other options is run again.
    package : str or None
        That it needs and sodgp does not.
    most_rows : int or None
        It is not run with more.
    has_budgets : bool
        Whether one run is scored at every budget; otherwise a fit takes the time it takes.
    """

    label: str
    run: Run
    options: dict[str, Any] = field(default_factory=dict)
    package: str | None = None
    most_rows: int | None = None
    has_budgets: bool = False

    def refusal(self, n_rows: int) -> str | None:
        """Why it is not run on so many rows; None where it is."""
        if self.package is not None and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed"
        if self.most_rows is not None and n_rows > self.most_rows:
            return f"more than {self.most_rows:,} rows"
        return None

    def warm_up(self) -> None:
        """Import what a first fit imports: that is no part of a fit's time."""
        X = np.linspace(-1.0, 1.0, 12)[:, None]
        DeepGPRegressor(max_iter=1, random_state=0, verbose=0).fit(X, X[:, 0]).predict_distribution(X)
        if self.package is not None:
            importlib.import_module(self.package)


def _ours(
    split: Split, options: dict[str, Any], seed: int, clock: Clock, budgets: Sequence[float]
) -> Iterator[Predict]:
    method = SoD()
    if options["labels"] == "subset":
        method = SoD(objective="predictive" if len(split.y_train) >= MANY_ROWS else "bound")
    model = DeepGPRegressor(
        inference=method, effort=options["effort"], random_state=seed, device="cpu", n_threads=1, verbose=0
    )
    yield model.fit(split.X_train, split.y_train).predict_distribution


def _exact(
    split: Split, options: dict[str, Any], seed: int, clock: Clock, budgets: Sequence[float]
) -> Iterator[Predict]:
    yield fit_exact(split, options, seed, _CPU, 0, lambda *_: None).predict


def _ngboost(
    split: Split, options: dict[str, Any], seed: int, clock: Clock, budgets: Sequence[float]
) -> Iterator[Predict]:
    yield fit_ngboost(split, options, seed, _CPU, 0, lambda *_: None).predict


def _catboost(
    split: Split, options: dict[str, Any], seed: int, clock: Clock, budgets: Sequence[float]
) -> Iterator[Predict]:
    """CatBoost with a normal distribution for each row, else its defaults."""
    regressor = importlib.import_module("catboost").CatBoostRegressor
    model = regressor(
        loss_function="RMSEWithUncertainty",
        iterations=options["iterations"],
        random_seed=seed,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    )
    model.fit(split.X_train, split.y_train)

    def predict(X: Any) -> GaussianMixture:
        mean, variance = np.asarray(model.predict(X)).T
        return GaussianMixture(mean[None].copy(), variance[None].copy())

    yield predict


def _effort(name: str, labels: str) -> Contestant:
    label = name if labels == "default" else f"{name}, labels of the subset"
    return Contestant(label, _ours, {"effort": name, "labels": labels, **asdict(EFFORTS[name])})


CONTESTANTS: dict[str, Contestant] = {
    "quick": _effort("quick", "default"),
    "standard": _effort("standard", "default"),
    "thorough": _effort("thorough", "default"),
    "quick-before": _effort("quick", "subset"),
    "standard-before": _effort("standard", "subset"),
    "exact": Contestant("exact GP (scikit-learn)", _exact, {"restarts": 0}, most_rows=5000),
    "sgpr": Contestant("SGPR (GPyTorch)", sgpr, {"inducing": 200, "learning_rate": 0.05}, has_budgets=True),
    "svgp": Contestant(
        "SVGP (GPyTorch)", svgp, {"inducing": 200, "learning_rate": 0.01, "batch_size": 1024}, has_budgets=True
    ),
    "deep": Contestant(
        "deep GP (GPyTorch)",
        deep_gp,
        {"inducing": 128, "learning_rate": 0.01, "batch_size": 1024, "n_layers": 2, "n_samples": 10, "n_predict": 50},
        has_budgets=True,
    ),
    "ngboost": Contestant("NGBoost", _ngboost, {"estimators": 500}, package="ngboost"),
    "catboost": Contestant("CatBoost", _catboost, {"iterations": 1000}, package="catboost"),
}
# What a run without --contestants has: the others take long.
USUAL = tuple(name for name in CONTESTANTS if name not in ("thorough", "deep"))
