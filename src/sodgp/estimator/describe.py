"""What a fitted estimator is, as plain numbers and text: for ``sodgp info``, ``sodgp fit`` and reports."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sodgp.estimator.files.record_fields import encode_parameters
from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.estimator.several import copy_of, models_of
from sodgp.selectors import SELECTORS


def feature_names(model: DeepGPRegressor) -> list[str]:
    """Names of the inputs; ``x0``, ``x1``, ... where the model was fitted without names."""
    names = getattr(model, "feature_names_in_", None)
    return [f"x{i}" for i in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def target_names(model: DeepGPRegressor) -> list[str]:
    """Names of the targets; ``y``, or ``y0``, ``y1``, ..., where the model was fitted without names."""
    names = getattr(model, "target_names_", None)
    if names is not None:
        return [str(name) for name in names]
    count = model.model_.n_outputs
    return ["y"] if count == 1 else [f"y{i}" for i in range(count)]


def noise_std(model: DeepGPRegressor) -> list[float]:
    """Standard deviation of the observation noise of every target, in original units; a typical one where it varies.

    With heavy tails, of all levels together; of several members, of their mixture.
    """
    variances = [one.model_.mean_noise_variance.flatten().cpu().numpy() for one in models_of(model)]
    roots = np.sqrt(np.mean(variances, axis=0)) * model._y_scaler.scale_
    return [float(root) for root in roots]


def n_training_rows(model: DeepGPRegressor) -> int:
    """Rows that the model was fitted to."""
    return int(np.max(model._x_scaler.n_samples_seen_))


def describe(model: DeepGPRegressor) -> dict[str, Any]:
    """A fitted model as a dictionary that JSON can hold.

    Parameters
    ----------
    model : DeepGPRegressor
        Fitted, or loaded from a file.

    Returns
    -------
    dict
        ``method``, ``n_layers``, ``widths`` (outputs of every layer), ``kernel``, ``inputs``, ``targets``, ``rows``,
        ``subset_rows`` (inducing points of a layer), ``separate_kernels`` (of the first layer's outputs),
        ``outlier_probability`` (of predictions), ``members``, ``member_spread`` (factor of their spreads in the
        mixture), ``parameters`` (of all of them), ``objective``
        (``"bound"``, or ``"predictive"`` where the weight of the predictive density is above 0) and its value
        ``bound`` (nats; of the first member), ``iterations``, ``stopped``, ``rollbacks``, ``jitter_climbs``,
        ``bad_gradients``, ``safeguards`` (these three in words), ``seconds`` of training, ``noise_std`` of every
        target, and ``options``, the estimator's arguments.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = DeepGPRegressor(max_iter=2, random_state=0).fit(X, X[:, 0])
    >>> about = describe(model)
    >>> about["rows"], about["subset_rows"], about["inputs"], about["iterations"]
    (20, 10, ['x0'], 2)
    """
    check_is_fitted(model)
    history, layers = model.history_, model.model_.layers
    kernel = model.kernel if isinstance(model.kernel, str) else getattr(model.kernel, "__name__", "a function")
    # What has no place in a file has a name, which is enough here.
    schedule = getattr(model.schedule, "__name__", "a function") if callable(model.schedule) else model.schedule
    known = isinstance(model.subset, str) or type(model.subset) in SELECTORS.values()
    named = copy_of(model, kernel=kernel, schedule=schedule, subset=model.subset if known else repr(model.subset))
    return {
        "method": model.inference,
        "n_layers": len(layers),
        "widths": [int(layer.q_mean.shape[-1]) for layer in layers],
        "kernel": kernel,
        "inputs": feature_names(model),
        "targets": target_names(model),
        "rows": n_training_rows(model),
        "subset_rows": int(layers[0].q_mean.shape[-2]),
        "separate_kernels": model.model_.has_separate_kernels,
        "outlier_probability": model._outliers,
        "members": len(models_of(model)),
        "member_spread": model._spread,
        "parameters": int(model.n_parameters_),
        "objective": "predictive" if getattr(model._method, "predictive_weight", 0.0) else "bound",
        "bound": history.bound[-1] if history.bound else None,
        "iterations": int(model.n_iter_),
        "stopped": history.stopped,
        "rollbacks": history.rollbacks,
        "jitter_climbs": history.jitter_climbs,
        "bad_gradients": history.bad_gradients,
        "safeguards": _safeguards(model),
        "seconds": history.seconds[-1] if history.seconds else None,
        "noise_std": dict(zip(target_names(model), noise_std(model), strict=True)),
        "options": encode_parameters(named),
    }


def _safeguards(model: DeepGPRegressor) -> str:
    """Which numerical safeguards acted; where float32 needed them, that float64 may not."""
    said = model.history_.safeguards()
    return f"{said}; dtype='float64' may need none" if model.dtype == "float32" and said != "none needed" else said
