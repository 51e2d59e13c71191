"""GPyTorch kernels as plain JSON, and back: what a model file holds of a kernel that was given as code.

A description is a tree of dictionaries, one per part of the kernel: its type, constructor arguments, and for every
parameter the initial raw values, constraint and prior. Only the GPyTorch classes listed here can be described. A
description may come from an untrusted file, so every number in it is checked.

Adding a kernel: enter its class in ``_PARTS`` with the names of its parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import torch
from gpytorch import constraints, kernels, priors
from gpytorch.kernels import Kernel
from torch import Tensor

from sodgp.errors import ConfigurationError, ModelFileError
from sodgp.kernels.make import inputs_with_values

Description = dict[str, Any]
Part: TypeAlias = constraints.Interval | priors.Prior

_MAX_PARTS = 100
_PARTS: dict[str, tuple[type, tuple[str, ...]]] = {
    "rbf": (kernels.RBFKernel, ("lengthscale",)),
    "matern": (kernels.MaternKernel, ("lengthscale",)),
    "rq": (kernels.RQKernel, ("lengthscale", "alpha")),
    "periodic": (kernels.PeriodicKernel, ("lengthscale", "period_length")),
    "linear": (kernels.LinearKernel, ("variance",)),
    "scale": (kernels.ScaleKernel, ("outputscale",)),
    "sum": (kernels.AdditiveKernel, ()),
    "product": (kernels.ProductKernel, ()),
}
_NAMES = {cls: name for name, (cls, _) in _PARTS.items()}
_BOUNDS: dict[str, tuple[type, tuple[str, ...]]] = {
    "positive": (constraints.Positive, ()),
    "greater_than": (constraints.GreaterThan, ("lower_bound",)),
    "less_than": (constraints.LessThan, ("upper_bound",)),
    "interval": (constraints.Interval, ("lower_bound", "upper_bound")),
}
_PRIORS: dict[str, tuple[type, tuple[str, ...]]] = {
    "gamma": (priors.GammaPrior, ("concentration", "rate")),
    "normal": (priors.NormalPrior, ("loc", "scale")),
    "log_normal": (priors.LogNormalPrior, ("loc", "scale")),
    "uniform": (priors.UniformPrior, ("low", "high")),
    "half_normal": (priors.HalfNormalPrior, ("scale",)),
    "half_cauchy": (priors.HalfCauchyPrior, ("scale",)),
}
_SMOOTHNESS = (0.5, 1.5, 2.5)


@dataclass(frozen=True)
class DescribedKernel:
    """The kernel function of a model from a file: the kernels of that model's layers, by number of inputs."""

    descriptions: Mapping[int, Description]

    def __call__(self, input_dim: int) -> Kernel:
        """A fresh kernel for a layer with that many inputs; ConfigurationError if the model in the file had none."""
        if input_dim not in self.descriptions:
            known = " or ".join(map(str, sorted(self.descriptions)))
            raise ConfigurationError(
                f"the kernel of a loaded model is known for layers with {known} inputs only, not {input_dim}: its file"
                " holds no code. Give kernel= again to fit to other columns or widths."
            )
        return built(self.descriptions[input_dim], input_dim)


def described(kernel: Kernel) -> Description:
    """The description of a kernel without replicates; ModelFileError, which names it, for a part that has none."""
    name = _NAMES.get(type(kernel))
    if name is None:
        known = ", ".join(cls.__name__ for cls, _ in _PARTS.values())
        raise ModelFileError(f"{type(kernel).__name__} is not one of {known}")
    _, parameters = _PARTS[name]
    raw = {entry.removeprefix("raw_") for entry, _ in kernel.named_parameters(recurse=False)}
    extra = sorted(raw - set(parameters)) + sorted(set(kernel._priors) - {f"{entry}_prior" for entry in parameters})
    if extra or kernel.batch_shape:
        raise ModelFileError(f"{type(kernel).__name__} has {extra[0] if extra else 'a batch shape'} of its own")
    tree: Description = {"type": name, "parameters": {entry: _parameter(kernel, entry) for entry in parameters}}
    ard_num_dims = inputs_with_values(kernel)
    if ard_num_dims is not None:
        tree["ard_num_dims"] = ard_num_dims
    if kernel.active_dims is not None and name != "scale":  # GPyTorch's scale kernel takes those of its base
        tree["active_dims"] = kernel.active_dims.tolist()
    if name == "matern":
        tree["nu"] = float(kernel.nu)
    if name == "scale":
        tree["parts"] = [described(kernel.base_kernel)]
    if name in ("sum", "product"):
        tree["parts"] = [described(part) for part in kernel.kernels]
    return tree


def built(tree: Any, input_dim: int) -> Kernel:
    """The kernel of a description, for `input_dim` inputs; ModelFileError for what `described` cannot have made."""
    return _built(tree, input_dim, [_MAX_PARTS])


def _built(tree: Any, input_dim: int, parts_left: list[int]) -> Kernel:
    parts_left[0] -= 1
    if parts_left[0] < 0:
        _refuse(f"of more than {_MAX_PARTS} parts")
    if not isinstance(tree, dict) or not isinstance(tree.get("type"), str) or tree["type"] not in _PARTS:
        _refuse("of an unknown type")
    name = tree["type"]
    cls, parameters = _PARTS[name]
    if not tree.keys() <= {"type", "parameters", "ard_num_dims", "active_dims", "nu", "parts"}:
        _refuse("with unknown entries")
    options: dict[str, int | float | tuple[int, ...] | Part] = {}
    dims = input_dim
    if "active_dims" in tree:
        columns = tree["active_dims"]
        if not isinstance(columns, list) or not 0 < len(columns) <= input_dim:
            _refuse("with wrong active_dims")
        if not all(type(column) is int and 0 <= column < input_dim for column in columns):
            _refuse(f"that looks at columns other than the {input_dim} there are")
        options["active_dims"], dims = tuple(columns), len(columns)
    if "ard_num_dims" in tree:
        if type(tree["ard_num_dims"]) is not int or tree["ard_num_dims"] != dims:
            _refuse(f"with lengthscales for {tree['ard_num_dims']!r:.40} inputs instead of {dims}")
        options["ard_num_dims"] = dims
    if name == "matern":
        if type(tree.get("nu")) is not float or tree["nu"] not in _SMOOTHNESS:
            _refuse("of an unknown smoothness nu")
        options["nu"] = tree["nu"]
    entries = tree.get("parameters")
    if not isinstance(entries, dict) or entries.keys() != set(parameters):
        _refuse(f"{name!r} with other parameters than {', '.join(parameters) or 'none'}")
    for entry in parameters:
        options |= _constructor_options(entry, entries[entry])
    inner = tree.get("parts", [])
    if not isinstance(inner, list) or bool(inner) != (name in ("scale", "sum", "product")):
        _refuse("with wrong parts")
    if name in ("sum", "product"):
        if len(options) or not inner:
            _refuse("with options that sums and products do not have")
        kernel = cls(*(_built(part, input_dim, parts_left) for part in inner))
    elif name == "scale":
        if len(inner) != 1:
            _refuse("with wrong parts")
        kernel = cls(_built(inner[0], input_dim, parts_left), **options)
    else:
        kernel = cls(**options)
    for entry in parameters:
        _fill(kernel, entry, entries[entry])
    return kernel


def _parameter(kernel: Kernel, entry: str) -> Description:
    """Raw values, constraint and prior of one parameter."""
    raw: Tensor = getattr(kernel, f"raw_{entry}")
    found: Description = {"raw": raw.detach().cpu().double().tolist(), "constraint": _constraint(kernel, entry)}
    prior = kernel._priors.get(f"{entry}_prior")
    if prior is not None:
        found["prior"] = _prior(kernel, entry, prior[0])
    return found


def _constraint(kernel: Kernel, entry: str) -> Description:
    constraint = getattr(kernel, f"raw_{entry}_constraint")
    for name, (cls, bounds) in _BOUNDS.items():
        if type(constraint) is not cls:
            continue
        values = {bound: _number(getattr(constraint, bound)) for bound in bounds}
        usual = cls(*(0.0, 1.0)[: len(bounds)])
        # Functions print with their address, modules with their settings.
        same = all(repr(getattr(constraint, f)) == repr(getattr(usual, f)) for f in ("_transform", "_inv_transform"))
        if same and None not in values.values():
            return {"type": name, **values}
    raise ModelFileError(
        f"the constraint of {entry} of {type(kernel).__name__} is not a GPyTorch constraint with one number for each"
        " bound and the usual transform"
    )


def _prior(kernel: Kernel, entry: str, prior: priors.Prior) -> Description:
    for name, (cls, numbers) in _PRIORS.items():
        if type(prior) is cls and getattr(prior, "_transform", None) is None:
            values = {number: _number(getattr(prior, number)) for number in numbers}
            if None not in values.values():
                return {"type": name, **values}
    known = ", ".join(cls.__name__ for cls, _ in _PRIORS.values())
    raise ModelFileError(f"the prior on {entry} of {type(kernel).__name__} is not one of {known} with single numbers")


def _number(value: float | Tensor) -> float | None:
    tensor = torch.as_tensor(value).detach()
    return float(tensor) if tensor.numel() == 1 and bool(torch.isfinite(tensor)) else None


def _constructor_options(entry: str, described_as: Any) -> dict[str, Part]:
    """Constraint and prior of a parameter, as GPyTorch's constructors want them."""
    required = {"raw", "constraint"}
    if not isinstance(described_as, dict) or not required <= described_as.keys() <= required | {"prior"}:
        _refuse(f"whose {entry} is not described by raw values, constraint and prior")
    options = {f"{entry}_constraint": _made(_BOUNDS, described_as["constraint"], f"constraint of {entry}")}
    if "prior" in described_as:
        if entry == "alpha":  # GPyTorch knows no prior here
            _refuse("with a prior on alpha")
        options[f"{entry}_prior"] = _made(_PRIORS, described_as["prior"], f"prior on {entry}")
    return options


def _made(table: Mapping[str, tuple[type, tuple[str, ...]]], entry: Any, what: str) -> Part:
    if not isinstance(entry, dict) or not isinstance(entry.get("type"), str) or entry["type"] not in table:
        _refuse(f"whose {what} is unknown")
    cls, numbers = table[entry["type"]]
    values = {name: value for name, value in entry.items() if name != "type"}
    if values.keys() != set(numbers) or not all(type(v) is float and math.isfinite(v) for v in values.values()):
        _refuse(f"whose {what} has other entries than {', '.join(numbers) or 'none'}")
    try:
        return cls(*(values[name] for name in numbers))
    except (ValueError, RuntimeError, TypeError) as error:
        raise ModelFileError(f"its kernel has an impossible {what}: {error}.") from error


def _fill(kernel: Kernel, entry: str, described_as: Description) -> None:
    """Give a new kernel the raw values and, digit by digit, the bounds of its description; in double precision."""
    raw = getattr(kernel, f"raw_{entry}")
    try:
        values = torch.tensor(described_as["raw"], dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ModelFileError(f"its kernel has a {entry} that is not made of numbers.") from error
    if values.shape != raw.shape or not bool(torch.isfinite(values).all()):
        _refuse(f"whose {entry} has the wrong shape or is not finite")
    raw.data = values
    constraint = getattr(kernel, f"raw_{entry}_constraint").double()
    for bound, value in described_as["constraint"].items():
        if bound != "type":
            getattr(constraint, bound).fill_(value)


def _refuse(what: str) -> NoReturn:
    raise ModelFileError(f"it describes a kernel {what}. Save the model again, or fetch a fresh copy.")
