"""Rows and columns of frames, and random samples of batches."""

import numpy as np
import pandas as pd
import pytest

from sodgp.errors import InputError
from sodgp.tables.rows import Sample, labels_in, numbers_in, parted

FRAME = pd.DataFrame({"a": [1.0, np.nan], "b": [True, False], "kind": ["u", "v"], "none": [None, None], "y": [3, 4]})


def frames():
    pa = pytest.importorskip("pyarrow")
    return [FRAME, pa.Table.from_pandas(FRAME)]


def test_targets_are_parted_from_inputs():
    for frame in frames():
        X, y = parted(frame, ["y"])
        assert list(X.column_names if hasattr(X, "column_names") else X.columns) == ["a", "b", "kind", "none"]
        assert labels_in(y).tolist() == [3, 4]
        with pytest.raises(InputError, match="lacks the columns 'z'"):
            parted(frame, ["z"])
    with pytest.raises(InputError, match="of type list, and not a data frame"):
        parted([1], ["y"])


def test_numbers_are_those_of_the_cells():
    for frame in frames():
        X, _ = parted(frame, ["y", "kind"])
        np.testing.assert_array_equal(numbers_in(X), [[1.0, 1.0, np.nan], [np.nan, 0.0, np.nan]])
        with pytest.raises(InputError, match="the column 'kind' hold text"):
            numbers_in(frame)


def test_labels_keep_their_type():
    assert labels_in(FRAME[["kind"]].astype("category")).tolist() == ["u", "v"]
    assert labels_in(FRAME[["b"]]).dtype == bool


def test_a_sample_is_uniform_and_in_order():
    counts = np.zeros(10)
    for start in range(0, 1000, 250):
        sample = Sample(40)
        sample._generator = np.random.default_rng(start)
        for first in range(0, 1000, 100):
            sample.add(pd.DataFrame({"a": range(first, first + 100)}))
        found = sample.frame()["a"].to_numpy()
        assert len(found) == 40
        assert (np.diff(found) > 0).all()
        counts += np.bincount(found // 100, minlength=10)
    assert counts.min() >= 6
    few = Sample(40)
    few.add(FRAME)
    assert few.frame() is FRAME or few.frame().equals(FRAME)
    few.add(FRAME[["a"]].astype(str))
