"""One train/test split of a data set, in original units."""

from __future__ import annotations

from dataclasses import dataclass

from sodgp.data import DataSet, paper_split
from sodgp.system.validation import FloatArray


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test part.

    Parameters
    ----------
    X_train, X_test : ndarray of shape [N, D]
    y_train, y_test : ndarray of shape [N]
    """

    X_train: FloatArray
    y_train: FloatArray
    X_test: FloatArray
    y_test: FloatArray

    @classmethod
    def of(cls, data: DataSet, split: int) -> Split:
        """The paper's split with that number; see `sodgp.data.paper_split`."""
        train, test = paper_split(len(data.y), split)
        return cls(data.X[train], data.y[train], data.X[test], data.y[test])
