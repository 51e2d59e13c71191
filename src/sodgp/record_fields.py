"""Single entries of a record: written in plain JSON, and checked when they come back from a file nobody vouches for."""

from __future__ import annotations

import dataclasses
import inspect
import math
import warnings
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from torch import Tensor

from sodgp.architecture import Initialization
from sodgp.errors import ModelFileError, SodgpWarning
from sodgp.subset import SELECTORS
from sodgp.subset.auto import Auto
from sodgp.training.loop import History

E = TypeVar("E")


def encode_parameters(estimator: Any) -> dict[str, Any]:
    """Constructor arguments of an estimator as JSON; ModelFileError for one that cannot be written."""
    return {name: _encode(name, value) for name, value in estimator.get_params(deep=False).items()}


def _encode(name: str, value: Any) -> Any:
    if name == "callbacks" or (name == "random_state" and not isinstance(value, int | np.integer)):
        return None
    if name == "kernel" and not isinstance(value, str):
        raise ModelFileError(
            "a kernel given as a function cannot be stored in a model file, which holds no code. Use a kernel by name,"
            " or keep the estimator with pickle or joblib, beside the code of its kernel."
        )
    if name == "subset" and not isinstance(value, str):
        known = next((key for key, selector in SELECTORS.items() if type(value) is selector), None)
        if known is not None:
            return {"selector": known, "options": dataclasses.asdict(value)}
        warnings.warn(
            f"subset={value!r} is not from sodgp.subset and is not stored; the loaded model has subset='kmeans'. Its"
            " predictions stay the same.",
            SodgpWarning,
            stacklevel=2,
        )
        return "kmeans"
    if name == "subset_size" and isinstance(value, Auto):
        return {"auto": dataclasses.asdict(value)}
    if isinstance(value, Initialization):
        return {"initialization": dataclasses.asdict(value)}
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_encode(name, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ModelFileError(f"{name}={value!r} cannot be stored in a model file; use a number, text or None.")


def decode_parameters(cls: type, parameters: dict[str, Any]) -> dict[str, Any]:
    """Constructor arguments for `cls` from JSON; those that a newer or older file lacks keep their defaults."""
    known = inspect.signature(cls).parameters
    unknown = sorted(parameters.keys() - known.keys())
    if unknown:
        refuse(f"parameters.{unknown[0]}", "unknown to this version of sodgp")
    return {name: _decode(name, value) for name, value in parameters.items()}


def _decode(name: str, value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"selector", "options"} and name == "subset":
        selector, options = value["selector"], value["options"]
        if not isinstance(selector, str) or selector not in SELECTORS:
            refuse(name, "an unknown selector")
        return _from_fields(name, SELECTORS[selector], options)
    if isinstance(value, dict) and value.keys() == {"auto"} and name == "subset_size":
        return _from_fields(name, Auto, value["auto"])
    if isinstance(value, dict) and value.keys() == {"initialization"} and name == "initialization":
        return _from_fields(name, Initialization, value["initialization"])
    if isinstance(value, list) and all(type(item) in (int, float, str) for item in value):
        return value
    if value is not None and not isinstance(value, bool | int | float | str):
        refuse(f"parameters.{name}", "not a number, text or None")
    return value


def _from_fields(name: str, cls: type[E], fields: Any) -> E:
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
        if field.name == "reselections":
            history.reselections = _reselections(entries.get(field.name, []))
            continue
        value, default = entries.get(field.name), getattr(history, field.name)
        if field.name not in entries or type(value) is not type(default):
            refuse(f"history.{field.name}", "missing or of the wrong type")
        for numbers in [value] if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []:
            if not isinstance(numbers, list) or not all(type(v) in (int, float) and math.isfinite(v) for v in numbers):
                refuse(f"history.{field.name}", "not a list of finite numbers")
            lengths.add(len(numbers))
        setattr(history, field.name, value)
    if len(lengths) != 1 or not all(type(number) is int for number in history.iteration):
        refuse("history", "made of lists of several lengths, or counts iterations in fractions")
    return history


def _reselections(entries: Any) -> list[dict[str, Any]]:
    """Checked entries of `History.reselections`; files from before there were any have none."""
    kinds = {"iteration": int, "bound_before": float, "bound_after": float, "n_changed": int, "variant": str}
    if not isinstance(entries, list):
        refuse("history.reselections", "not a list")
    for entry in entries:
        good = isinstance(entry, dict) and {name: type(value) for name, value in entry.items()} == kinds
        if not good or not all(math.isfinite(entry[name]) for name in ("bound_before", "bound_after")):
            refuse("history.reselections", "not made of iterations, finite bounds, numbers of rows and variants")
    return entries


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


def typed(info: Mapping[str, Any], name: str, kind: type[E]) -> E:
    """The entry of that name, if it is exactly of this type; else ModelFileError."""
    value = info.get(name)
    if type(value) is not kind:
        refuse(name, "missing" if name not in info else f"not a {kind.__name__}")
    return value


def whole(info: Mapping[str, Any], name: str, low: int, high: int) -> int:
    """The entry of that name, if it is a whole number in this range; else ModelFileError."""
    value = info.get(name)
    check_whole(name, value, low, high)
    return int(value)  # type: ignore[arg-type]


def check_whole(name: str, value: Any, low: int, high: int) -> None:
    """Raise ModelFileError unless `value` is a whole number in this range."""
    if type(value) is not int or not low <= value <= high:
        refuse(name, f"{value!r:.60} instead of a whole number from {low} to {high}")


def refuse(name: str, what: str) -> NoReturn:
    """Raise ModelFileError about the entry of that name."""
    raise ModelFileError(f"its entry {name!r} is {what}. Save the model again, or fetch a fresh copy.")
