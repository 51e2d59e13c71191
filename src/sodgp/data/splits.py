"""The train/test splits of the published protocol."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import ConfigurationError


def paper_split(n: int, split: int, fraction: float = 0.9) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of one train/test split, as the paper's authors draw it.

    ``arange(n)`` is shuffled by NumPy's legacy generator with the split's number as its seed; the first
    ``int(fraction * n)`` rows train, the others test.

    Raises
    ------
    ConfigurationError
        A part would be empty, or `split` is not a seed that the legacy generator accepts.

    Examples
    --------
    >>> from sodgp.data import paper_split
    >>> train, test = paper_split(768, 0)
    >>> train[:4].tolist(), len(train), len(test)
    ([661, 122, 113, 14], 691, 77)
    """
    if not 0 <= split < 2**32:
        raise ConfigurationError(f"split is {split}; it must be a whole number from 0 to 2**32 - 1.")
    n_train = int(fraction * n)
    if not 0 < n_train < n:
        raise ConfigurationError(f"{n} rows and fraction={fraction} leave the training or the test part empty.")
    rows = np.arange(n, dtype=np.int64)
    np.random.RandomState(split).shuffle(rows)  # only the legacy stream gives the published splits
    return rows[:n_train], rows[n_train:]
