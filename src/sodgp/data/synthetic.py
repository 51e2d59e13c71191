"""Sets that need no file: the step function of the demo, and one of the size of Year for measurements at scale."""

from __future__ import annotations

import numpy as np

from sodgp.data.dataset import DataSet
from sodgp.errors import ConfigurationError

_CHUNK_ROWS = 16_384


def step(n: int = 40, noise: float = 0.1, random_state: int | None = 0) -> DataSet:
    """Noisy observations of a step: -1 left of zero, +1 from zero on.

    The classic failure of a shallow Gaussian process: one lengthscale must serve both the flat parts and the jump, so
    the fit rings around the jump or blurs it. A deep one bends its inputs first.

    Parameters
    ----------
    n : int
        Number of rows, N, evenly spaced on [-1, 1]; at least 2.
    noise : float
        Standard deviation of the observation noise.
    random_state : int or None
        Seed of the noise; ``None`` gives fresh noise at every call.

    Examples
    --------
    >>> from sodgp.data import step
    >>> data = step(4, noise=0.0)
    >>> data.X.ravel().round(2).tolist(), data.y.tolist()
    ([-1.0, -0.33, 0.33, 1.0], [-1.0, -1.0, 1.0, 1.0])
    """
    if n < 2:
        raise ConfigurationError(f"n is {n}; a step needs at least two rows.")
    if not noise >= 0:
        raise ConfigurationError(f"noise is {noise}; a standard deviation is zero or more.")
    x = np.linspace(-1.0, 1.0, n)
    y = np.where(x < 0, -1.0, 1.0) + noise * np.random.default_rng(random_state).standard_normal(n)
    return DataSet("step", x[:, None], y, ("x",), "y")


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
    >>> from sodgp.data import year_like
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
