"""The course of a fit: scores on the training and the test part at intervals. For curves; nothing is chosen by them."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from sklearn.base import clone

from benchmarks.paper.splits import Split
from sodgp import DeepGPRegressor
from sodgp.errors import SodgpError
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.options.fields import method_of
from sodgp.estimator.prepare import checked_data, prepare
from sodgp.predictive import metrics
from sodgp.predictive.mixture import GaussianMixture
from sodgp.training.history import History, TrainingState
from sodgp.training.run import FitResult
from sodgp.training.stacking import unstack

COLUMNS = ("train_nlpp", "train_rmse", "test_nlpp", "test_rmse")
LOGGED_EVERY = 50
TRAIN_ROWS, TRAIN_SAMPLES = 500, 10

Predict = Callable[[Any, int | None], GaussianMixture]


class Curve:
    """Scores of one split at intervals.

    Parameters
    ----------
    split : Split
    """

    def __init__(self, split: Split) -> None:
        self._train = split.X_train[:TRAIN_ROWS], split.y_train[:TRAIN_ROWS]
        self._test = split.X_test, split.y_test
        # By iteration: one that is run again after a roll-back replaces its own entry.
        self._entries: dict[int, dict[str, float | None]] = {}

    def record(self, iteration: int, predict: Predict | None) -> None:
        """Add an entry.

        Parameters
        ----------
        iteration : int
        predict : function (X, number of samples or None for the method's own) -> GaussianMixture, or None
            None where the method cannot predict yet.
        """
        entry: dict[str, float | None] = dict.fromkeys(COLUMNS)
        if predict is not None:
            for part, (X, y), count in (("train", self._train, TRAIN_SAMPLES), ("test", self._test, None)):
                try:
                    dist = predict(X, count)
                    entry[f"{part}_nlpp"] = finite(metrics.nlpp(y, dist))
                    entry[f"{part}_rmse"] = finite(metrics.rmse(y, dist))
                except SodgpError:
                    # Parameters on their way may be beyond prediction; the fit itself has its own safeguards.
                    continue
        self._entries[iteration] = entry

    def state(self) -> list[tuple[int, dict[str, float | None]]]:
        """The entries, for a checkpoint."""
        return list(self._entries.items())

    def restore(self, state: Iterable[tuple[int, dict[str, float | None]]]) -> None:
        """From a checkpoint."""
        self._entries = dict(state)

    def as_dict(self, bounds: dict[int, float]) -> dict[str, Any]:
        """Columns for the cell's file; `bounds` holds the bound by iteration."""
        iterations = sorted(self._entries)
        columns: dict[str, Any] = {"iteration": iterations, "bound": [finite(bounds.get(i)) for i in iterations]}
        for name in COLUMNS:
            columns[name] = [self._entries[i][name] for i in iterations]
        # Eight digits are plenty for a curve, and halve the file.
        return {
            name: [value if value is None or name == "iteration" else float(f"{value:.8g}") for value in values]
            for name, values in columns.items()
        }


def finite(value: float | None) -> float | None:
    """The number, or None where JSON has none."""
    return float(value) if value is not None and math.isfinite(value) else None


def is_recorded(iteration: int, every: int, last: int) -> bool:
    """Whether the curves have an entry there: at the first, every so many, and the last iteration."""
    return every > 0 and (iteration % every == 0 or iteration in (1, last))


class Recorder:
    """A callback that fills the curves of one or several estimators that train in one program, and times them.

    Parameters
    ----------
    estimators : sequence of DeepGPRegressor
        Unfitted; the recorder works on copies.
    splits : sequence of Split
    every : int
        Iterations between entries.

    Attributes
    ----------
    curves : list of Curve
    """

    def __init__(self, estimators: Sequence[DeepGPRegressor], splits: Sequence[Split], every: int) -> None:
        self.curves = [Curve(split) for split in splits]
        self.every = every
        # A sampler's model predicts from posterior draws, which it does not have before the end.
        self._can_predict = method_of(estimators[0].inference).sampler is None
        self._probes: list[DeepGPRegressor] = []
        if every and self._can_predict:
            self._probes = [_probe(estimator, split) for estimator, split in zip(estimators, splits, strict=True)]
        # Seconds until the last checkpoint of a run before this one, and seconds spent here.
        self._before, self._own, self._began = 0.0, 0.0, time.perf_counter()

    @property
    def seconds(self) -> float:
        """From the making of the recorder until now, without its own; with those of a run that this one continues."""
        return self._before + time.perf_counter() - self._began - self._own

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"curves": [curve.state() for curve in self.curves], "seconds": self.seconds}

    def restore(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint."""
        self._before = state["seconds"]
        for curve, entries in zip(self.curves, state["curves"], strict=True):
            curve.restore(entries)

    def __call__(self, state: TrainingState) -> None:
        """Add an entry to every curve where one is due."""
        if not is_recorded(state.iteration, self.every, state.max_iter):
            return
        began = time.perf_counter()
        if len(self._probes) == 1:
            self._probes[0].fitted_ = replace(self._probes[0].fitted_, model=state.model)
        elif self._probes:
            unstack(state.model, [probe.model_ for probe in self._probes])
        for index, curve in enumerate(self.curves):
            curve.record(state.iteration, _predictor(self._probes[index]) if self._probes else None)
        self._own += time.perf_counter() - began


def _probe(estimator: DeepGPRegressor, split: Split) -> DeepGPRegressor:
    """A copy of the estimator with its scaling and subset, and a model of its own to copy parameters into."""
    probe = clone(estimator).set_params(callbacks=None, checkpoint=None, verbose=0)
    data = checked_data(type(probe).__name__, split.X_train, split.y_train)
    prepared = prepare(Configuration.from_estimator(probe), data, seed=None, previous=None, plan=None)
    problem, device = prepared.problem, prepared.settings.device
    model = prepared.method.build(problem.architecture, problem.data, torch.Generator().manual_seed(0))
    probe.fitted_ = prepared.fitted(FitResult(model.to(device).requires_grad_(False).eval(), History()))
    return probe


def _predictor(probe: DeepGPRegressor) -> Predict:
    def predict(X: Any, n_samples: int | None) -> GaussianMixture:
        view = copy.copy(probe)
        view.n_predict_samples = n_samples or probe.n_predict_samples
        return view.predict_distribution(X)

    return predict
