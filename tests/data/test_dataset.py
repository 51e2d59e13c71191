"""A set is a table whose last column is the target."""

import numpy as np

from sodgp.data import DataSet


def test_the_last_column_of_a_table_is_the_target():
    table = np.arange(6.0).reshape(2, 3)
    data = DataSet.from_table("toy", ("a", "b", "c"), table)
    np.testing.assert_array_equal(data.X, table[:, :2])
    np.testing.assert_array_equal(data.y, [2.0, 5.0])
    assert (data.feature_names, data.target_name) == (("a", "b"), "c")
    assert data.X.flags.c_contiguous
    assert not np.shares_memory(data.X, table)
    assert repr(data) == "DataSet('toy', 2 rows, 2 inputs, target 'c')"
