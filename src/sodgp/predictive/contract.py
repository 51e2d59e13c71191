"""What every predictive distribution can do, and the units that it is converted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import InputError
from sodgp.system.validation import FloatArray, Numbers, refuse_entries, to_array

__all__ = ["Predictive", "Unitless", "Units", "aligned", "check_draws", "checked_levels"]


@dataclass(frozen=True)
class Units:
    """Original units of y: those of numbers, or the labels of classes.

    Attributes
    ----------
    scale, shift : ndarray of shape [P]
        y is ``scale * y + shift`` of its scaled self.
    is_vector : bool
        Whether results have the shape [N] and not [N, 1].
    classes : ndarray of shape [K], optional

    Examples
    --------
    >>> import numpy as np
    >>> Units(np.ones(1), np.zeros(1), is_vector=True).classes is None
    True
    """

    scale: FloatArray
    shift: FloatArray
    is_vector: bool
    classes: NDArray[Any] | None = None


@runtime_checkable
class Predictive(Protocol):
    """The distribution of y at N rows: `GaussianMixture`, `StudentMixture`, `CountMixture` or `ClassDistribution`."""

    @property
    def mean(self) -> FloatArray:
        """Mean of y, [N] or [N, P]; of classes their probabilities [N, K]."""

    @property
    def variance(self) -> FloatArray:
        """Variance of y; of classes that of their probabilities over draws of f."""

    @property
    def std(self) -> FloatArray:
        """Root of `variance`."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any) -> Predictive: ...

    def log_prob(self, y: Any) -> FloatArray:
        """Log density, or log probability, of observations."""

    def around_mean(self, factor: float) -> Predictive:
        """With the deviations from the mean multiplied by `factor`, where that has a meaning; 1 always has."""

    @classmethod
    def concatenate(cls, parts: Sequence[Any], /) -> Predictive:
        """The rows of all parts."""

    @classmethod
    def pool(cls, members: Sequence[Any], /) -> Predictive:
        """The equal mixture of many models' predictions of the same rows."""


@runtime_checkable
class Unitless(Protocol):
    """A distribution in a model's units, as a likelihood makes it."""

    def in_units(self, units: Units) -> Predictive:
        """The distribution of y in original units."""


def aligned(y: Numbers, shape: tuple[int, ...]) -> FloatArray:
    """Observations as an array of a distribution's shape, [N] or [N, P]; one number stands for all.

    Raises
    ------
    InputError
        They do not fit, or one is missing.
    """
    values = to_array(y, "y")
    values = np.full(shape, values) if values.ndim == 0 else values
    # The same thing where there is one output.
    is_column = shape[1:] in ((), (1,)) and values.shape in [shape[:1], (shape[0], 1)]
    if values.shape != shape and not is_column:
        raise InputError(f"y must have the distribution's shape, {list(shape)}; got {list(values.shape)}")
    refuse_entries(np.isnan(values), "y", "missing (NaN)", values)
    return values.reshape(shape)


def check_draws(n_samples: int) -> None:
    """InputError unless it is a number of draws."""
    if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 1:
        raise InputError(f"n_samples must be an integer of at least 1; got {n_samples!r:.100}")


def checked_levels(q: Numbers) -> FloatArray:
    """Probabilities, one or a list; InputError for others."""
    levels = to_array(q, "q")
    if levels.ndim > 1 or not np.all((levels >= 0) & (levels <= 1)):
        raise InputError(f"q must be one probability or a list of them, between 0 and 1; got {q!r}")
    return levels
