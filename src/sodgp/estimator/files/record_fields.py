"""Single entries of a record: written as plain JSON, and checked when they come back from a file of unknown origin."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor

from sodgp.errors import ConfigurationError, ModelFileError, SodgpWarning
from sodgp.estimator.options.fields import LIKELIHOODS, METHODS, Tuning
from sodgp.estimator.targets import MAX_CLASSES
from sodgp.inference.diagnostics import SamplerDiagnostics
from sodgp.kernels.description import DescribedKernel, described
from sodgp.kernels.make import KernelSpec, make_kernel
from sodgp.model.architecture import Initialization
from sodgp.selectors import SELECTORS
from sodgp.selectors.auto import Auto
from sodgp.system.validation import FloatArray
from sodgp.training.history import History

E = TypeVar("E")

# Larger whole numbers are not exact as floats.
_LARGEST = 2**53
# Never in a file: code, and places to write to.
_LEFT_OUT = ("callbacks", "checkpoint")
# No entry here: about the machine that trains, or stored beside the parameters with what became of it.
_ELSEWHERE = ("n_jobs", "columns", "target_transform")
# Options that become a loop, a size or a chunk, also in objects: a file may ask for so much and no more. A few digits
# in a small one would cost hours, or all memory. It is more than anybody has use for; `set_params` knows no limits.
_MOST = {
    **dict.fromkeys(("n_layers", "n_chains", "n_init"), 1000),
    **dict.fromkeys(("n_samples", "n_predict_samples", "n_members", "n_restarts", "max_epochs"), 10_000),
    **dict.fromkeys(("hidden_width", "subset_size", "pool_size", "sketch_size", "block_size"), 10**7),
    **dict.fromkeys(("max_iter", "window", "thinning", "n_posterior_samples", "n_steps", "batch_size"), 10**8),
}
# Types of labels that are numbers.
_WHOLE = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_FLOATS = ("float16", "float32", "float64")
# Arguments that are objects of one of these classes, or their names.
_NAMED: dict[str, Mapping[str, type]] = {"inference": METHODS, "likelihood": LIKELIHOODS}


def encode_parameters(estimator: BaseEstimator, input_dims: Sequence[int] = ()) -> dict[str, Any]:
    """Constructor arguments of an estimator as JSON; ModelFileError for one that cannot be written.

    A kernel given as code is described for each of `input_dims`, the inputs of the layers.
    """
    parameters = estimator.get_params(deep=False)
    encoded = {name: _encode(name, value) for name, value in parameters.items() if name not in ("kernel", *_ELSEWHERE)}
    encoded["kernel"] = _encode_kernel(parameters["kernel"], input_dims)
    excess = _excess(encoded)
    if excess is not None:
        raise ModelFileError(
            f"{excess} is more than a model file may ask for, {_MOST[excess.split('=')[0]]}, since files come from"
            " strangers, too. Lower it with set_params before you save; n_predict_samples can be raised again after"
            " loading."
        )
    return encoded


def _encode_kernel(kernel: KernelSpec, input_dims: Sequence[int]) -> str | dict[str, dict[str, Any]]:
    if isinstance(kernel, str):
        return kernel
    try:
        # In JSON keys are text.
        return {"described": {str(dims): described(make_kernel(kernel, dims)) for dims in sorted(set(input_dims))}}
    except ModelFileError as error:
        raise ModelFileError(
            f"the kernel cannot be stored in a model file, which holds no code: {error}. Use a kernel of GPyTorch"
            " itself, or keep the estimator with pickle or joblib, and the code of its kernel. The model stays"
            " usable."
        ) from error


def _encode(name: str, value: Any) -> Any:
    if name in _LEFT_OUT or (name == "random_state" and not isinstance(value, int | np.integer)):
        return None
    if name in _NAMED and not isinstance(value, str | None):
        known = _known_as(value, _NAMED[name])
        if known is None:
            raise ModelFileError(
                f"{name}={value!r:.100} is not a class of sodgp, and a model file holds no code. Keep the estimator"
                " with pickle or joblib instead. The model stays usable."
            )
        return {"name": known, "options": value.get_params()}
    if isinstance(value, Tuning):
        start = value.initialization
        return {**value.get_params(), "initialization": None if start is None else dataclasses.asdict(start)}
    if name == "subset" and not isinstance(value, str):
        known = _known_as(value, SELECTORS)
        if known is not None:
            return {"selector": known, "options": dataclasses.asdict(value)}
        warnings.warn(
            f"subset={value!r} is not from sodgp.selectors and is not stored; the loaded model has subset='kmeans'. Its"
            " predictions stay the same.",
            SodgpWarning,
            stacklevel=2,
        )
        return "kmeans"
    if name == "subset_size" and isinstance(value, Auto):
        return {"auto": dataclasses.asdict(value)}
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_encode(name, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ModelFileError(f"{name}={value!r} cannot be stored in a model file; use a number, text or None.")


def _known_as(value: object, known: Mapping[str, type]) -> str | None:
    return next((name for name, cls in known.items() if type(value) is cls), None)


def decode_parameters(cls: type, parameters: dict[str, Any]) -> dict[str, Any]:
    """Constructor arguments for `cls` from JSON."""
    known = inspect.signature(cls).parameters
    different = sorted(parameters.keys() ^ known.keys() - {*_ELSEWHERE})
    if different:
        refuse(f"parameters.{different[0]}", "unknown to this sodgp, or missing")
    excess = _excess(parameters)
    if excess is not None:
        refuse("parameters", f"wrong: {excess} is more than a model file may ask for, {_MOST[excess.split('=')[0]]}")
    return {name: _decode(name, value) for name, value in parameters.items() if name not in _LEFT_OUT}


def _excess(parameters: Mapping[str, Any]) -> str | None:
    """The first option, as ``name=value``, that asks for more than a file may; also in the options of objects."""
    objects = [value["options"] for value in parameters.values() if isinstance(value, dict) and "options" in value]
    for options in [parameters, *(each for each in objects if isinstance(each, dict))]:
        for name in options.keys() & _MOST:
            values = options[name] if isinstance(options[name], list) else [options[name]]
            if any(isinstance(value, int | float) and value > _MOST[name] for value in values):
                return f"{name}={options[name]!r:.60}"
    return None


def _decode(name: str, value: Any) -> Any:
    keys = value.keys() if isinstance(value, dict) else set()
    if keys == {"described"} and name == "kernel":
        trees = value["described"]
        if not isinstance(trees, dict) or not all(re.fullmatch("[1-9][0-9]{0,7}", dims) for dims in trees):
            refuse(name, "not a set of descriptions")
        return DescribedKernel({int(dims): tree for dims, tree in trees.items()})
    if keys == {"selector", "options"} and name == "subset":
        return _of_class(name, value["selector"], SELECTORS, value["options"])
    if keys == {"auto"} and name == "subset_size":
        return from_fields(name, Auto, value["auto"])
    if keys == {"name", "options"} and name in _NAMED:
        return _of_class(name, value["name"], _NAMED[name], value["options"])
    if isinstance(value, dict) and name == "tuning":
        start = value.get("initialization")
        tuning = from_fields(name, Tuning, {**value, "initialization": None})
        if start is None:
            return tuning
        try:
            return tuning.set_params(initialization=from_fields("initialization", Initialization, start))
        except ConfigurationError as error:
            raise ModelFileError(f"its entry 'tuning' is wrong: {error}") from error
    if isinstance(value, list) and all(type(item) in (int, float, str) for item in value):
        return value
    if value is not None and not isinstance(value, bool | int | float | str):
        refuse(f"parameters.{name}", "not a number, text or None")
    return value


def _of_class(name: str, key: Any, known: Mapping[str, type[E]], options: Any) -> E:
    if not isinstance(key, str) or key not in known:
        refuse(name, "an unknown class")
    return from_fields(name, known[key], options)


def from_fields(name: str, cls: type[E], fields: Any) -> E:
    """An object of a class from its fields, which may hold numbers, text, booleans and None only."""
    if not isinstance(fields, dict) or not all(
        v is None or type(v) in (int, float, str, bool) for v in fields.values()
    ):
        refuse(name, "not a set of named numbers")
    try:
        return cls(**fields)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"its entry {name!r} is wrong: {error}.") from error


def decode_history(entries: dict[str, Any]) -> History:
    """A history whose lists are finite numbers of one length."""
    history = History()
    lengths = set()
    for field in dataclasses.fields(History):
        value, default = entries.get(field.name), getattr(history, field.name)
        if field.name not in entries or type(value) is not type(default):
            refuse(f"history.{field.name}", "missing or of the wrong type")
        if field.name == "validation" and value == []:
            continue
        for numbers in [value] if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []:
            lengths.add(len(numbers_of(f"history.{field.name}", numbers)))
        setattr(history, field.name, value)
    if len(lengths) != 1 or not all(type(number) is int for number in history.iteration):
        refuse("history", "made of lists of different lengths, or counts iterations in fractions")
    return history


def encode_diagnostics(diagnostics: SamplerDiagnostics | None) -> dict[str, Any] | None:
    """A sampler's diagnostics as JSON: arrays as nested lists, with None where there is nothing to say (NaN)."""
    if diagnostics is None:
        return None
    values = {field.name: getattr(diagnostics, field.name) for field in dataclasses.fields(diagnostics)}
    return {name: _plain_numbers(value) for name, value in values.items()}


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "values": [_plain_numbers(float(v)) for v in value.ravel()]}
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def decode_diagnostics(entries: Any) -> SamplerDiagnostics | None:
    """The diagnostics that `encode_diagnostics` wrote, or None."""
    if entries is None:
        return None
    fields = dataclasses.fields(SamplerDiagnostics)
    if not isinstance(entries, dict) or entries.keys() != {field.name for field in fields}:
        refuse("diagnostics", "not those of a sampler")
    values: dict[str, Any] = {}
    for field in fields:
        name, value = f"diagnostics.{field.name}", entries[field.name]
        if field.type == "int":
            values[field.name] = check_whole(name, value, 0, 2**53)
        else:
            values[field.name] = (_number if field.type == "float" else _array)(name, value)
    return SamplerDiagnostics(**values)


def _array(name: str, entry: Any) -> FloatArray:
    if not isinstance(entry, dict) or entry.keys() != {"shape", "values"}:
        refuse(name, "not an array")
    shape, values = entry["shape"], entry["values"]
    if not isinstance(shape, list) or len(shape) > 8 or not isinstance(values, list):
        refuse(name, "not an array")
    for size in shape:
        check_whole(name, size, 0, 2**31)
    if math.prod(shape) != len(values):
        refuse(name, f"{len(values)} numbers for an array of shape {shape}")
    return np.array([_number(name, value) for value in values], dtype=np.float64).reshape(shape)


def _number(name: str, value: Any) -> float:
    if value is None or value in ("inf", "-inf"):
        return math.nan if value is None else float(value)
    return float(numbers_of(name, [value])[0])


def numbers_of(name: str, values: Any) -> list[float]:
    """The list itself, if it is one of finite numbers; else ModelFileError."""
    if not isinstance(values, list) or not all(
        (type(v) is float and math.isfinite(v)) or (type(v) is int and -_LARGEST <= v <= _LARGEST) for v in values
    ):
        refuse(name, "not a list of finite numbers")
    return values


def tensor_of(
    tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], dtype: torch.dtype, *, finite: bool = True
) -> Tensor:
    """The tensor of that name, if it has this shape and type and is finite; else ModelFileError."""
    tensor = tensors.get(name)
    if tensor is None:
        refuse(name, "missing")
    if tuple(tensor.shape) != shape or tensor.dtype != dtype:
        refuse(name, f"{tensor.dtype} of shape {list(tensor.shape)} instead of {dtype} of shape {list(shape)}")
    if finite and not bool(torch.isfinite(tensor).all()):
        refuse(name, "not finite")
    return tensor.cpu()


def encode_names(names: NDArray[np.object_] | None) -> list[str] | None:
    """Names of columns as JSON, where there are some."""
    return None if names is None else [str(name) for name in names]


def decode_names(info: Mapping[str, Any], entry: str, count: int) -> NDArray[np.object_] | None:
    """Names of columns, where the file has them; ModelFileError for other than `count`."""
    values = info.get(entry)
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != count or not all(isinstance(v, str) for v in values):
        refuse(entry, f"not {count} names")
    return np.array(values, dtype=object)


def encode_classes(classes: NDArray[Any] | None, rows: NDArray[Any] | None) -> dict[str, Any] | None:
    """Labels as JSON, with their type and the number of rows of each, where there are some."""
    if classes is None or rows is None:
        return None
    kind = {"U": "str", "O": "object"}.get(classes.dtype.kind, classes.dtype.name)
    return {"dtype": kind, "values": classes.tolist(), "rows": rows.tolist()}


def decode_classes(info: Mapping[str, Any]) -> tuple[NDArray[Any], NDArray[np.int64] | FloatArray]:
    """The labels of a classifier, in ascending order, and their rows or weights; ModelFileError for anything else."""
    entry = typed(info, "classes", dict)
    values, kind, rows = entry.get("values"), entry.get("dtype"), entry.get("rows")
    types = {"str": str, "object": str, "bool": bool, **dict.fromkeys(_WHOLE, int), **dict.fromkeys(_FLOATS, float)}
    if entry.keys() != {"dtype", "values", "rows"} or not isinstance(kind, str) or kind not in types:
        refuse("classes", "not a set of labels")
    if not isinstance(values, list) or not 2 <= len(values) <= MAX_CLASSES:
        refuse("classes", "not a list of labels")
    if not all(type(value) is types[kind] for value in values) or any(a >= b for a, b in itertools.pairwise(values)):
        refuse("classes", "not made of different labels of one type, in ascending order")
    if not isinstance(rows, list) or len(rows) != len(values):
        refuse("classes", "without rows")
    if all(type(count) is float and 0.0 < count < math.inf for count in rows):
        counts = np.array(rows, dtype=np.float64)
    else:
        counts = np.array([check_whole("classes", count, 1, 2**53) for count in rows], dtype=np.int64)
    try:
        return np.array(values, dtype=kind), counts
    except OverflowError:
        refuse("classes", f"too large for {kind}")


def typed(info: Mapping[str, Any], name: str, kind: type[E]) -> E:
    """The entry of that name, if it is exactly of this type; else ModelFileError."""
    value = info.get(name)
    if type(value) is not kind:
        refuse(name, "missing" if name not in info else f"not a {kind.__name__}")
    return value


def whole(info: Mapping[str, Any], name: str, low: int, high: int) -> int:
    """The entry of that name, if it is a whole number in this range; else ModelFileError."""
    return check_whole(name, info.get(name), low, high)


def check_whole(name: str, value: Any, low: int, high: int) -> int:
    """`value`, or ModelFileError unless it is a whole number in this range."""
    if type(value) is not int or not low <= value <= high:
        refuse(name, f"{value!r:.60} instead of a whole number from {low} to {high}")
    return value


def refuse(name: str, what: str) -> NoReturn:
    """Raise ModelFileError about the entry of that name."""
    raise ModelFileError(f"its entry {name!r} is {what}. Save the model again, or fetch a fresh copy.")
