"""The set that needs no file: the step function of the demo."""

from __future__ import annotations

import numpy as np

from sodgp.data.dataset import DataSet
from sodgp.errors import ConfigurationError


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
