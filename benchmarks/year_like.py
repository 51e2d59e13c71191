"""A made-up set with the size of Year, for measurements at scale."""

from __future__ import annotations

import numpy as np

from sodgp.data.dataset import DataSet
from sodgp.errors import ConfigurationError

_CHUNK_ROWS = 16_384


def year_like(n: int = 515_345, d: int = 90, random_state: int | None = 0) -> DataSet:
    """A made-up set with the shape, the target's mean and spread, and the uneven input scales of Year.

    The target depends on three directions h of the standardised inputs, in part linearly and in part not:
    h_1 + sin(2 h_2) + tanh(3 h_1) h_3, plus noise that makes up two fifths of the variance. It is filled in chunks, and
    needs little more memory than `X` (371 MB at full size); a smaller `n` gives the first rows of a larger one.

    Parameters
    ----------
    n : int
        Number of rows, N.
    d : int
        Number of inputs, D; at least 3.
    random_state : int or None
        Seed; ``None`` gives another set at every call.

    Examples
    --------
    >>> from benchmarks.year_like import year_like
    >>> year_like(100)
    DataSet('year_like', 100 rows, 90 inputs, target 'year')
    """
    if n < 1 or d < 3:
        raise ConfigurationError(f"n={n} and d={d}: at least one row and three inputs are needed.")
    # Separate streams, so that neither n nor the size of a chunk changes the first rows.
    function, inputs, noise = np.random.default_rng(random_state).spawn(3)
    directions, _ = np.linalg.qr(function.standard_normal((d, 3)))
    scales = np.geomspace(1.0, 1e3, d)
    centres = scales * function.standard_normal(d)

    X = np.empty((n, d))
    y = np.empty(n)
    for start in range(0, n, _CHUNK_ROWS):
        rows = slice(start, min(start + _CHUNK_ROWS, n))
        inputs.standard_normal(out=X[rows])
        h_1, h_2, h_3 = (X[rows] @ directions).T
        signal = h_1 + np.sin(2 * h_2) + np.tanh(3 * h_1) * h_3
        # 1.51 = sqrt(1 + 0.50 + 0.77), the deviation of the signal for standard normal h.
        y[rows] = 1998.4 + 10.9 * (np.sqrt(0.6) * signal / 1.51 + np.sqrt(0.4) * noise.standard_normal(h_1.size))
        X[rows] *= scales
        X[rows] += centres
    return DataSet("year_like", X, y, tuple(f"x{i}" for i in range(1, d + 1)), "year")
