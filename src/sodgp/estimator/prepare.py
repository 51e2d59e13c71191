"""What happens before training: options checked, rows held out and scaled, the subset apart from the rest."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from torch import Tensor

from sodgp.errors import ConfigurationError, InputError
from sodgp.estimator.checkpoint_plan import seeds_of
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.options.rules import may_separate
from sodgp.estimator.predict import Fitted
from sodgp.inference.contract import TrainingSet, rest_of
from sodgp.inference.sod_transfer import Subset
from sodgp.kernels.make import KernelSpec
from sodgp.layers.floors import NOISE_FLOOR
from sodgp.layers.means import linear_weights, zero_weights
from sodgp.model.architecture import Architecture
from sodgp.selectors import get_selector
from sodgp.system.arrays import FloatArray
from sodgp.system.validation import check_fit_data, check_flag, check_noise_variance
from sodgp.training.checkpoint.journal import Plan
from sodgp.training.held_out import HeldOut
from sodgp.training.restart.warm import Start, kept_directions
from sodgp.training.run import Settings
from sodgp.training.stacking import Problem

# What only some fits leave behind: a new fit starts without them.
OPTIONAL_ATTRIBUTES = (
    "validation_indices_",
    "restart_bounds_",
    "subset_size_reason_",
    "subset_indices_",
    "diagnostics_",
    "members_",
    "target_names_",
)


class KnownNoise(NamedTuple):
    """Known noise variances in scaled units: their mean [P], and that mean over each of them [N, P]."""

    mean: Tensor
    precision: Tensor


def scaler_of(values: FloatArray, name: str) -> StandardScaler:
    """To zero mean and unit variance; constant columns become zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaler = StandardScaler().fit(values)
        _refit_apart(scaler, values)
    if not np.isfinite(scaler.var_).all():
        over = np.flatnonzero(~np.isfinite(scaler.var_))
        largest = np.abs(values[:, over]).max()
        raise InputError(
            f"the variance of column {', '.join(map(str, over))} of {name} overflows, with values up to {largest:.3g}:"
            " correct them, or give smaller units."
        )
    # A column of X whose spread is lost is a constant one; targets would be predicted in units of one.
    lost = (scaler.var_ < np.finfo(np.float64).tiny) & (np.ptp(values, axis=0) > 0.0)
    if name == "y" and lost.any():
        columns = ", ".join(map(str, np.flatnonzero(lost)))
        raise InputError(f"the variance of column {columns} of y underflows: give larger units.")
    return scaler


def _refit_apart(scaler: StandardScaler, values: FloatArray) -> None:
    """Mean and scale of columns that scikit-learn takes for constant, since their spread is small beside their mean.

    Without the offset they have a spread, if values differ at all.
    """
    columns = np.flatnonzero((scaler.scale_ == 1.0) & (np.ptp(values, axis=0) > 0.0))
    if not len(columns):
        return
    offset = values[0, columns]
    apart = StandardScaler().fit(values[:, columns] - offset)
    scaler.mean_[columns], scaler.var_[columns] = apart.mean_ + offset, apart.var_
    scaler.scale_[columns] = apart.scale_


def target_names_in(y: Any) -> NDArray[np.object_] | None:
    """Names of the columns of y, where all are text: of a data frame, or that of a series."""
    names = list(y.columns) if hasattr(y, "columns") else [getattr(y, "name", None)]
    is_named = all(isinstance(name, str) and name for name in names)
    return np.array(names, dtype=object) if is_named else None


def _check_same_columns(before: Any, now: Any, of: str = "") -> None:
    """Raise InputError where both fits know the names of their columns, and these are others or in another order."""
    if before is not None and now is not None and list(before) != list(now):
        raise InputError(
            f"warm_start continues a fit with the columns{of} {', '.join(before)}; these data have {', '.join(now)}."
            " Give them in that order, or use warm_start=False for other data."
        )


def with_rows(scaler: StandardScaler, rows: int) -> StandardScaler:
    """The same scaling, for a fit with another number of rows: model files count rows by it."""
    scaler = copy.copy(scaler)
    scaler.n_samples_seen_ = np.int64(rows)
    return scaler


def held_out_rows(fraction: float | None, n_rows: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on and rows to hold out, each in their own order."""
    if fraction is None:
        return np.arange(n_rows), np.arange(0)
    count = max(1, round(fraction * n_rows))
    if n_rows - count < 2:
        raise InputError(
            f"validation_fraction={fraction} leaves {n_rows - count} of {n_rows} rows to train on; use a smaller one."
        )
    order = torch.randperm(n_rows, generator=torch.Generator().manual_seed(seed)).numpy()
    return np.sort(order[count:]), np.sort(order[:count])


def split(X: Tensor, y: Tensor, chosen: Tensor, dtype: torch.dtype, noise: KnownNoise | None) -> TrainingSet:
    """The chosen rows as the subset, all others as the rest."""
    rest = rest_of(len(X), chosen)
    precision = None if noise is None else noise.precision[rest].to(dtype)
    X_s, y_s, X_r, y_r = (t.to(dtype) for t in (X[chosen], y[chosen], X[rest], y[rest]))
    return TrainingSet(X_s, y_s, X_r, y_r, precision)


class Preparation(Fitted):
    """What `DeepGPRegressor` does with its options and data before it trains."""

    kernel: KernelSpec
    subset: Any
    subset_size: Any
    random_state: Any
    warm_start: bool
    compile: bool

    def _prepare(
        self, X: Any, y: Any, noise_variance: Any = None, *, plan: Plan | None = None
    ) -> tuple[Problem, Settings]:
        """Check options and data, scale, choose the subset: everything before training."""
        config = Configuration.from_estimator(self)
        start = Start(self.model_, Subset(self._X_s[0], self._y_s[0])) if self._begins_warm else None
        targets = getattr(self, "target_names_", None)
        for name in OPTIONAL_ATTRIBUTES:
            self.__dict__.pop(name, None)
        X_all, y_all = self._taken(X, y, is_warm=start is not None)
        if start is not None and y_all.shape[1] > 1:
            _check_same_columns(targets, getattr(self, "target_names_", None), " of y")
        drawn = check_random_state(self.random_state).randint(2**31 - 1, size=3).tolist()
        seeds = seeds_of(plan, self.random_state) or drawn
        self._predict_seed = int(seeds[2])
        rows, held = held_out_rows(config.validation_fraction, len(X_all), seeds[1] + 5)
        self._n_held_out = len(held)
        if len(held):
            if noise_variance is not None:
                raise ConfigurationError("validation_fraction and noise_variance do not go together; leave one out.")
            self.validation_indices_ = held
        X_t, y_t = self._scaled(X_all[rows], y_all[rows], is_warm=start is not None)
        method = config.method(len(X_t))
        size = self._subset_rows(config, X_t)
        if start is not None and not method.uses_subset and self.subset_size is None:
            size = start.model.layers[0].q_mean.shape[-2]
        chosen = torch.empty(0, dtype=torch.int64)
        if method.uses_subset:
            generator = torch.Generator().manual_seed(int(seeds[0]))
            chosen = get_selector(self.subset).select(X_t, y_t, size, None, generator)
            self.subset_indices_ = rows[chosen.numpy()]
        known = self._known_noise(config, noise_variance, tuple(y_t.shape))
        data = split(X_t, y_t, chosen, config.dtype, known)
        architecture = self._architecture(config, start, X_t, chosen, known, size=size, n_outputs=y_t.shape[1])
        settings = Settings(
            max_iter=config.max_iter,
            batch_rows=config.batch_rows(len(chosen), data.n_rest),
            n_samples=config.n_samples,
            learning_rate=config.learning_rate,
            schedule=config.schedule,
            device=config.device,
            callbacks=config.callbacks,
            compile=check_flag("compile", self.compile),
            reselection=config.reselection(self.subset),
            max_seconds=config.max_seconds,
            checkpoint=None if plan is None else replace(plan, seeds=seeds),
            held_out=self._judged_by(X_all[held], y_all[held], config.dtype) if len(held) else None,
        )
        self._method = method
        self._X_s, self._y_s = data.X_s.unsqueeze(0), data.y_s.unsqueeze(0)
        return Problem(architecture, data, int(seeds[1]), chosen, start), settings

    def _taken(self, X: Any, y: Any, *, is_warm: bool) -> tuple[FloatArray, FloatArray]:
        """X [N, D] and y [N, P] as numbers, checked; what they are called is kept."""
        columns = getattr(self, "feature_names_in_", None)
        X_raw, y_raw = check_fit_data(self, X, y)
        if is_warm:
            _check_same_columns(columns, getattr(self, "feature_names_in_", None))
        names = target_names_in(y)
        if names is not None:
            self.target_names_ = names
        self._y_is_vector = y_raw.ndim == 1
        return X_raw, y_raw.reshape(len(y_raw), -1)

    def _architecture(
        self,
        config: Configuration,
        start: Start | None,
        X: Tensor,
        chosen: Tensor,
        known: KnownNoise | None,
        *,
        size: int,
        n_outputs: int,
    ) -> Architecture:
        """What the options say about the model of these rows, or about that of the fit that is continued."""
        separates = config.separates(len(X), self.kernel)
        if start is not None and config.separate_kernels is None:
            # The kernels that there are; where the options forbid them, the models do not fit, and that is said.
            separates = start.model.has_separate_kernels and may_separate(vars(config))
        widths = config.hidden_widths(X.shape[1])
        weights = (linear_weights if config.hidden_mean == "linear" else zero_weights)(X, widths)
        if start is not None:
            weights = kept_directions(start.model, weights)
        return Architecture(
            input_dim=X.shape[1],
            n_outputs=n_outputs,
            size=size,
            mean_weights=weights,
            kernel=self.kernel,
            parameterization=config.parameterization,
            tie_label_noise=config.tie_label_noise,
            separate_kernels=separates,
            initialization=config.initialization,
            jitter=config.jitter,
            dtype=config.dtype,
            known_noise=None if known is None else known.mean.to(config.dtype),
            label_precision=None if known is None else known.precision[chosen].to(config.dtype),
        )

    def _scaled(self, X: FloatArray, y: FloatArray, *, is_warm: bool) -> tuple[Tensor, Tensor]:
        """X [N, D] and y [N, P] in the units of training: those of these rows, or of the fit that is continued."""
        # What reports compare with: the rows of this fit, whatever its units are.
        self._x_seen, self._y_seen = scaler_of(X, "X"), scaler_of(y, "y")
        if not is_warm:
            self._x_scaler, self._y_scaler = self._x_seen, self._y_seen
        elif (X.shape[1], y.shape[1]) != (len(self._x_scaler.scale_), len(self._y_scaler.scale_)):
            raise InputError(
                f"warm_start continues a fit with {len(self._x_scaler.scale_)} columns of X and"
                f" {len(self._y_scaler.scale_)} of y; these data have {X.shape[1]} and {y.shape[1]}."
                " Use warm_start=False for other data."
            )
        else:
            self._x_scaler, self._y_scaler = (with_rows(s, len(X)) for s in (self._x_scaler, self._y_scaler))
        scaled = self._x_scaler.transform(X), self._y_scaler.transform(y)
        X_t, y_t = (torch.as_tensor(values, dtype=torch.float64) for values in scaled)
        return X_t, y_t

    def _subset_rows(self, config: Configuration, X: Tensor) -> int:
        """Rows of the subset; of an automatic size the reason is kept."""
        automatic = config.automatic_size(X)
        if automatic is None:
            return config.subset_rows(len(X))
        self.subset_size_reason_ = automatic.reason
        return automatic.size

    def _judged_by(self, X: FloatArray, y: FloatArray, dtype: torch.dtype) -> HeldOut:
        """Held-out rows in the units of training."""
        X_t = torch.as_tensor(self._x_scaler.transform(X), dtype=dtype)
        y_t = torch.as_tensor(self._y_scaler.transform(y), dtype=dtype)
        log_scale = float(np.log(self._y_scaler.scale_).sum())
        return HeldOut(X_t, y_t, log_scale, seed=self._predict_seed, n_samples=self.n_predict_samples)

    def _known_noise(self, config: Configuration, variance: Any, shape: tuple[int, ...]) -> KnownNoise | None:
        """Noise variances in scaled units, where they were given."""
        if variance is None:
            return None
        config.check_known_noise()
        scaled = check_noise_variance(variance, shape) / self._y_scaler.scale_**2
        values = torch.as_tensor(scaled).clamp_min(NOISE_FLOOR)
        return KnownNoise(values.mean(0), values.mean(0) / values)

    @property
    def _begins_warm(self) -> bool:
        return self.warm_start and hasattr(self, "model_")
