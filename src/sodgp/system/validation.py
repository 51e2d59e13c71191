"""Users' numbers as float64 arrays and tensors, and checks of their data and options.

Each error says which is wrong and what to do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, validate_data

from sodgp.errors import ConfigurationError, InputError, InputTypeError, SodgpError
from sodgp.system.readable import check_readable, numbers_of_tensor

Numbers = int | float | ArrayLike | torch.Tensor  # int and float for run-time checkers, which know no numeric tower
FloatArray = NDArray[np.float64]


def without_tensors(data: Any, name: str = "the data") -> Any:
    """Torch tensors as NumPy arrays; everything else unchanged. InputError for what cannot be read without loss."""
    check_readable(data, name)
    return numbers_of_tensor(data, name) if isinstance(data, torch.Tensor) else data


def to_array(values: Numbers, name: str) -> FloatArray:
    """Numbers in any common container, copied to a float64 array."""
    plain = without_tensors(values, name)
    if isinstance(plain, np.ndarray | np.generic) and plain.dtype.kind == "c":
        raise InputError(f"{name}: Complex data not supported: give real and imaginary parts separately.")
    try:
        return np.array(plain, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must hold numbers only, in a rectangular array: {error}") from error


def to_rows(data: Any, name: str = "X") -> NDArray[Any]:
    """A table without column names as an array whose rows can be taken; what is in it is checked later."""
    with _explained(**{name: data}):
        return np.asarray(without_tensors(data, name))


def to_tensor(values: Numbers, name: str, device: torch.device | None = None) -> torch.Tensor:
    """Numbers in any common container as a float64 tensor on this device; by default a tensor stays where it is."""
    if isinstance(values, torch.Tensor):
        check_readable(values, name)
        return values.detach().to(device=device or values.device, dtype=torch.float64)
    return torch.from_numpy(to_array(values, name)).to(device or "cpu")


def to_numpy(values: torch.Tensor) -> FloatArray:
    """A float64 tensor as an array."""
    array: FloatArray = values.cpu().numpy()
    return array


def refuse_entries(
    bad: torch.Tensor | NDArray[np.bool_], name: str, what: str, values: torch.Tensor | FloatArray
) -> None:
    """Raise an InputError that names the first bad entry."""
    if bool(bad.any()):
        where = (torch.nonzero(bad) if isinstance(bad, torch.Tensor) else np.argwhere(bad))[0].tolist()
        count, value = int(bad.sum()), float(values[tuple(where)])
        raise InputError(f"{name} has {count} value(s) that are {what}, the first {value:g} at index {where}")


def check_fit_data(estimator: BaseEstimator, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    """X as [N, D] and y as [N] or [N, P], float64; InputError that says where the data cannot be used.

    y is copied, X only where it is not such an array already: it must not be changed.
    """
    X, y = without_tensors(X, "X"), without_tensors(y, "y")
    with _explained(X=X, y=y):
        _refuse_text(X, "X")
        _refuse_text(y, "y")
        X_checked, y_checked = validate_data(
            estimator, X, y, dtype=np.float64, order="C", multi_output=True, y_numeric=True
        )
        y_array = np.array(y_checked, dtype=np.float64, order="C")
        # scikit-learn looks for NaN before it makes numbers of objects, among which None becomes one.
        if not np.isfinite(y_array).all():
            raise ValueError("Input y contains NaN or infinity.")
        return X_checked, y_array


def check_targets(y: Any) -> FloatArray:
    """Targets to compare with, [N] or [N, P] float64; InputError as in `check_fit_data`."""
    y = without_tensors(y, "y")
    with _explained(y=y):
        _refuse_text(y, "y")
        return check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")


def check_predict_data(estimator: BaseEstimator, X: Any) -> FloatArray:
    """X as [N, D] float64 with the number and the names of the columns in `fit`; InputError as in `check_fit_data`."""
    X = without_tensors(X, "X")
    with _explained(X=X):
        _refuse_text(X, "X")
        return validate_data(estimator, X, dtype=np.float64, order="C", reset=False)


def check_noise_variance(values: Numbers, shape: tuple[int, ...]) -> FloatArray:
    """Noise variances, given as one number, one a row or one a target, as a float64 array of the targets' [N, P]."""
    array = to_array(values, "noise_variance")
    if array.ndim == 1:
        array = array[:, None]
    if array.shape not in ((), (shape[0], 1), tuple(shape)):
        raise InputError(
            f"noise_variance must be one number, {shape[0]} (one for each row), or have the shape {list(shape)} of y;"
            f" got {list(np.shape(values))}."
        )
    bad = ~np.isfinite(array) | (array < 0)
    if bad.any():
        place = np.argwhere(np.atleast_2d(bad))[0].tolist()
        raise InputError(
            f"noise_variance is negative or not finite in {int(bad.sum())} place(s), the first in row {place[0]}: give"
            " variances, in squared units of y."
        )
    return np.broadcast_to(array, shape)


def check_sample_weight(values: Numbers, n_rows: int) -> FloatArray:
    """Weights of rows as a float64 array [N]; InputError unless they are finite, not negative and not all zero."""
    array = to_array(values, "sample_weight")
    if array.shape != (n_rows,):
        raise InputError(
            f"sample_weight must have one number for each of {n_rows} rows, the shape [{n_rows}], not"
            f" {list(array.shape)}."
        )
    bad = ~np.isfinite(array) | (array < 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"sample_weight is negative or not finite in {int(bad.sum())} row(s), the first {array[row]:g} in row"
            f" {row}: give numbers from zero on; zero leaves a row out."
        )
    with np.errstate(over="ignore"):
        total = array.sum()
    if not 0.0 < total < np.inf:
        what = "the sum of sample_weight overflows" if total else "sample_weight is zero in all rows"
        raise InputError(f"{what}: at least one row must count, and weights are relative to one observation.")
    return array


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise ConfigurationError unless `value` is one of `choices`."""
    if value not in choices:
        raise ConfigurationError(f"{name}={value!r} is unknown; choose one of {', '.join(map(repr, choices))}.")


def check_integer(name: str, value: Any, *, minimum: int) -> int:
    """`value` as an int, or ConfigurationError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ConfigurationError(f"{name} must be an integer of at least {minimum}, not {value!r:.100}.")
    return int(value)


def check_share(name: str, value: Any) -> float:
    """`value` as a float from 0 to 1, or ConfigurationError."""
    if type(value) is bool or not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:
        raise ConfigurationError(f"{name}={value!r} must be a number from 0 to 1.")
    return float(value)


def check_positive(name: str, value: Any) -> float:
    """`value` as a positive, finite float, or ConfigurationError."""
    good = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    try:
        number = float(value) if good else math.nan
    except OverflowError:
        number = math.inf
    if not 0.0 < number < math.inf:
        raise ConfigurationError(f"{name} must be a positive number, not {value!r:.100}.")
    return number


def check_flag(name: str, value: Any) -> bool:
    """`value` as a bool, or ConfigurationError: the text "no" is not False."""
    if not isinstance(value, bool | np.bool_):
        raise ConfigurationError(f"{name} must be True or False, not {value!r}.")
    return bool(value)


def check_threads(n_threads: Any) -> int | str | None:
    """CPU threads: a number, "auto", or None for PyTorch's setting; else ConfigurationError."""
    if isinstance(n_threads, str) and n_threads != "auto":
        raise ConfigurationError(f"n_threads={n_threads!r} is unknown; give a number of threads, 'auto' or None.")
    return n_threads if n_threads in (None, "auto") else check_integer("n_threads", n_threads, minimum=1)


def resolve_device(device: str | torch.device) -> torch.device:
    """The device that ``"auto"``, a name or a torch.device stands for, or ConfigurationError."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"device={device!r:.100} is unknown; use 'auto', 'cpu' or 'cuda'.") from error
    if resolved.type not in ("cpu", "cuda"):
        raise ConfigurationError(f"device={device!r} is not supported; use 'auto', 'cpu' or 'cuda'.")
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ConfigurationError(f"device={device!r} was asked for, but this PyTorch sees no CUDA device.")
    return resolved


def seed_from(random_state: int | np.random.Generator | np.random.RandomState | None) -> int:
    """A seed from an integer, a NumPy generator or, for None, fresh entropy; InputError for anything else."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise InputError(f"random_state: {error}.") from error


def _refuse_text(data: Any, name: str) -> None:
    """Name the columns that hold text or dates: scikit-learn names only the first bad cell."""
    if hasattr(data, "dtypes") and hasattr(data, "columns"):
        text = [repr(str(column)) for column in data.columns if _is_text(data[column])]
    elif hasattr(data, "to_numpy") and hasattr(data, "dtype") and getattr(data, "ndim", 1) == 1:  # a series, an index
        text = [repr(str(data.name)) if getattr(data, "name", None) is not None else "0"] if _is_text(data) else []
    else:
        values = np.asarray(data) if isinstance(data, np.ndarray | list) else None
        if values is not None and values.ndim == 1:
            values = values[:, None]
        if values is None or values.ndim != 2 or values.dtype.kind not in "OSUmM":
            return
        text = [str(number) for number, column in enumerate(values.T) if _is_text(column)]
    if text:
        advice = (
            "Classes need DeepGPClassifier; a regression needs numbers, such as days since a date."
            if name == "y"
            else "Give them in a data frame to a model with columns='auto', or make numbers of them, or drop them."
        )
        raise InputError(f"{name} holds text or dates in column{'s' * (len(text) > 1)} {', '.join(text)}. {advice}")


def _is_text(column: ArrayLike) -> bool:
    """Whether a column, an array or a series, holds text or dates."""
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    # Two dimensions: duplicate column names give a frame; scikit-learn's own check follows.
    if kind in "biufc" or getattr(column, "ndim", 1) != 1:
        return False
    if kind in "mM":
        return True
    try:
        np.asarray(column, dtype=np.float64)
    except ValueError:
        return True
    except (TypeError, OverflowError):  # neither text nor a number that fits: scikit-learn's own message follows
        return False
    return False


@contextmanager
def _explained(**named: Any) -> Iterator[None]:
    """Raise scikit-learn's and NumPy's errors as ours, with the place of NaN and infinity added."""
    try:
        yield
    except SodgpError:
        raise
    except OverflowError as error:
        raise InputError(
            f"{' or '.join(named)} holds a whole number beyond the largest of float64, 1.8e308: correct it, or give"
            " larger units."
        ) from error
    except (ValueError, TypeError) as error:
        message = str(error)
        if message.startswith("Complex data"):
            message = "Complex data not supported: give real and imaginary parts as separate columns."
        elif "inhomogeneous" in message:
            message = f"{' or '.join(named)} has rows of different lengths, or no rectangular shape: {message}"
        elif "NaN" in message or "infinity" in message:
            places = [(name, _first_bad(data)) for name, data in named.items()]
            message += "".join(
                f"\n{x} is not finite in {place}. Impute or drop those rows." for x, place in places if place
            )
        raise (InputError if isinstance(error, ValueError) else InputTypeError)(message) from error


def _first_bad(data: ArrayLike | None) -> str:
    """Rows and columns of NaN and infinity, in words; empty if there are none."""
    if data is None:
        return ""
    try:
        # pandas' own missing value has no place in an array of floats.
        to_numpy = getattr(data, "to_numpy", None) if hasattr(data, "iloc") else None
        values = np.asarray(data, dtype=np.float64) if to_numpy is None else to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError, OverflowError):
        return ""
    bad = ~np.isfinite(values.reshape(len(values), -1))
    if not bad.any():
        return ""
    names = getattr(data, "columns", None)
    columns = [str(names[c]) if names is not None else str(c) for c in np.flatnonzero(bad.any(0))[:5]]
    rows = np.flatnonzero(bad.any(1))
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    where = f"rows {', '.join(map(str, rows[:5]))}{more}"
    return where if values.ndim == 1 else f"columns {', '.join(columns)}; {where}"
