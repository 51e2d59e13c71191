"""The errors and warnings that sodgp raises, in one small hierarchy.

Every message says what happened, where (layer, column, row), and what to try.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

__all__ = [
    "CheckpointError",
    "CheckpointWarning",
    "CholeskyError",
    "ConfigurationError",
    "GradientError",
    "InputError",
    "InputTypeError",
    "ModelFileError",
    "NumericalError",
    "NumericalWarning",
    "RanksError",
    "ResourceError",
    "SamplerDivergedError",
    "SodgpError",
    "SodgpWarning",
    "SubsetSizeWarning",
    "TableWarning",
    "WorkerError",
]

# Control characters, with which a name could drive a terminal, marks that turn the direction of text, and halves of
# characters, which no stream takes.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, *, one_line: bool = False) -> str:
    r"""Text that is safe on a terminal: control characters as escapes, with `one_line` also ends of lines.

    Names of columns come from files of strangers. Every message and every line that the program prints goes through
    this function; JSON, too, where the escapes are read back as what they were.

    Examples
    --------
    >>> printable("age\x1b[2J"), printable("two\nlines", one_line=True)
    ('age\\u001b[2J', 'two\\u000alines')
    """
    escaped = _CONTROL.sub(_escape, text)
    return re.sub("[\t\n]", _escape, escaped) if one_line else escaped


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class SodgpError(Exception):
    """Base class of every error raised on purpose by sodgp.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> try:
    ...     DeepGPRegressor(n_layers=0).fit([[0.0], [1.0]], [0.0, 1.0])
    ... except SodgpError as error:
    ...     print(error)
    n_layers must be an integer of at least 1, not 0.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class InputError(SodgpError, ValueError):
    """Data that cannot be used: NaN, text, wrong columns, empty files.

    Examples
    --------
    >>> from sodgp.predictive.metrics import rmse
    >>> rmse([1.0, float("nan")], [1.0, 2.0])
    Traceback (most recent call last):
    sodgp.errors.InputError: y has 1 value(s) that are missing (NaN), the first nan at index [1]
    """


class InputTypeError(InputError, TypeError):
    """Data that cannot be turned into numbers: dictionaries, sets and other objects in the cells.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> DeepGPRegressor().fit([[{"a": 1}], [{"a": 2}]], [0.0, 1.0])
    Traceback (most recent call last):
    sodgp.errors.InputTypeError: float() argument must be a string or a real number, not 'dict'
    """


class ConfigurationError(SodgpError, ValueError):
    """An option that is unknown, out of range, or unused by the chosen method.

    Examples
    --------
    >>> from sodgp.selectors import get_selector
    >>> get_selector("kmean")
    Traceback (most recent call last):
    sodgp.errors.ConfigurationError: Unknown subset selector 'kmean'; choose one of 'kmeans', ...
    """


class NumericalError(SodgpError, ArithmeticError):
    """Training or prediction left the range of floating-point numbers.

    Attributes
    ----------
    kept : list of sodgp.training.run.FitResult
        The last good parameters of every model when training gave up. Empty elsewhere.
    histories : list of History
        The course of training of every model until then.

    Examples
    --------
    >>> error = NumericalError("the bound is not finite.")
    >>> error.kept, error.histories
    ([], [])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.kept: list[Any] = []
        self.histories: list[Any] = []


class CholeskyError(NumericalError):
    """A covariance matrix could not be factorised, even with the largest jitter.

    Parameters
    ----------
    message : str
    layer : int or None
        GP layer, counted from 1.
    sample : int or None
        Flat index of the first matrix of the batch that failed: the Monte Carlo sample, without replicates.
    condition : float
        Estimated condition number of that matrix; ``nan`` if it holds non-finite values.

    Examples
    --------
    >>> error = CholeskyError("K_SS could not be factorised.", layer=2, condition=1e18)
    >>> error.layer, error.condition
    (2, 1e+18)
    """

    def __init__(self, message: str, *, layer: int | None = None, sample: int | None = None, condition: float) -> None:
        super().__init__(message)
        self.layer, self.sample, self.condition = layer, sample, condition

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickling passes positional arguments only; without this the error could not cross between processes.
        return partial(type(self), condition=self.condition), self.args, vars(self)


class GradientError(NumericalError):
    """A gradient is NaN, infinite or too large to square; the step was not taken.

    Examples
    --------
    >>> issue = GradientError("the gradient of the lengthscale is NaN.")
    >>> issue.kept  # after a fit: the last good parameters
    []
    """


class SamplerDivergedError(NumericalError):
    """A sampler diverged, with its own step size and with smaller ones.

    Examples
    --------
    >>> print(SamplerDivergedError("the sampler diverged with step_size=0.1."))
    the sampler diverged with step_size=0.1.
    """


class ResourceError(SodgpError, MemoryError):
    """More memory, or room on a disk, is needed than there is.

    Parameters
    ----------
    message : str
    needed, available : int or None
        Bytes, where they are known.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> model = DeepGPRegressor(max_iter=1, n_predict_samples=10**9).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> model.predict([[0.5]])
    Traceback (most recent call last):
    sodgp.errors.ResourceError: a prediction needs about ... GB of memory on cpu, and ... GB are free. ...
    """

    def __init__(self, message: str, *, needed: int | None, available: int | None) -> None:
        super().__init__(message)
        self.needed, self.available = needed, available

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), needed=self.needed, available=self.available), self.args, vars(self)


class WorkerError(SodgpError, RuntimeError):
    """A process that trained a model died.

    Examples
    --------
    >>> print(WorkerError("a process that trained a model died."))
    a process that trained a model died.
    """


class RanksError(SodgpError, RuntimeError):
    """Processes that train one model have lost each other, differ, or one of them had an error.

    Examples
    --------
    >>> print(RanksError("rank 1 of 2 has gone."))
    rank 1 of 2 has gone.
    """


class ModelFileError(SodgpError, ValueError):
    """A model file that is missing, damaged, from a newer version, or not a model file.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> DeepGPRegressor.load("nowhere.sodgp")
    Traceback (most recent call last):
    sodgp.errors.ModelFileError: nowhere.sodgp does not exist. ...
    """


class CheckpointError(SodgpError, ValueError):
    """A checkpoint that belongs to other data or settings, cannot be read, or cannot be written anywhere.

    Examples
    --------
    >>> print(CheckpointError("the checkpoint in runs/first is of other data."))
    the checkpoint in runs/first is of other data.
    """


class SodgpWarning(UserWarning):
    """Base class of every warning given by sodgp.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", SodgpWarning)  # silence the library, and nothing else
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class SubsetSizeWarning(SodgpWarning):
    """The subset became smaller than the user asked for.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", SubsetSizeWarning)  # stop instead
    """


class TableWarning(SodgpWarning):
    """Rows of a table have levels or gaps that training had not; they were filled in.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", TableWarning)  # stop instead
    """


class NumericalWarning(SodgpWarning):
    """Training went on, but a numerical safeguard had to act or is likely to.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", NumericalWarning)  # stop instead
    """


class CheckpointWarning(SodgpWarning):
    """A checkpoint could not be written, was damaged, or is missing; training goes on.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", CheckpointWarning)  # stop rather than train without checkpoints
    """
