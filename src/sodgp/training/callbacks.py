"""Callbacks, which watch a fit and may end it. Give them to `sodgp.DeepGPRegressor` as ``callbacks=[...]``.

A callback is any function of a `sodgp.training.history.TrainingState`; it is called every 50 iterations, at the
first and the last, and ends training by returning True. An object may have more: ``open()`` and ``close()`` are called
when training begins and when it is over, however it ended; ``state()`` (numbers, text, lists and dicts) is written to
checkpoints, and ``restore(state)``, called after ``open``, makes a resumed fit end as an uninterrupted one.

Callbacks are code, so model files do not hold them. Cloning an estimator clones them too.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sodgp.errors import ConfigurationError
from sodgp.system.validation import check_choice, check_integer
from sodgp.training.history import TrainingState

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["EarlyStopping", "MLflow", "TensorBoard"]


class EarlyStopping:
    """Ends training when it no longer improves.

    Parameters
    ----------
    monitor : {"bound", "validation"}, default="bound"
        The training objective, or the log predictive density of the rows that the estimator's `validation_fraction`
        holds out. The bound does not show overfitting, but needs no rows. Both suit a constant learning rate: a cosine
        that is stopped before its fall ends worse than it could have.
    patience : int, default=500
        Iterations without an improvement after which training ends. The model is that of the last iteration.
    min_delta : float, default=0.0
        The least improvement that counts, in nats of the whole bound or of one held-out row.
    smoothing : float, default=0.5
        Weight of the past in the exponential moving average that is compared, since the bound is a Monte Carlo
        estimate; 0 compares the values themselves.

    Attributes
    ----------
    best : float or None
        The best smoothed value of the last fit, and its `best_iteration`.

    Examples
    --------
    >>> import numpy as np
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> stop = EarlyStopping(patience=50, min_delta=1e6)  # no improvement is good enough
    >>> model = DeepGPRegressor(n_layers=1, max_iter=500, random_state=0, callbacks=[stop])
    >>> model.fit(X, np.sign(X[:, 0])).n_iter_, model.history_.stopped
    (100, 'callback')
    """

    def __init__(
        self, monitor: str = "bound", *, patience: int = 500, min_delta: float = 0.0, smoothing: float = 0.5
    ) -> None:
        check_choice("monitor", monitor, ("bound", "validation"))
        if not 0.0 <= smoothing < 1.0:
            raise ConfigurationError(f"smoothing must be at least 0 and below 1, not {smoothing!r}.")
        if not min_delta >= 0.0:
            raise ConfigurationError(f"min_delta must be at least 0, not {min_delta!r}.")
        self.monitor, self.patience = monitor, check_integer("patience", patience, minimum=1)
        self.min_delta, self.smoothing = float(min_delta), float(smoothing)
        self.open()

    def open(self) -> None:
        """Forget the last fit."""
        self.best: float | None = None
        self.best_iteration = 0
        self._average: float | None = None

    def __call__(self, state: TrainingState) -> bool:
        """Whether nothing has improved for too long."""
        value = state.bound if self.monitor == "bound" else state.validation
        if value is None:
            raise ConfigurationError(
                "EarlyStopping('validation') needs rows to look at: set validation_fraction, such as 0.1."
            )
        old = value if self._average is None else self._average
        self._average = self.smoothing * old + (1.0 - self.smoothing) * value
        if self.best is None or self._average > self.best + self.min_delta:
            self.best, self.best_iteration = self._average, state.iteration
        return state.iteration - self.best_iteration >= self.patience

    def state(self) -> dict[str, float | None]:
        """Numbers for a checkpoint."""
        return {"best": self.best, "best_iteration": self.best_iteration, "average": self._average}

    def restore(self, state: Mapping[str, float | None]) -> None:
        """Take the numbers back from a checkpoint."""
        self.best, self._average = state["best"], state["average"]
        self.best_iteration = int(state["best_iteration"] or 0)


class TensorBoard:
    """Writes bound, terms, learning rate and validation score for TensorBoard.

    It needs the package ``tensorboard``: ``pip install sodgp[tensorboard]``.

    Each fit needs its own folder `log_dir`.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> model = DeepGPRegressor(callbacks=[TensorBoard("runs/first")])
    >>> # model.fit(X, y), and in a terminal: tensorboard --logdir runs
    """

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        self.log_dir = os.fspath(log_dir)
        self._writer: SummaryWriter | None = None

    def open(self) -> None:
        """Start to write; ConfigurationError if the package is missing."""
        self._writer = _needed("torch.utils.tensorboard", "tensorboard").SummaryWriter(self.log_dir)

    def __call__(self, state: TrainingState) -> None:
        """Write the state of training."""
        assert self._writer is not None  # the training loop has called open
        for name, value in _metrics(state).items():
            self._writer.add_scalar(name, value, state.iteration)

    def close(self) -> None:
        """Write the rest and close the file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


class MLflow:
    """Logs bound, terms, learning rate and validation score to MLflow.

    It needs the package ``mlflow``: ``pip install sodgp[mlflow]``. An active run is used and left open; else one is
    started, and ended with training. A fit that is resumed from a checkpoint continues its run.

    The names are MLflow's; `params`, such as ``model.get_params()``, are logged once.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> options = {"n_layers": 3}
    >>> model = DeepGPRegressor(**options, callbacks=[MLflow(run_name="deeper", params=options)])  # model.fit(X, y)
    """

    def __init__(
        self, *, run_name: str | None = None, tracking_uri: str | None = None, params: Mapping[str, Any] | None = None
    ) -> None:
        self.run_name, self.tracking_uri, self.params = run_name, tracking_uri, params
        self._run_id: str | None = None
        self._is_begun = self._is_mine = False

    def open(self) -> None:
        """Look for the package; ConfigurationError if it is missing."""
        _needed("mlflow", "mlflow")
        self._run_id, self._is_begun, self._is_mine = None, False, False

    def __call__(self, state: TrainingState) -> None:
        """Log the state of training."""
        mlflow = _needed("mlflow", "mlflow")
        if not self._is_begun:
            self._begin(mlflow)
        mlflow.log_metrics(_metrics(state), step=state.iteration)

    def close(self) -> None:
        """End the run, if it was started here."""
        if self._is_mine:
            _needed("mlflow", "mlflow").end_run()
        self._is_begun = self._is_mine = False

    def state(self) -> dict[str, str | None]:
        """The run, for a checkpoint."""
        return {"run_id": self._run_id}

    def restore(self, state: Mapping[str, str | None]) -> None:
        """Continue the run of a checkpoint."""
        self._run_id = state["run_id"]

    def _begin(self, mlflow: ModuleType) -> None:
        if self.tracking_uri is not None:
            mlflow.set_tracking_uri(self.tracking_uri)
        run = mlflow.active_run()
        is_new = run is None and self._run_id is None
        if run is None:
            run = mlflow.start_run(run_id=self._run_id, run_name=self.run_name)
            self._is_mine = True
        self._run_id, self._is_begun = run.info.run_id, True
        if self.params and (is_new or not self._is_mine):
            mlflow.log_params(dict(self.params))


def _metrics(state: TrainingState) -> dict[str, float]:
    metrics = {"bound": state.bound, "learning_rate": state.learning_rate, "seconds": state.seconds}
    if state.validation is not None:
        metrics["validation"] = state.validation
    return metrics | {f"terms/{name}": value for name, value in state.terms.items()}


def _needed(module: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"this callback needs the package {extra}, which is not installed: pip install 'sodgp[{extra}]'."
        ) from error
