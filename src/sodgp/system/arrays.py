"""Numbers in any common container, as float64 arrays and tensors, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from sodgp.errors import InputError

Numbers = int | float | ArrayLike | torch.Tensor  # int and float for run-time checkers, which know no numeric tower
FloatArray = NDArray[np.float64]


def without_tensors(data: Any) -> Any:
    """Torch tensors as NumPy arrays; everything else as it is."""
    if not isinstance(data, torch.Tensor):
        return data
    values = data.detach().cpu()
    # NumPy has no bfloat16.
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


def to_array(values: Numbers, name: str) -> FloatArray:
    """Numbers of any common container as a float64 array of its own."""
    try:
        return np.array(without_tensors(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers only, in a rectangular array: {error}") from error


def to_tensor(values: Numbers, name: str, device: torch.device | None = None) -> torch.Tensor:
    """The same as a float64 tensor, on this device or its own."""
    if isinstance(values, torch.Tensor):
        return values.detach().to(device=device or values.device, dtype=torch.float64)
    return torch.from_numpy(to_array(values, name)).to(device or "cpu")


def to_numpy(values: torch.Tensor) -> FloatArray:
    """A float64 tensor as an array."""
    array: FloatArray = values.cpu().numpy()
    return array


def refuse_entries(bad: torch.Tensor, name: str, what: str, values: torch.Tensor | FloatArray) -> None:
    """Raise an InputError that names the first bad entry."""
    if bool(bad.any()):
        where = bad.nonzero()[0].tolist()
        count, value = int(bad.sum()), float(values[tuple(where)])
        raise InputError(f"{name} has {count} value(s) that are {what}, the first {value:g} at index {where}")
