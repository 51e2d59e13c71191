"""Estimators as records, and back: what a model file holds, and how each entry is checked before it is used.

Predictions do not need, and files do not hold: callbacks and random states other than integers (loaded as None),
selectors that are not from `sodgp.selectors` (loaded as the default; saving warns), and the folder of checkpoints
(None: a file from elsewhere must not say where this machine writes). A kernel given as code is stored as its
description (`sodgp.kernels.description`); a model whose kernel has none is not saved.

Options, columns and scaling are stored once. What belongs to one model is in the list ``"models"``, and its tensors
carry the model's number in front (``"0.subset.X"``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sodgp.errors import ConfigurationError, ModelFileError
from sodgp.estimator.files.rebuild import MAX_DIMENSION, STATE, check_same_covariances, rebuilt
from sodgp.estimator.files.record_fields import (
    decode_classes,
    decode_diagnostics,
    decode_history,
    decode_names,
    decode_parameters,
    encode_classes,
    encode_diagnostics,
    encode_names,
    encode_parameters,
    from_fields,
    numbers_of,
    refuse,
    tensor_of,
    typed,
    whole,
)
from sodgp.estimator.files.table_columns import decode_columns, encode_columns, input_names
from sodgp.estimator.files.target_fields import decode_calibration, decode_transform, encoded_targets
from sodgp.estimator.fitted import Columns, Fitted
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.options.fields import LIKELIHOODS, OF_PREDICTION_ONLY
from sodgp.estimator.targets import n_latents
from sodgp.inference.contract import Inference
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.likelihoods.known_noise import KnownNoise
from sodgp.model.architecture import Architecture
from sodgp.system.container import Record, check_destination, read_record, write_record
from sodgp.system.files import StrPath
from sodgp.system.validation import FloatArray, resolve_device
from sodgp.system.version import VERSION

if TYPE_CHECKING:
    from sodgp.estimator.base import DeepGPEstimator
    from sodgp.estimator.classifier import DeepGPClassifier
    from sodgp.estimator.regressor import DeepGPRegressor

__all__ = ["from_record", "load", "load_any", "save", "to_record"]

E = TypeVar("E", bound="DeepGPEstimator")

_MAX_MODELS = 10_000
_SCALER = ("mean", "var", "scale")
_SCALERS = ("x_scaler", "y_scaler", "x_seen", "y_seen")


def save(estimator: DeepGPEstimator, path: StrPath) -> None:
    """Write a fitted estimator; see `sodgp.system.container.write_record` for the path."""
    check_destination(path)
    write_record(path, to_record(estimator))


def load(cls: type[E], path: StrPath) -> E:
    """Read an estimator of class `cls`.

    Raises
    ------
    ModelFileError
        The file is missing, damaged, of another format version, or holds something else.
    """
    record = read_record(path)
    try:
        return from_record(cls, record)
    except ModelFileError as error:
        raise ModelFileError(f"{path} is not a usable model: {error}") from error


def load_any(path: StrPath) -> DeepGPRegressor | DeepGPClassifier:
    """Read a regressor or a classifier, whichever the file holds; ModelFileError as in `load`."""
    from sodgp.estimator.classifier import DeepGPClassifier
    from sodgp.estimator.regressor import DeepGPRegressor

    is_classifier = read_record(path).info.get("estimator") == DeepGPClassifier.__name__
    return load(DeepGPClassifier, path) if is_classifier else load(DeepGPRegressor, path)


def to_record(estimator: DeepGPEstimator) -> Record:
    """Everything a fitted estimator needs to predict, and its history.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        It has not been fitted.
    ModelFileError
        A parameter cannot be stored, or was changed after the fit.
    """
    check_is_fitted(estimator)
    fitted = estimator.fitted_
    if estimator.target_transform != ("none" if fitted.transform is None else fitted.transform.name):
        raise ModelFileError("target_transform was changed after fit; fit the estimator again, then save it.")
    if not _has_members(estimator, len(fitted.models), fitted.history.stopped):
        raise ModelFileError("n_members was changed after fit; fit the estimator again, then save it.")
    _check_steps(estimator)
    model, columns = fitted.model, fitted.columns
    info = {
        "library_version": VERSION,
        "estimator": type(estimator).__name__,
        "parameters": encode_parameters(estimator, [int(layer.mean.weight.shape[-2]) for layer in model.layers]),
        "method": fitted.method.get_params(),
        "likelihood": fitted.likelihood.name,
        "input_dim": int(model.layers[0].mean.weight.shape[-2]),
        "columns": encode_columns(estimator.columns, columns),
        "n_outputs": model.n_outputs,
        "size": fitted.subset_size,
        "hidden_widths": model.widths[:-1],
        "n_rows": fitted.n_rows,
        "n_held_out": fitted.n_held_out,
        "n_left_out": fitted.n_left_out,
        "y_is_vector": columns.y_is_vector,
        "feature_names": encode_names(columns.inputs),
        "target_names": encode_names(columns.targets),
        "classes": encode_classes(columns.classes, columns.class_rows),
        **encoded_targets(fitted),
        "restart_bounds": fitted.restart_bounds,
        "subset_size_reason": fitted.subset_size_reason,
        "n_layers_reason": fitted.n_layers_reason,
        "models": [
            {
                "seed": each.seed,
                "predict_seed": each.predict_seed,
                "history": dataclasses.asdict(each.history),
                "diagnostics": encode_diagnostics(each.diagnostics),
            }
            for each in fitted.models
        ],
    }
    tensors = {
        f"{number}.{name}": tensor
        for number, each in enumerate(fitted.models)
        for name, tensor in _model_tensors(each).items()
    }
    # Those of this fit's rows only where they are others, after a warm start.
    for name in _SCALERS if fitted.y_seen is not fitted.y_scaler else _SCALERS[:2]:
        scaler = getattr(fitted, name)
        tensors |= {f"{name}.{key}": torch.as_tensor(getattr(scaler, f"{key}_")) for key in _SCALER}
    if fitted.x_range is not None:
        tensors["x_range"] = torch.as_tensor(fitted.x_range, dtype=torch.float64)
    record = Record(info, tensors)
    _check_reads_back(estimator, record)
    return record


def _check_steps(estimator: DeepGPEstimator) -> None:
    """ModelFileError where `max_iter` is no longer that of the fit: the file would say what was not done."""
    fitted, asked = estimator.fitted_, estimator.max_iter
    history = fitted.history
    if asked is None or fitted.method.sampler is not None or history.stopped != "max_iter" or not history.iteration:
        return
    if history.iteration[-1] != asked:
        raise ModelFileError(
            f"max_iter was changed after fit, from {history.iteration[-1]} to {asked}; set it back, or fit it again,"
            " then save it."
        )


def _has_members(estimator: DeepGPEstimator, count: int, stopped: Any) -> bool:
    """Whether these are as many models as the estimator asks for, or fewer because training was interrupted."""
    asked = estimator.n_members
    return asked in (None, count) or (stopped == "interrupted" and count < asked)


def _model_tensors(fitted: Fitted) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {STATE + name: tensor for name, tensor in fitted.model.state_dict().items()}
    tensors |= {"subset.X": fitted.X_s[0], "subset.y": fitted.y_s[0]}
    tensors |= {} if fitted.weight_s is None else {"subset.weight": fitted.weight_s[0]}
    if fitted.subset_indices is not None:
        tensors["subset.indices"] = torch.as_tensor(fitted.subset_indices, dtype=torch.int64)
    return tensors


def _check_reads_back(estimator: DeepGPEstimator, record: Record) -> None:
    """ModelFileError for what could not be loaded later, or would predict otherwise: it is not written."""
    changed = "the estimator's parameters were changed after fit; fit it again, then save it."
    try:
        again = from_record(type(estimator), record)
    except ModelFileError as error:
        raise ModelFileError(changed) from error
    for ours, theirs in zip(again.fitted_.models, estimator.fitted_.models, strict=True):
        if ours.model.structure != theirs.model.structure:
            raise ModelFileError(changed)
        if not isinstance(estimator.kernel, str):
            check_same_covariances(ours.model, theirs.model)


def from_record(cls: type[E], record: Record) -> E:
    """An estimator of class `cls` from its record, on the device it asks for, or on the CPU where that is missing.

    Raises
    ------
    ModelFileError
        An entry is missing, of the wrong type or shape, not finite, or does not fit the others.
    """
    info = record.info
    if info.get("estimator") != cls.__name__:
        raise ModelFileError(f"it holds a {info.get('estimator')!s:.60}, not a {cls.__name__}.")
    D, P = (whole(info, name, 1, MAX_DIMENSION) for name in ("input_dim", "n_outputs"))
    option, encoder = decode_columns(info, D)
    estimator = cls(**decode_parameters(cls, typed(info, "parameters", dict)), columns=option)
    transform = decode_transform(info.get("target_transform"), P)
    if transform is not None:
        estimator.set_params(target_transform=transform.name)
    device = _device(estimator)
    likelihood_name = typed(info, "likelihood", str)
    is_known = likelihood_name == KnownNoise.name
    try:
        config = Configuration.from_estimator(estimator, knows_noise=is_known)
    except (ConfigurationError, OverflowError) as error:
        raise ModelFileError(str(error)) from error
    M, N = whole(info, "size", 1, MAX_DIMENSION), whole(info, "n_rows", 1, 2**53)
    classes, class_rows = decode_classes(info) if "classes" in cls.takes else (None, None)
    # Where the options leave it open it is what the file says, whatever this version would choose.
    likelihood = _likelihood(likelihood_name) if config.is_open else config.likelihood
    if likelihood.targets not in cls.takes:
        refuse("likelihood", f"of {likelihood.targets}")
    if is_known:
        likelihood = KnownNoise(**likelihood.get_params())
    elif likelihood.name != likelihood_name:
        refuse("likelihood", "another one than its options say")
    method = _settled(info, config, likelihood, N)
    architecture = Architecture(
        input_dim=D,
        n_outputs=P,
        size=M,
        mean_weights=[],
        kernel=config.kernel,
        likelihood=likelihood,
        initialization=config.initialization,
        jitter=config.jitter,
        dtype=config.dtype,
    )
    entries, parts, shared = _parts(record)
    if not _has_members(estimator, len(entries), typed(entries[0], "history", dict).get("stopped")):
        refuse("parameters.n_members", f"{estimator.n_members}, with {len(entries)} models")
    scalers = _scalers(shared, D, P, N)
    x_range = _range(shared, D)
    y_is_vector = typed(info, "y_is_vector", bool)
    if classes is not None and n_latents(likelihood, len(classes)) != P:
        refuse("classes", f"{len(classes)} labels, with {P} outputs")
    n_targets = P if classes is None else 1
    if y_is_vector and n_targets != 1:
        refuse("y_is_vector", f"true with {P} outputs")
    inputs, targets = input_names(info, D, encoder), decode_names(info, "target_names", n_targets)
    count = D if encoder is None else encoder.n_features_in_
    columns = Columns(count, n_targets, y_is_vector, inputs, targets, classes, class_rows, encoder)
    held_out = whole(info, "n_held_out", 0, 2**53)
    left_out = whole(info, "n_left_out", 0, 2**53) if "n_left_out" in info else 0
    bounds = info.get("restart_bounds")
    size_reason, depth_reason = (
        None if info.get(name) is None else typed(info, name, str) for name in ("subset_size_reason", "n_layers_reason")
    )
    members = []
    for number, (entry, tensors) in enumerate(zip(entries, parts, strict=True)):
        try:
            model = rebuilt(info, tensors, architecture, method, config.n_layers).to(device)
            members.append(
                Fitted(
                    model=model,
                    method=method,
                    likelihood=likelihood,
                    columns=columns,
                    X_s=tensors["subset.X"].unsqueeze(0),
                    y_s=tensors["subset.y"].unsqueeze(0),
                    weight_s=tensors["subset.weight"].unsqueeze(0) if "subset.weight" in tensors else None,
                    **scalers,
                    x_range=x_range,
                    predict_seed=whole(entry, "predict_seed", 0, 2**31 - 1),
                    history=decode_history(typed(entry, "history", dict)),
                    seed=None if entry.get("seed") is None else whole(entry, "seed", 0, 2**32 - 1),
                    subset_indices=_indices(tensors, M, N + held_out + left_out) if method.uses_subset else None,
                    n_held_out=held_out,
                    n_left_out=left_out,
                    diagnostics=decode_diagnostics(entry.get("diagnostics")),
                    restart_bounds=None if bounds is None else numbers_of("restart_bounds", bounds),
                    subset_size_reason=size_reason,
                    n_layers_reason=depth_reason,
                    transform=transform,
                )
            )
        except ModelFileError as error:
            raise ModelFileError(f"model {number}: {error}" if len(entries) > 1 else str(error)) from error
        if members[-1].diagnostics is not None and method.sampler is None:
            refuse("diagnostics", "those of a sampler, but nothing was sampled")
    calibration = decode_calibration(info.get("calibration"), n_targets, likelihood.targets)
    estimator.fitted_ = replace(members[0], calibration=calibration, members=tuple(members) if members[1:] else ())
    return estimator


def _likelihood(name: str) -> LikelihoodOptions:
    if name not in LIKELIHOODS:
        refuse("likelihood", "unknown to this sodgp")
    return LIKELIHOODS[name]()


def _settled(info: Mapping[str, Any], config: Configuration, likelihood: LikelihoodOptions, n_rows: int) -> Inference:
    """The method that was trained with: that of the options, with what they left open."""
    method = from_fields("method", type(config.method), typed(info, "method", dict))
    asked, used = config.method.get_params(), method.get_params()
    for name, value in asked.items():
        if value is not None and value != used[name] and name not in OF_PREDICTION_ONLY:
            refuse(f"method.{name}", "another one than its options say")
    try:
        settled = method.settled(n_rows=n_rows, n_layers=config.n_layers, kernel=config.kernel, likelihood=likelihood)
    except ConfigurationError as error:
        raise ModelFileError(str(error)) from error
    if settled != method:
        refuse("method", "incomplete")
    return method


def _parts(record: Record) -> tuple[list[dict[str, Any]], list[dict[str, Tensor]], dict[str, Tensor]]:
    """The entries and the tensors of every model, and the tensors that all of them share."""
    entries = typed(record.info, "models", list)
    if not 1 <= len(entries) <= _MAX_MODELS or not all(isinstance(entry, dict) for entry in entries):
        refuse("models", "not a list of models")
    parts: list[dict[str, Tensor]] = [{} for _ in entries]
    places, shared = {str(number): part for number, part in enumerate(parts)}, {}
    allowed = {"x_range", *(f"{name}.{key}" for name in _SCALERS for key in _SCALER)}
    for name, tensor in record.tensors.items():
        head, _, rest = name.partition(".")
        if head in places:
            places[head][rest] = tensor
        elif name in allowed:
            shared[name] = tensor
        else:
            refuse(name[:60], "not part of such a model")
    return entries, parts, shared


def _indices(tensors: Mapping[str, Tensor], M: int, n_rows: int) -> NDArray[np.int64]:
    indices: NDArray[np.int64] = tensor_of(tensors, "subset.indices", (M,), torch.int64).numpy()
    if (indices < 0).any() or (indices >= n_rows).any():
        refuse("subset.indices", "out of range")
    return indices


def _scalers(tensors: Mapping[str, Tensor], D: int, P: int, n_rows: int) -> dict[str, StandardScaler]:
    """The scalers of the units, and those of the rows of the fit where the file has them."""
    names = _SCALERS if any("_seen." in name for name in tensors) else _SCALERS[:2]
    found = {name: _scaler(tensors, name, D if name.startswith("x") else P, n_rows) for name in names}
    return {"x_seen": found["x_scaler"], "y_seen": found["y_scaler"], **found}


def _scaler(tensors: Mapping[str, Tensor], name: str, columns: int, rows: int) -> StandardScaler:
    values = {key: tensor_of(tensors, f"{name}.{key}", (columns,), torch.float64).numpy() for key in _SCALER}
    if not (values["scale"] > 0).all() or not (values["var"] >= 0).all():
        refuse(f"{name}.scale", "not positive")
    scaler = StandardScaler()
    scaler.mean_, scaler.var_, scaler.scale_ = (values[key] for key in _SCALER)
    scaler.n_features_in_, scaler.n_samples_seen_ = columns, np.int64(rows)
    return scaler


def _range(tensors: Mapping[str, Tensor], D: int) -> FloatArray | None:
    """Smallest and largest value of every input, [2, D], where the file has them."""
    if "x_range" not in tensors:
        return None
    values: FloatArray = tensor_of(tensors, "x_range", (2, D), torch.float64).numpy()
    if (values[0] > values[1]).any():
        refuse("x_range", "the wrong way round")
    return values


def _device(estimator: DeepGPEstimator) -> torch.device:
    """The device that the estimator asks for; where this machine lacks it, the estimator's option becomes "cpu"."""
    try:
        device = resolve_device(estimator.device)
    except ConfigurationError:
        device = torch.device("meta")
    there = device.type == "cpu" or (device.type == "cuda" and (device.index or 0) < torch.cuda.device_count())
    if not there:
        estimator.device, device = "cpu", torch.device("cpu")
    return device
