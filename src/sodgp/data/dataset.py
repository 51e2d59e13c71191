"""A data set, as every loader and generator returns it: inputs, target and their names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sodgp.system.validation import FloatArray


@dataclass(frozen=True, repr=False, eq=False)
class DataSet:
    """A regression set in original units and original row order: nothing is scaled or shuffled.

    Attributes
    ----------
    name : str
    X, y : ndarray of float64, shapes [N, D] and [N]
    feature_names : tuple of str, length D
    target_name : str

    Examples
    --------
    >>> import numpy as np
    >>> from sodgp.data import DataSet
    >>> DataSet("toy", np.zeros((3, 2)), np.ones(3), ("a", "b"), "c")
    DataSet('toy', 3 rows, 2 inputs, target 'c')
    """

    name: str
    X: FloatArray
    y: FloatArray
    feature_names: tuple[str, ...]
    target_name: str

    @classmethod
    def from_table(cls, name: str, columns: tuple[str, ...], table: FloatArray) -> DataSet:
        """A data set from a table [N, D + 1] whose last column is the target."""
        X = np.ascontiguousarray(table[:, :-1])
        y = np.ascontiguousarray(table[:, -1])
        return cls(name, X, y, columns[:-1], columns[-1])

    def __repr__(self) -> str:
        rows, inputs = self.X.shape
        return f"DataSet({self.name!r}, {rows} rows, {inputs} inputs, target {self.target_name!r})"
