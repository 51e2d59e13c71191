"""What a fitted estimator is, as plain numbers and text: for ``sodgp info``, ``sodgp fit`` and reports."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sodgp.estimator.base import DeepGPEstimator
from sodgp.estimator.files.record_fields import encode_parameters
from sodgp.estimator.options.fields import LIKELIHOODS, METHODS, likelihood_of, method_of
from sodgp.estimator.options.nested import copy_of
from sodgp.predictive.calibration import Temperature
from sodgp.selectors import SELECTORS
from sodgp.system.validation import FloatArray

# Kinds of columns whose first number is one to draw an axis for.
_MEASURED = ("number", "date", "ordered category")

# What y is, in likelihoods' words, and what a fit to it is called.
TASKS = {"numbers": "regression", "counts": "counts", "classes": "classification"}


def feature_names(model: DeepGPEstimator) -> list[str]:
    """Names of the model's inputs, which of a table are those it became; ``x0``, ``x1``, ... without names."""
    encoder = model.fitted_.columns.encoder
    if encoder is not None:
        return [str(name) for name in encoder.get_feature_names_out()]
    names = getattr(model, "feature_names_in_", None)
    return [f"x{i}" for i in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def input_names(model: DeepGPEstimator) -> list[str]:
    """Names of the columns that are inputs."""
    encoder = model.fitted_.columns.encoder
    return feature_names(model) if encoder is None else [column.name for column in encoder.used_]


def input_groups(model: DeepGPEstimator) -> NDArray[np.int64]:
    """For each of the model's inputs, [D], the place of its column in `input_names`."""
    encoder = model.fitted_.columns.encoder
    return np.arange(model.n_features_in_) if encoder is None else encoder.groups_


def numbers_first(model: DeepGPEstimator, strength: FloatArray) -> NDArray[np.int64]:
    """The model's inputs [D], strongest first: those that are numbers or dates before the levels of categories."""
    encoder = model.fitted_.columns.encoder
    if encoder is None:
        return np.argsort(-strength, kind="stable")
    is_number = [place == 0 and column.kind in _MEASURED for column in encoder.used_ for place in range(column.width)]
    return np.lexsort((-strength, ~np.array(is_number)))


def n_inputs(model: DeepGPEstimator) -> int:
    """Inputs of the model, D."""
    return len(input_groups(model))


def target_names(model: DeepGPEstimator) -> list[str]:
    """Names of the targets; ``y``, or ``y0``, ``y1``, ..., where the model was fitted without names."""
    names = getattr(model, "target_names_", None)
    if names is not None:
        return [str(name) for name in names]
    count = model.fitted_.columns.n_targets
    return ["y"] if count == 1 else [f"y{i}" for i in range(count)]


def models_of(model: DeepGPEstimator) -> list[DeepGPEstimator]:
    """The members of a fitted estimator, or the one model that it is."""
    return getattr(model, "members_", [model])


def noise_std(model: DeepGPEstimator) -> list[float]:
    """Standard deviation of the observation noise of every target, in original units; a typical one where it varies.

    With heavy tails, that of the mixture of all levels; with members, of their mixture. Empty where y has no noise
    variance, such as counts and classes, or where it was transformed.
    """
    if model.fitted_.transform is not None:
        return []
    if model.fitted_.columns.classes is not None:
        return []
    found = [one.model.likelihood.mean_noise_variance for one in model.fitted_.models]
    variances = [variance.detach().flatten().cpu().numpy() for variance in found if variance is not None]
    if not variances:
        return []
    roots = np.sqrt(np.mean(variances, axis=0)) * model.fitted_.y_scaler.scale_
    return [float(root) for root in roots]


def n_training_rows(model: DeepGPEstimator) -> int:
    """Rows that the model was fitted to."""
    return model.fitted_.n_rows


def member_spread(model: DeepGPEstimator) -> float:
    """The factor by which members' deviations from their means are shrunk in their mixture."""
    # Counts and class probabilities have no spread around their mean that could be scaled.
    has_units = model.fitted_.likelihood.targets == "numbers"
    return method_of(model.inference).usual_spread(model.n_members_) if has_units else 1.0


def describe(model: DeepGPEstimator) -> dict[str, Any]:
    """A fitted model as a dictionary that JSON can hold.

    Returns
    -------
    dict
        ``task`` (``"regression"``, ``"counts"`` or ``"classification"``), ``classes`` (their labels, or None),
        ``method``, ``likelihood``, ``n_layers``, ``n_layers_reason`` (where short fits have decided), ``widths``
        (outputs of every layer), ``kernel``, ``inputs``, ``columns`` (what became of each, where they are of a table),
        ``targets``, ``rows``, ``subset_rows`` (inducing points of a layer), ``separate_kernels`` (of the first layer's
        outputs), ``outlier_probability`` (of predictions), ``members``, ``member_spread`` (factor by which they are
        shrunk in the mixture), ``parameters`` (of all of them), ``objective`` (that of the method, or ``"posterior"``
        of a sampler) and its value ``bound`` (nats; of the first member), ``target_transform`` (``name`` and ``power``
        of every target, or None), ``iterations``, ``stopped``, ``rollbacks``, ``jitter_climbs``, ``bad_gradients``,
        ``safeguards`` (these three in words), ``seconds`` of training, ``noise_std`` of every target, and ``options``,
        the estimator's arguments.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
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
    changes: dict[str, str] = {"kernel": kernel}
    for name, found, known in (
        ("subset", model.subset, SELECTORS),
        ("inference", method_of(model.inference), METHODS),
        ("likelihood", likelihood_of(model.likelihood) or "", LIKELIHOODS),
    ):
        if not isinstance(found, str) and type(found) not in known.values():
            changes[name] = repr(found)
    named = copy_of(model, **changes)
    classes = model.fitted_.columns.classes
    return {
        "task": TASKS[model.likelihood_.targets],
        "classes": None if classes is None else classes.tolist(),
        "method": model.inference_.name,
        "likelihood": model.likelihood_.name,
        "n_layers": len(layers),
        "n_layers_reason": model.fitted_.n_layers_reason,
        "widths": model.model_.widths,
        "kernel": kernel,
        "inputs": input_names(model),
        "columns": {} if model.fitted_.columns.encoder is None else model.columns_,
        "targets": target_names(model),
        "rows": n_training_rows(model),
        "subset_rows": model.subset_size_,
        "separate_kernels": model.model_.has_separate_kernels,
        "outlier_probability": model.outlier_probability_,
        "members": model.n_members_,
        "member_spread": member_spread(model),
        "parameters": model.n_parameters_,
        "objective": model.objective_,
        "target_transform": _transform(model),
        "calibration": _calibration(model),
        "bound": history.bound[-1] if history.bound else None,
        "iterations": model.n_iter_,
        "stopped": history.stopped,
        "rollbacks": history.rollbacks,
        "jitter_climbs": history.jitter_climbs,
        "bad_gradients": history.bad_gradients,
        "safeguards": _safeguards(model),
        "seconds": history.seconds[-1] if history.seconds else None,
        "noise_std": dict(zip(target_names(model), noise_std(model), strict=False)),
        "options": encode_parameters(named),
    }


def _transform(model: DeepGPEstimator) -> dict[str, Any] | None:
    """Name and power of a transform of the targets."""
    found = model.fitted_.transform
    if found is None:
        return None
    return {"name": found.name, "power": dict(zip(target_names(model), found.power.tolist(), strict=True))}


def _calibration(model: DeepGPEstimator) -> dict[str, Any] | None:
    """Rows of a calibration, with the coverage that 90 % intervals had there, or the power of class probabilities."""
    found = model.fitted_.calibration
    if found is None:
        return None
    if isinstance(found, Temperature):
        return {"rows": found.n_rows, "power": found.power}
    before = dict(zip(target_names(model), found.coverage_90.tolist(), strict=True))
    return {"rows": found.n_rows, "coverage_90_before": before}


def target_facts(about: dict[str, Any]) -> list[tuple[str, str]]:
    """What `describe` says of the targets beyond their likelihood, for people: the transform, and the calibration."""
    facts, transform, calibration = [], about["target_transform"], about["calibration"]
    if transform is not None:
        powers = ", ".join(f"{name} {power:.3g}" for name, power in transform["power"].items())
        facts.append(("transform", "log" if transform["name"] == "log" else f"{transform['name']}, power of {powers}"))
    if calibration is not None:
        shares = calibration.get("coverage_90_before", {})
        said = ", ".join(f"90 % intervals of {name} held {100 * share:.0f} %" for name, share in shares.items())
        said = f"{said} there before" if shares else f"probabilities to the power {calibration['power']:.3g}"
        facts.append(("calibration", f"on {calibration['rows']:,} rows; {said}"))
    return facts


def _safeguards(model: DeepGPEstimator) -> str:
    """Which numerical safeguards acted; where float32 needed them, that float64 may not."""
    said = model.history_.safeguards()
    return f"{said}; dtype='float64' may need none" if model.dtype == "float32" and said != "none needed" else said
