"""Counts: how often each was seen, and how often a model expected it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sodgp.predictive.counts import CountMixture
from sodgp.system.validation import FloatArray

if TYPE_CHECKING:
    from sodgp.estimator.regressor import DeepGPRegressor

__all__ = ["Frequencies", "frequencies_of", "frequencies_of_rows", "steps_of"]

_MOST_BARS = 60
_CHUNK_ROWS = 20_000


@dataclass(frozen=True)
class Frequencies:
    """Numbers of rows by their count.

    Attributes
    ----------
    edges : ndarray of shape [K + 1]
        Place k has the counts from ``edges[k]`` to below ``edges[k + 1]``.
    seen, expected : ndarray of shape [K, P]
        Rows with such a count, and how many a model expected.
    """

    edges: FloatArray
    seen: FloatArray
    expected: FloatArray

    def __add__(self, other: Frequencies) -> Frequencies:
        """Those of the rows of both, which have the same edges."""
        return replace(self, seen=self.seen + other.seen, expected=self.expected + other.expected)


def steps_of(most: float) -> FloatArray:
    """Edges from zero to beyond `most`: single counts, or with a wide range several in a step."""
    width = -(-(int(most) + 1) // _MOST_BARS)
    return np.arange(0, int(most) + width + 1, width, dtype=np.float64)


def frequencies_of(dist: CountMixture, y: Any, edges: FloatArray) -> Frequencies:
    """Rows of a distribution by their counts y.

    Examples
    --------
    >>> found = frequencies_of(CountMixture([0.0], np.full((1, 2, 1), 3.0)), [3.0, 4.0], np.arange(6.0))
    >>> found.seen[:, 0], found.expected[3, 0].round(3)
    (array([0., 0., 0., 1., 1.]), np.float64(0.448))
    """
    observed = dist.align(y).reshape(len(dist), -1)
    below = np.stack([dist.cdf(edge - 1.0).reshape(len(dist), -1).sum(0) for edge in edges])
    seen = np.stack([np.histogram(column, edges)[0] for column in observed.T], axis=1)
    return Frequencies(edges, seen.astype(np.float64), np.diff(below, axis=0))


def frequencies_of_rows(model: DeepGPRegressor, X: Any, y: FloatArray, edges: FloatArray) -> Frequencies:
    """Rows of a model of counts, as slices can be taken of them, by their counts y [N, P]."""
    starts = range(0, len(y), _CHUNK_ROWS)
    chunks = [slice(start, start + _CHUNK_ROWS) for start in starts]
    dists = ((cast(CountMixture, model.predict_distribution(X[chunk])), y[chunk]) for chunk in chunks)
    first, *others = (frequencies_of(dist, part.reshape(dist.mean.shape), edges) for dist, part in dists)
    return sum(others, first)
