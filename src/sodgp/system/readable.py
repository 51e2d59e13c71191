"""What cannot be read as an array of numbers without loss, found before NumPy reads it wrongly or fails untyped."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from sodgp.errors import InputError, InputTypeError
from sodgp.system.memory import first_line

__all__ = ["check_readable", "numbers_of_tensor"]

_NUMPYS = (torch.float16, torch.float32, torch.float64)


def check_readable(data: Any, name: str) -> None:
    """Raise InputError for masked entries, which NumPy takes for values, and InputTypeError for what is not dense.

    Examples
    --------
    >>> check_readable(np.ma.masked_equal([1.0, -99.0], -99.0), "y")
    Traceback (most recent call last):
    sodgp.errors.InputError: y is masked in 1 place(s), the first in row 1. Impute or drop those rows: ...
    """
    _refuse_masks(data, name)
    if scipy.sparse.issparse(data):
        raise InputTypeError(
            f"{name} is a sparse matrix; give {name}.toarray(). In a pipeline: OneHotEncoder(sparse_output=False), or"
            " ColumnTransformer(..., sparse_threshold=0)."
        )
    if not isinstance(data, torch.Tensor):
        return
    if data.layout != torch.strided or data.is_nested:
        raise InputTypeError(
            f"{name} is a sparse or ragged tensor, {data.layout}; give a dense one ({name}.to_dense())."
        )
    if data.is_meta:
        raise InputTypeError(
            f"{name} is a tensor on the device 'meta', where tensors have no values; give one that has."
        )
    if data.is_complex():
        raise InputError(f"{name}: Complex data not supported: give real and imaginary parts as separate columns.")


def numbers_of_tensor(data: torch.Tensor, name: str) -> NDArray[Any]:
    """The values of a tensor of any real type, on any device; InputTypeError for kinds that have no array."""
    check_readable(data, name)
    try:
        values = data.detach().cpu().resolve_neg()
        if values.is_floating_point() and values.dtype not in _NUMPYS:
            values = values.float()
        return values.numpy()
    except (RuntimeError, TypeError) as error:  # quantised, nested, masked, ...
        raise InputTypeError(f"{name} is a tensor that cannot be read: {first_line(error)}.") from error


def _refuse_masks(data: Any, name: str) -> None:
    """Masked arrays, and lists of such, with at least one masked entry."""
    if isinstance(data, np.ma.MaskedArray):
        masks = np.ma.getmaskarray(data)
    elif isinstance(data, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in data):
        rows = [np.ma.getmaskarray(row).any() if isinstance(row, np.ma.MaskedArray) else False for row in data]
        masks = np.array(rows)
    else:
        return
    if masks.any():
        row, *column = np.argwhere(np.atleast_1d(masks))[0].tolist()
        where = f"row {row}" + (f", column {column[0]}" if column else "")
        raise InputError(
            f"{name} is masked in {int(masks.sum())} place(s), the first in {where}. Impute or drop those rows:"
            " what is under a mask is no value."
        )
