"""The base of distributions that are made of another one: of a transformed variable, or with other cdf levels."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtri

from sodgp.errors import InputError
from sodgp.predictive.contract import aligned, checked_levels
from sodgp.predictive.density import tail_probability
from sodgp.system.validation import FloatArray, Numbers

__all__ = ["Derived", "panels"]

# Normal scores of the quantiles between which integrals over y are taken, and nodes of Gauss and Legendre in each gap.
_SCORES = np.linspace(-6.0, 6.0, 25)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(6)

D = TypeVar("D", bound="Derived")


class Derived(ABC):
    """Base: distributions of N rows, and P outputs, whose results have the shape of those of `base`.

    Parameters
    ----------
    base : GaussianMixture or another distribution of numbers
    """

    def __init__(self, base: Any) -> None:
        self.base = base

    @abstractmethod
    def _with(self: D, base: Any) -> D:
        """A distribution of the same kind."""

    @abstractmethod
    def log_prob(self, y: Numbers) -> FloatArray:
        """Log density of every row and output at y, [N] or [N, P]."""

    @abstractmethod
    def cdf(self, y: Numbers) -> FloatArray:
        """Probability of a value up to y, in the shape of `log_prob`."""

    @abstractmethod
    def sf(self, y: Numbers) -> FloatArray:
        """Probability of a value above y, accurate where it is small."""

    @abstractmethod
    def quantile_at(self, scores: FloatArray) -> FloatArray:
        """Quantiles at levels of every row and output, as normal scores [..., N] or [..., N, P]."""

    @property
    @abstractmethod
    def mean(self) -> FloatArray:
        """Mean, [N] or [N, P]."""

    @property
    @abstractmethod
    def variance(self) -> FloatArray:
        """Variance, [N] or [N, P]."""

    @abstractmethod
    def sample(self, n_samples: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Draws, [n_samples, N] or [n_samples, N, P]."""

    # -----------------------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of results, (N,) or (N, P)."""
        shape: tuple[int, ...] = self.base.shape
        return shape

    @property
    def n_components(self) -> int:
        """Number of components of the mixture that it is made of."""
        return int(self.base.n_components)

    @property
    def n_outputs(self) -> int:
        """Number P of outputs."""
        return int(self.base.n_outputs)

    def __len__(self) -> int:
        return len(self.base)

    def __repr__(self) -> str:
        sizes = f"n_components={self.n_components}, n_rows={len(self)}, n_outputs={self.n_outputs}"
        return f"{type(self).__name__}({sizes})"

    def __getitem__(self: D, rows: Any) -> D:
        """Distribution of some rows (int, slice, integer or boolean array); an int keeps the row axis, of length 1."""
        return self._with(self.base[rows])

    @property
    def std(self) -> FloatArray:
        """Standard deviation, [N] or [N, P]."""
        return np.sqrt(self.variance)

    def quantile(self, q: Numbers) -> FloatArray:
        """Quantiles, [N] or [N, P] for a single q, with an axis in front for a list.

        Parameters
        ----------
        q : float or array of shape [Q]
            Between 0 and 1.
        """
        scores = ndtri(checked_levels(q))
        each = scores.reshape(*scores.shape, *[1] * len(self.shape))
        return self.quantile_at(np.broadcast_to(each, (*scores.shape, *self.shape)))

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Ends, each [N] or [N, P], of the central interval of probability `level`."""
        tail = tail_probability(level)
        low, high = self.quantile([tail, 1 - tail])
        return low, high

    def align(self, y: Numbers) -> FloatArray:
        """Observations as an array of the distribution's shape; InputError if they do not fit or one is missing."""
        return aligned(y, self.shape)

    def crps(self, y: Numbers) -> FloatArray:
        """Continuous ranked probability score, in the units of y: the integral of (F(x) - 1[x >= y])^2.

        By quadrature between quantiles, to about 1e-4 of itself.
        """
        at = self.align(y)
        total = np.zeros(self.shape)
        for x, weight, is_above in panels(self, at):
            F = self.cdf(x)
            total += weight * np.where(is_above, 1.0 - F, F) ** 2
        return total

    @classmethod
    def concatenate(cls: type[D], parts: Sequence[Any]) -> D:
        """The rows of all parts, which are of one model."""
        first = _alike(parts, cls)
        return first._with(type(first.base).concatenate([part.base for part in parts]))

    @classmethod
    def pool(cls: type[D], members: Sequence[Any]) -> D:
        """The equal mixture of many models' predictions of the same rows."""
        first = _alike(members, cls)
        return first._with(type(first.base).pool([member.base for member in members]))


def panels(dist: Any, at: FloatArray, *others: Any) -> Iterator[tuple[FloatArray, FloatArray, Any]]:
    """Nodes and weights of an integral over y from one far quantile to the other, with a panel that ends at `at`.

    Quantiles of `others` are ends of panels, too.

    Yields
    ------
    x, weight : ndarray of the shape of `dist`
    is_above : ndarray of bool
        Whether x is above `at`.
    """
    scores = _SCORES.reshape(-1, *[1] * len(dist.shape))
    each = np.broadcast_to(scores, (len(_SCORES), *dist.shape))
    edges = np.sort(np.concatenate([*(one.quantile_at(each) for one in (dist, *others)), at[None]]), axis=0)
    for low, high in itertools.pairwise(edges):
        half = 0.5 * (high - low)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            yield low + half * (1.0 + node), weight * half, low >= at


def _alike(parts: Sequence[Any], cls: type[Any]) -> Any:
    if not parts or not all(isinstance(part, cls) for part in parts):
        raise InputError(f"{cls.__name__} needs at least one distribution of its kind")
    return parts[0]
