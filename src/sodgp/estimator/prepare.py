"""What happens before training: rows held out and scaled, the subset chosen, the model's architecture settled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state

from sodgp.errors import InputError
from sodgp.estimator.checkpoint_plan import seeds_of
from sodgp.estimator.columns import ColumnsOption, encoder_for
from sodgp.estimator.fitted import Columns, Fitted
from sodgp.estimator.lost_signal import warn_of_lost_signal
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.row_weights import with_weights
from sodgp.estimator.targets import described_classes, encoded, labels_and_codes
from sodgp.estimator.units import ScaledRows, Scalers, scaled_rows
from sodgp.inference.contract import Inference
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.likelihoods.dirichlet import Dirichlet
from sodgp.likelihoods.known_noise import KnownNoise
from sodgp.model.architecture import Architecture, linear_weights, zero_weights
from sodgp.selectors.base import selected
from sodgp.system.validation import FloatArray, check_fit_data, check_noise_variance
from sodgp.training.checkpoint.journal import Plan
from sodgp.training.distributed.contract import ALONE, Ranks
from sodgp.training.restart.warm import Start, kept_directions
from sodgp.training.run import FitResult, Settings
from sodgp.training.stacking import Problem

__all__ = ["Data", "Prepared", "checked_data", "prepare", "target_names_in"]


class Data(NamedTuple):
    """What `fit` was given, checked; `weight` [N] and `rows` are those of `sodgp.estimator.row_weights.Given`."""

    X: FloatArray
    y: FloatArray
    columns: Columns
    noise_variance: FloatArray | None = None
    weight: FloatArray | None = None
    rows: NDArray[np.int64] | None = None
    n_left_out: int = 0

    def scaled(
        self,
        config: Configuration,
        likelihood: LikelihoodOptions,
        previous: Fitted | None,
        *,
        seed: int,
        predict_seed: int,
    ) -> ScaledRows:
        """All rows in the units of training, as this likelihood takes them."""
        n_classes = 0 if self.columns.classes is None else len(self.columns.classes)
        targets = encoded(likelihood, self.y, self.noise_variance, n_classes)
        found = scaled_rows(config, self.X, targets, previous, self.weight, seed=seed, predict_seed=predict_seed)
        if self.rows is None:
            return found
        left_out = self.n_left_out
        return replace(found, numbers=self.rows[found.numbers], held_out=self.rows[found.held_out], n_left_out=left_out)


class GivenData(Protocol):
    """The data of a fit: `Data`, or rows of a source."""

    @property
    def columns(self) -> Columns:
        """Columns of X and y."""

    @property
    def noise_variance(self) -> FloatArray | None:
        """Known noise of every row."""

    def scaled(
        self,
        config: Configuration,
        likelihood: LikelihoodOptions,
        previous: Fitted | None,
        *,
        seed: int,
        predict_seed: int,
    ) -> ScaledRows:
        """All rows in the units of training, as this likelihood takes them."""


@dataclass(frozen=True)
class Prepared:
    """One model about to be trained; `rows` and `held_out` number the rows that train, and those that do not."""

    problem: Problem
    settings: Settings
    method: Inference
    likelihood: LikelihoodOptions
    columns: Columns
    scalers: Scalers
    predict_seed: int
    rows: NDArray[np.int64]
    held_out: NDArray[np.int64]
    seed: int | None
    subset_size_reason: str | None
    n_left_out: int = 0
    n_layers_reason: str | None = None

    def fitted(self, result: FitResult) -> Fitted:
        """The state of an estimator after training."""
        chosen, given = self.problem.chosen, self.method.given(self.problem.data)
        return Fitted(
            model=result.model,
            method=self.method,
            likelihood=self.likelihood,
            columns=self.columns,
            X_s=given.X.unsqueeze(0),
            y_s=given.y.unsqueeze(0),
            weight_s=None if given.weight is None else given.weight.unsqueeze(0),
            **self.scalers._asdict(),
            predict_seed=self.predict_seed,
            history=result.history,
            seed=self.seed,
            subset_indices=self.rows[chosen.numpy()] if self.method.uses_subset and chosen is not None else None,
            validation_indices=self.held_out if len(self.held_out) else None,
            n_held_out=len(self.held_out),
            n_left_out=self.n_left_out,
            diagnostics=result.diagnostics,
            subset_size_reason=self.subset_size_reason,
            n_layers_reason=self.n_layers_reason,
        )


def checked_data(
    name: str,
    X: Any,
    y: Any,
    noise_variance: Any = None,
    sample_weight: Any = None,
    *,
    as_classes: bool = False,
    columns: ColumnsOption = "auto",
    previous: Fitted | None = None,
) -> Data:
    """X [N, D] and y [N, P] as numbers, with the names of their columns; `name` of the estimator is for messages.

    Rows of weight zero are left out.

    With `as_classes` y [N, 1] has the places of the labels in ``columns.classes``. `columns` is the estimator's option;
    a fit that continues a `previous` one encodes a table in the same way.
    """
    X, y, noise_variance, weight, rows, n_left_out = with_weights(X, y, noise_variance, sample_weight)
    encoder = encoder_for(columns, X, previous)
    if encoder is not None:
        X = encoder.transform(X)
    classes = None
    if as_classes:
        classes, y_codes = labels_and_codes(y)
    # scikit-learn keeps names on an estimator, and a fit that fails must leave the user's own as it was.
    names = type(name, (MultiOutputMixin, RegressorMixin, BaseEstimator), {})()
    X_raw, y_raw = check_fit_data(names, X, y_codes if as_classes else y)
    y_columns = y_raw.reshape(len(y_raw), -1)
    found = Columns(
        n_inputs=X_raw.shape[1] if encoder is None else encoder.n_features_in_,
        n_targets=y_columns.shape[1],
        y_is_vector=y_raw.ndim == 1,
        inputs=getattr(names, "feature_names_in_", None) if encoder is None else encoder.feature_names_in_,
        targets=target_names_in(y),
        classes=classes,
        class_rows=None if classes is None else np.bincount(y_codes, weight, minlength=len(classes)),
        encoder=encoder,
    )
    warn_of_lost_signal(X, X_raw, found.inputs if encoder is None else encoder.get_feature_names_out(), "X")
    if not as_classes:
        warn_of_lost_signal(y, y_columns, found.targets, "y")
    known = None if noise_variance is None else check_noise_variance(noise_variance, y_columns.shape)
    return Data(X_raw, y_columns, found, known, weight, rows, n_left_out)


def prepare(
    config: Configuration,
    data: GivenData,
    *,
    seed: int | None,
    previous: Fitted | None,
    plan: Plan | None,
    ranks: Ranks = ALONE,
) -> Prepared:
    """Scale, choose the subset, decide what depends on the data: everything before training.

    `seed` takes the place of the configuration's `random_state`; `previous` is the fit that is continued, and `plan`
    says where checkpoints go. Many processes prepare the same, each for itself; the first one's callbacks are called.
    """
    if previous is not None:
        _check_continues(previous.columns, data.columns)
        if config.n_layers is None:
            # Other numbers of rows ask for no other depth.
            config = replace(config, n_layers=len(previous.model.widths))
    random_state = config.random_state if seed is None else seed
    seeds: list[int] = check_random_state(random_state).randint(2**31 - 1, size=3).tolist()
    if plan is not None:
        seeds = seeds_of(plan, random_state) or seeds
    seeds = ranks.first(partial(list, seeds))
    subset_seed, fit_seed, predict_seed = seeds
    n_classes = 0 if data.columns.classes is None else len(data.columns.classes)
    method, likelihood = config.method, config.likelihood_for(n_classes)
    scaled = data.scaled(config, likelihood, previous, seed=fit_seed + 5, predict_seed=predict_seed)
    X, y = scaled.X, scaled.y
    if data.noise_variance is not None:
        likelihood = KnownNoise(**likelihood.get_params())
    method = method.settled(
        n_rows=len(X),
        n_layers=config.n_layers,
        kernel=config.kernel,
        likelihood=likelihood,
        previous=None if previous is None else previous.model,
    )
    if ranks.count > 1:
        method.sums_over_rows()  # raises an error if it cannot be divided
    scaled.check(method)
    automatic = config.automatic_size(method, scaled.seen_by(None, 0)[0])
    size = config.subset_rows(len(X)) if automatic is None else automatic.size
    if previous is not None and not method.uses_subset and config.subset_size is None:
        size = previous.subset_size
    widths = config.hidden_widths(method, *X.shape)
    chosen = torch.empty(0, dtype=torch.int64)
    if method.uses_subset:
        generator = torch.Generator().manual_seed(subset_seed)
        chosen = selected(config.selector, *scaled.seen_by(config.selector, size), size, generator, scaled.weight)
    is_linear = config.hidden_mean == "linear"
    weights = linear_weights(scaled.directions, widths) if is_linear else zero_weights(X, widths)
    n_inputs, n_outputs, target_mean = X.shape[1], y.shape[1], scaled.mean_target
    training_set = scaled.split(chosen, config.dtype)
    if scaled.noise is not None:
        mean, relative = (values.to(config.dtype) for values in scaled.noise)
        likelihood = cast("KnownNoise | Dirichlet", likelihood).with_noise(mean, relative[chosen])
    start = None
    if previous is not None:
        start = Start(previous.model, previous.subset)
        weights = kept_directions(previous.model, weights)
    architecture = Architecture(
        input_dim=n_inputs,
        n_outputs=n_outputs,
        size=size,
        mean_weights=weights,
        kernel=config.kernel,
        likelihood=likelihood,
        initialization=config.initialization,
        jitter=config.jitter,
        dtype=config.dtype,
        target_mean=target_mean,
    )
    settings = Settings(
        max_iter=config.steps_of(method, len(scaled.numbers)),
        batch_rows=config.batch_rows(method, len(chosen), training_set.n_rest),
        n_samples=config.n_samples,
        learning_rate=method.usual_rate(len(architecture.widths))
        if config.learning_rate is None
        else config.learning_rate,
        schedule=config.schedule,
        device=config.device,
        callbacks=config.callbacks if ranks.rank == 0 else (),
        compile=config.compile,
        max_seconds=config.max_seconds,
        checkpoint=None if plan is None else replace(plan, seeds=seeds),
        held_out=scaled.held,
        ranks=ranks,
    )
    return Prepared(
        problem=Problem(architecture, training_set, fit_seed, chosen, start),
        settings=settings,
        method=method,
        likelihood=likelihood,
        columns=data.columns,
        scalers=scaled.scalers,
        predict_seed=predict_seed,
        rows=scaled.numbers,
        held_out=scaled.held_out,
        n_left_out=scaled.n_left_out,
        seed=seed,
        subset_size_reason=None if automatic is None else automatic.reason,
    )


def _check_continues(before: Columns, now: Columns) -> None:
    """Raise InputError unless data with these columns can continue a fit with those before."""
    if before.classes is not None and now.classes is not None and not np.array_equal(before.classes, now.classes):
        raise InputError(
            f"warm_start continues a fit with {described_classes(before.classes)}; these data have"
            f" {described_classes(now.classes)}. Use warm_start=False for other classes."
        )
    _check_same_columns(before.inputs, now.inputs)
    if now.n_targets > 1:
        _check_same_columns(before.targets, now.targets, " of y")
    if (before.n_inputs, before.n_targets) != (now.n_inputs, now.n_targets):
        raise InputError(
            f"warm_start continues a fit with {before.n_inputs} columns of X and {before.n_targets} of y; these data"
            f" have {now.n_inputs} and {now.n_targets}. Use warm_start=False for other data."
        )


def target_names_in(y: Any) -> NDArray[np.object_] | None:
    """Names of the columns of y, where all are text: of a data frame, or that of a series."""
    names = list(y.columns) if hasattr(y, "columns") else [getattr(y, "name", None)]
    is_named = all(isinstance(name, str) and name for name in names)
    return np.array(names, dtype=object) if is_named else None


def _check_same_columns(before: NDArray[np.object_] | None, now: NDArray[np.object_] | None, of: str = "") -> None:
    """Raise InputError where both fits know the names of their columns, and these are others or in another order."""
    if before is not None and now is not None and list(before) != list(now):
        raise InputError(
            f"warm_start continues a fit with the columns{of} {', '.join(before)}; these data have {', '.join(now)}."
            " Give them in that order, or use warm_start=False for other data."
        )
