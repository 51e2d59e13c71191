"""The errors and warnings that sodgp raises, in one small hierarchy.

Every message says what happened, where (layer, column, row), and what to try.
"""

from __future__ import annotations

from typing import Any


class SodgpError(Exception):
    """Base class of every error raised on purpose by sodgp."""


class InputError(SodgpError, ValueError):
    """Data that cannot be used: NaN, text, wrong columns, empty files."""


class ConfigurationError(SodgpError, ValueError):
    """An option that is unknown, out of range, or unused by the chosen method."""


class NumericalError(SodgpError, ArithmeticError):
    """Training or prediction left the range of floating-point numbers.

    Attributes
    ----------
    kept : list of (DeepGP, History)
        What training had when it gave up: the last good parameters of every model. Empty elsewhere.
    histories : list of History
        The course of every model until then.
    """

    kept: list[Any]
    histories: list[Any]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.kept = []
        self.histories = []


class CholeskyError(NumericalError):
    """A covariance matrix could not be factorised, even with the largest jitter.

    Parameters
    ----------
    message : str
        What happened and what to try.
    layer : int or None
        GP layer (counted from 1) whose matrix failed.
    sample : int or None
        Flat index of the first failing matrix in the batch (the Monte Carlo sample, without replicates).
    condition : float
        Estimated condition number of that matrix; ``nan`` when it holds non-finite values.
    """

    def __init__(self, message: str, *, layer: int | None = None, sample: int | None = None, condition: float) -> None:
        super().__init__(message)
        self.layer = layer
        self.sample = sample
        self.condition = condition


class SamplerDivergedError(NumericalError):
    """A sampler left every sane region, with its own step size and with smaller ones."""


class ModelFileError(SodgpError, ValueError):
    """A model file that is missing, damaged, from a newer version, or not a model file."""


class SodgpWarning(UserWarning):
    """Base class of every warning given by sodgp."""


class SubsetSizeWarning(SodgpWarning):
    """The subset became smaller than the user asked for."""


class NumericalWarning(SodgpWarning):
    """Training went on, but a numerical safeguard had to act or is likely to."""
