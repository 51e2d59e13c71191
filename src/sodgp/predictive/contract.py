"""What every predictive distribution can do, and the units that it is converted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from sodgp.system.validation import FloatArray

__all__ = ["Predictive", "Unitless", "Units"]


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
