"""Estimators as records, and back: what a model file holds, and how each entry is checked before it is believed.

Not stored, because only code could bring them back: callbacks (loaded as None), random states other than integers
(None), and selectors that are not from `sodgp.selectors` (the default; a warning says so when saving). Nor is the
folder of checkpoints (None): a file from elsewhere must not say where this machine writes. None of them takes part in a
prediction. A kernel given as code is stored as its description (`sodgp.kernels.description`); one that has none cannot
be left out, so such a model is not saved.

A file of an older format version is brought up to date by the functions in ``_UPGRADES``, one step after the other,
before anything is made of it: the code below knows the present format only.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sodgp.errors import ConfigurationError, ModelFileError
from sodgp.estimator.files.member_records import apart, together
from sodgp.estimator.files.record_fields import (
    check_whole,
    decode_diagnostics,
    decode_history,
    decode_parameters,
    encode_diagnostics,
    encode_parameters,
    names_of,
    numbers_of,
    refuse,
    take_names,
    tensor_of,
    typed,
    whole,
)
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.options.rules import may_separate
from sodgp.inference.contract import Inference
from sodgp.inference.sghmc import SGHMC
from sodgp.kernels.dense import covariance
from sodgp.kernels.make import KernelSpec
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP
from sodgp.system.container import FORMAT_VERSION, Record, check_destination, read_record, write_record
from sodgp.system.files import StrPath
from sodgp.system.validation import resolve_device

E = TypeVar("E")

_MAX_DIMENSION = 10**7
_MAX_LAYERS = 1000
_STATE = "model."
_SCALER = ("mean", "var", "scale")


def save(record_of: Callable[[Any], Record], estimator: Any, path: StrPath) -> None:
    """Write a fitted estimator; see `sodgp.system.container.write_record` for the path."""
    check_destination(path)
    write_record(path, record_of(estimator))


def load(made_of: Callable[[type[E], Record], E], cls: type[E], path: StrPath) -> E:
    """Read an estimator of class `cls` with `from_record`, or what undoes its record.

    Raises
    ------
    ModelFileError
        The file is missing, damaged, newer than this library, or holds something else.
    """
    record = read_record(path)
    try:
        return made_of(cls, record)
    except ModelFileError as error:
        raise ModelFileError(f"{path} is not a usable model: {error}") from error


def to_record(estimator: Any) -> Record:
    """Everything a fitted estimator needs to predict, and its history.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        It has not been fitted.
    ModelFileError
        A parameter cannot be stored, or was changed after the fit.
    """
    import sodgp

    check_is_fitted(estimator)
    if hasattr(estimator, "members_"):
        return together(estimator, to_record, from_record)
    if estimator.n_members not in (None, 1):
        raise ModelFileError("n_members was changed after fit; fit the estimator again, then save it.")
    model: Any = estimator.model_
    info = {
        "library_version": sodgp.__version__,
        "estimator": type(estimator).__name__,
        "parameters": encode_parameters(estimator, [int(layer.mean.weight.shape[-2]) for layer in model.layers]),
        "input_dim": int(estimator.n_features_in_),
        "n_outputs": int(model.n_outputs),
        "size": int(model.layers[0].q_mean.shape[-2]),
        "separate_kernels": model.has_separate_kernels,
        "hidden_widths": [int(layer.mean.weight.shape[-1]) for layer in model.layers][:-1],
        "n_rows": int(np.max(estimator._x_scaler.n_samples_seen_)),
        "n_held_out": int(getattr(estimator, "_n_held_out", 0)),
        "y_is_vector": bool(estimator._y_is_vector),
        "feature_names": names_of(estimator, "feature_names_in_"),
        "target_names": names_of(estimator, "target_names_"),
        "predict_seed": int(estimator._predict_seed),
        "history": dataclasses.asdict(estimator.history_),
        "diagnostics": encode_diagnostics(getattr(estimator, "diagnostics_", None)),
        "restart_bounds": getattr(estimator, "restart_bounds_", None),
        "subset_size_reason": getattr(estimator, "subset_size_reason_", None),
    }
    tensors = {_STATE + name: tensor for name, tensor in model.state_dict().items()}
    tensors |= {"subset.X": estimator._X_s[0], "subset.y": estimator._y_s[0]}
    if estimator._method.uses_subset:
        tensors["subset.indices"] = torch.as_tensor(estimator.subset_indices_, dtype=torch.int64)
    scalers = {"x_scaler": estimator._x_scaler, "y_scaler": estimator._y_scaler}
    if estimator._y_seen is not estimator._y_scaler:  # after a warm start
        scalers |= {"x_seen": estimator._x_seen, "y_seen": estimator._y_seen}
    for name, scaler in scalers.items():
        tensors |= {f"{name}.{key}": torch.as_tensor(getattr(scaler, f"{key}_")) for key in _SCALER}
    record = Record(info, tensors)
    # Read back at once: what could not be loaded later is not written, nor is what would predict otherwise.
    changed = "the estimator's parameters were changed after fit; fit it again, then save it."
    try:
        again: Any = from_record(type(estimator), record)
    except ModelFileError as error:
        raise ModelFileError(changed) from error
    if again.model_.structure != model.structure or again._method != estimator._method:
        raise ModelFileError(changed)
    if not isinstance(estimator.kernel, str):
        _check_same_covariances(again.model_, model)
    return record


def from_record(cls: type[E], record: Record) -> E:
    """An estimator of class `cls` from its record, on the device it asks for, or on the CPU where that is missing.

    Raises
    ------
    ModelFileError
        An entry is missing, of the wrong type or shape, not finite, or does not fit the others.
    """
    info, tensors = _upgraded(record.info), record.tensors
    check_kind(info, cls)
    if "members" in info:
        return apart(cls, record, from_record)
    estimator: Any = cls(**decode_parameters(cls, typed(info, "parameters", dict)))
    if estimator.n_members not in (None, 1):
        refuse("n_members", "more than one for a model without members")
    device = _device(estimator)
    try:
        config = Configuration.from_estimator(estimator)
    except (ConfigurationError, OverflowError) as error:
        raise ModelFileError(str(error)) from error
    D, P = (whole(info, name, 1, _MAX_DIMENSION) for name in ("input_dim", "n_outputs"))
    M, N = whole(info, "size", 1, _MAX_DIMENSION), whole(info, "n_rows", 1, 2**53)
    method = config.method(N)
    in_subset = M if method.uses_subset else 0
    expected: dict[str, tuple[int, ...]] = {"subset.X": (in_subset, D), "subset.y": (in_subset, P)}
    for name, shape in expected.items():
        tensor_of(tensors, name, shape, config.dtype)
    if method.uses_subset:
        expected["subset.indices"] = (M,)
    names = [f"{name}_{what}" for name in "xy" for what in ("scaler", "seen")]
    known = {*expected, *(f"{name}.{key}" for name in names for key in _SCALER)}
    strange = sorted(name for name in tensors if name not in known and not name.startswith(_STATE))
    if strange:
        refuse(strange[0][:60], "not part of such a model")
    model = _rebuild(info, tensors, config, method, estimator.kernel, D, P, M)

    estimator.model_ = model.to(device)
    estimator._method = method
    estimator._X_s, estimator._y_s = (tensors[name].unsqueeze(0) for name in ("subset.X", "subset.y"))
    estimator._x_scaler, estimator._y_scaler = _scaler(tensors, "x_scaler", D, N), _scaler(tensors, "y_scaler", P, N)
    estimator._x_seen, estimator._y_seen = estimator._x_scaler, estimator._y_scaler
    if any("_seen." in name for name in tensors):
        estimator._x_seen, estimator._y_seen = _scaler(tensors, "x_seen", D, N), _scaler(tensors, "y_seen", P, N)
    estimator._y_is_vector = typed(info, "y_is_vector", bool)
    if estimator._y_is_vector and P != 1:
        refuse("y_is_vector", f"true with {P} outputs")
    estimator._predict_seed = whole(info, "predict_seed", 0, 2**31 - 1)
    if method.uses_subset:
        indices = tensor_of(tensors, "subset.indices", (M,), torch.int64)
        held = whole({"n_held_out": 0, **info}, "n_held_out", 0, 2**53)
        if bool((indices < 0).any()) or bool((indices >= N + held).any()):
            refuse("subset.indices", "out of range")
        estimator.subset_indices_, estimator._n_held_out = indices.numpy(), held
    estimator.history_ = decode_history(typed(info, "history", dict))
    estimator.n_iter_ = estimator.history_.iteration[-1] if estimator.history_.iteration else 0
    estimator.n_parameters_ = model.n_parameters
    estimator.n_features_in_ = D
    take_names(estimator, info, "feature_names", "feature_names_in_", D)
    take_names(estimator, info, "target_names", "target_names_", P)
    _take_notes(estimator, info)
    return estimator


def check_kind(info: Mapping[str, Any], cls: type) -> None:
    """Raise ModelFileError unless a record is that of an estimator of class `cls`."""
    found = info.get("estimator")
    if found != cls.__name__:
        advice = f" Load it with {found}.load." if found in ("DeepGPRegressor", "DeepGPEnsemble") else ""
        raise ModelFileError(f"it holds a {found!s:.60}, not a {cls.__name__}.{advice}")


def _take_notes(estimator: Any, info: Mapping[str, Any]) -> None:
    """What only some fits leave behind, and no prediction needs."""
    diagnostics = decode_diagnostics(info.get("diagnostics"))
    if diagnostics is not None:
        if not isinstance(estimator._method, SGHMC):
            refuse("diagnostics", "those of a sampler, but nothing was sampled")
        estimator.diagnostics_ = diagnostics
    if info.get("restart_bounds") is not None:
        estimator.restart_bounds_ = numbers_of("restart_bounds", info["restart_bounds"])
    if info.get("subset_size_reason") is not None:
        estimator.subset_size_reason_ = typed(info, "subset_size_reason", str)


def _from_version_1(info: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had no notes; its parameters and history are those of version 2."""
    return {**info, "diagnostics": None, "restart_bounds": None, "subset_size_reason": None}


# From the version that is the key to the next one.
_UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_version_1}


def _upgraded(info: dict[str, Any]) -> dict[str, Any]:
    for version in range(info.get("format_version", FORMAT_VERSION), FORMAT_VERSION):
        info = _UPGRADES[version](info)
    return info


def _rebuild(
    info: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    config: Configuration,
    method: Inference,
    kernel: KernelSpec,
    D: int,
    P: int,
    M: int,
) -> DeepGP:
    """The trained model: built anew, then given the file's numbers once each of them has the right name and shape."""
    widths = typed(info, "hidden_widths", list)
    if len(widths) != config.n_layers - 1 or len(widths) >= _MAX_LAYERS:
        refuse("hidden_widths", f"{len(widths)} entries for n_layers={config.n_layers}")
    for width in widths:
        check_whole("hidden_widths", width, 1, _MAX_DIMENSION)
    state = {name.removeprefix(_STATE): tensor for name, tensor in tensors.items() if name.startswith(_STATE)}
    sizes = [D, *widths, P]
    shapes = list(itertools.pairwise(sizes))
    weights = [tensor_of(state, f"layers.{i}.mean.weight", shape, config.dtype) for i, shape in enumerate(shapes)][:-1]
    _check_vouched(state, method, shapes, M)
    architecture = Architecture(
        input_dim=D,
        n_outputs=P,
        size=M,
        mean_weights=weights,
        kernel=kernel,
        parameterization=config.parameterization,
        tie_label_noise=config.tie_label_noise,
        separate_kernels=_separates(info, config),
        initialization=config.initialization,
        jitter=config.jitter,
        dtype=config.dtype,
    )
    precision = f"layers.{len(widths)}.label_precision"
    if precision in state:
        known = tensor_of(state, precision, (M, P), config.dtype)
        if not bool((known > 0).all()):
            refuse(_STATE + precision, "not positive")
        architecture = dataclasses.replace(architecture, known_noise=torch.ones(P), label_precision=known)
    try:
        model = method.build(architecture, None, torch.Generator().manual_seed(0))
    except (ModelFileError, MemoryError):
        raise
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise ModelFileError(f"no model can be built from its entries: {error}.") from error
    expected = model.state_dict()
    if expected.keys() != state.keys():
        name = sorted(expected.keys() ^ state.keys())[0]
        refuse(_STATE + name, "missing" if name in expected else "not part of such a model")
    for name, tensor in expected.items():
        # Bounds and columns are those of the options; a file may repeat them, not change them.
        is_fixed = name.endswith(("lower_bound", "upper_bound", "active_dims"))
        # Bounds once had PyTorch's default dtype, and where that was double they were not rounded to single precision.
        is_wide = name.endswith(("lower_bound", "upper_bound")) and state[name].dtype == torch.float64
        dtype = torch.float64 if is_wide else tensor.dtype
        found = tensor_of(state, name, tuple(tensor.shape), dtype, finite=not is_fixed)
        compared = [values.float() if is_wide else values for values in (found, tensor.cpu())]
        if is_fixed and not torch.equal(*compared):
            refuse(_STATE + name, "another one than its options say")
    model.load_state_dict(state, strict=True)
    return model.requires_grad_(False).eval()


def _separates(info: Mapping[str, Any], config: Configuration) -> bool:
    """Whether the outputs of the first layer have a kernel each."""
    # Files from before the rows of a fit decided have the option itself, or never heard of it.
    found = typed({"separate_kernels": bool(config.separate_kernels), **info}, "separate_kernels", bool)
    if found and not may_separate(vars(config)):
        refuse("separate_kernels", "true for a model that has one kernel in each layer")
    return found


def _check_vouched(state: Mapping[str, Tensor], method: Inference, shapes: list[tuple[int, int]], M: int) -> None:
    """Refuse sizes that the file's own tensors do not have, before a model of these sizes is built.

    A few digits in a small file must not ask for a huge matrix.
    """
    for layer, (_, width) in enumerate(shapes):
        room = {"q_mean": (M, width), "q_factor": (width, M, M)}
        if isinstance(method, SGHMC):
            room = {"q_mean": (M, width), "posterior_draws": (method.n_draws, M, width)}
        for name, shape in room.items():
            found = state.get(f"layers.{layer}.{name}")
            if found is None or tuple(found.shape) != shape:
                refuse(f"{_STATE}layers.{layer}.{name}", f"missing, or not of shape {list(shape)}")


def _check_same_covariances(again: DeepGP, model: DeepGP) -> None:
    """Refuse a kernel whose description misses something that shows in its values."""
    generator = torch.Generator().manual_seed(0)
    for ours, theirs in zip(again.layers, model.layers, strict=True):
        dims = ours.mean.weight.shape[-2]
        raw = theirs.q_mean
        X = torch.randn(5, dims, generator=generator, dtype=torch.float64).to(raw.dtype)
        with torch.no_grad():
            found = covariance(ours.kernel.cpu(), X)
            wanted = covariance(theirs.kernel, X.to(raw.device)).cpu()
        if not torch.allclose(found, wanted, rtol=1e-6, atol=1e-12):
            raise ModelFileError(
                f"the kernel {type(theirs.kernel).__name__} computes something else than GPyTorch's kernel of that"
                " name, and a model file holds no code. Keep the estimator with pickle or joblib instead."
            )


def _scaler(tensors: Mapping[str, Tensor], name: str, columns: int, rows: int) -> StandardScaler:
    values = {key: tensor_of(tensors, f"{name}.{key}", (columns,), torch.float64).numpy() for key in _SCALER}
    if not (values["scale"] > 0).all() or not (values["var"] >= 0).all():
        refuse(f"{name}.scale", "not positive")
    scaler = StandardScaler()
    scaler.mean_, scaler.var_, scaler.scale_ = (values[key] for key in _SCALER)
    scaler.n_features_in_, scaler.n_samples_seen_ = columns, np.int64(rows)
    return scaler


def _device(estimator: Any) -> torch.device:
    """The device that the estimator asks for; where this machine lacks it, the estimator's option becomes "cpu"."""
    try:
        device = resolve_device(estimator.device)
    except ConfigurationError:
        device = torch.device("meta")
    there = device.type == "cpu" or (device.type == "cuda" and (device.index or 0) < torch.cuda.device_count())
    if not there:
        estimator.device, device = "cpu", torch.device("cpu")
    return device
