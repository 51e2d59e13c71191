"""Calibration of a fitted estimator on rows that it was not trained on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sodgp.errors import ConfigurationError, InputError
from sodgp.predictive.calibrated import CalibratedDistribution
from sodgp.predictive.calibration import Calibration, Temperature, calibration_of, temperature_of
from sodgp.predictive.classes import ClassDistribution
from sodgp.predictive.contract import Predictive
from sodgp.system.validation import FloatArray, check_targets

if TYPE_CHECKING:
    from sodgp.estimator.base import DeepGPEstimator
    from sodgp.estimator.fitted import Fitted

__all__ = ["calibrate", "calibrated"]

# Scaled rows that agree so far are the same row.
_SAME = 1e-6


def calibrated(found: Predictive, calibration: Calibration | Temperature) -> Predictive:
    """A model's predictive distribution, corrected."""
    if isinstance(calibration, Temperature):
        return cast(ClassDistribution, found).tempered(calibration.power)
    return CalibratedDistribution(found, calibration)


def calibrate(estimator: DeepGPEstimator, X: Any, y: Any) -> Fitted:
    """The fitted state with the calibration of these rows, in the place of an older one.

    Raises
    ------
    ConfigurationError
        The model is of counts.
    InputError
        There are too few rows, they do not fit the model, or it was trained on them.
    """
    from sodgp.estimator.predict import asked, predict_distribution

    rows, options = asked(estimator, X)
    fitted = replace(estimator.fitted_, calibration=None)
    kind = fitted.likelihood.targets
    if kind == "counts":
        raise ConfigurationError(
            f"calibrate is for numbers and classes, and likelihood={fitted.likelihood.name!r} is of counts, whose"
            " levels a smooth function cannot move. Compare likelihoods on rows held out instead (plot_rootogram)."
        )
    if kind == "classes":
        if len(np.shape(y)) > 1 and np.shape(y)[1:] == (1,):
            y = np.asarray(y)[:, 0]
        if len(rows) != len(y):
            raise InputError(f"X has {len(rows)} rows, but y has {len(y)}.")
        _refuse_seen(fitted, rows, None)
        found = predict_distribution(fitted, rows, options, latent=False)
        return replace(fitted, calibration=temperature_of(found, y))
    targets = check_targets(y)
    columns = targets.reshape(len(targets), -1)
    if columns.shape != (len(rows), fitted.columns.n_targets):
        raise InputError(
            f"y must have {len(rows)} rows and {fitted.columns.n_targets} columns, not {columns.shape[0]} and"
            f" {columns.shape[1]}."
        )
    _refuse_seen(fitted, rows, columns)
    found = predict_distribution(fitted, rows, options, latent=False)
    at = columns[:, 0] if fitted.columns.y_is_vector else columns
    return replace(fitted, calibration=calibration_of(found, at))


def _refuse_seen(fitted: Fitted, X: FloatArray, y: FloatArray | None) -> None:
    """InputError where rows of the model, of which it keeps some or all, are among these, or these among them."""
    kept = [
        np.concatenate([each.X_s[0].double().cpu().numpy(), *([] if y is None else [_labels(each)])], axis=1)
        for each in fitted.models
        if len(each.X_s[0])
    ]
    if not kept or len(kept[0]) == 0:
        return
    model_rows = np.concatenate(kept)
    given = fitted.x_scaler.transform(X)
    if y is not None:
        z = y if fitted.transform is None else fitted.transform.forward(y)
        given = np.concatenate([given, fitted.y_scaler.transform(z)], axis=1)
    ours, theirs = set(_keys(model_rows)), _keys(given)
    found = [key in ours for key in theirs]
    n_kept, n_shared = len(ours), len(ours & set(theirs))
    if 2 * sum(found) > len(found) or 2 * n_shared > n_kept:
        row = found.index(True)
        raise InputError(
            f"the model was trained on rows of X: {sum(found)} of {len(found)} are among those that it keeps, the first"
            f" in row {row}. It is too sure of rows that it has seen: calibrate on rows kept apart from training."
        )


def _labels(fitted: Fitted) -> FloatArray:
    labels: FloatArray = fitted.y_s[0].double().cpu().numpy()
    return labels


def _keys(rows: FloatArray) -> list[bytes]:
    """Rows as keys of a set; minus zero is zero."""
    return [row.tobytes() for row in np.round(rows / _SAME) + 0.0]
