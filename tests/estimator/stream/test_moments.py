"""Means and variances of rows in a file have scikit-learn's bits."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from sodgp.estimator.stream import moments


@pytest.mark.parametrize(("rows", "columns"), [(5003, 4), (5003, 1), (5, 3), (1, 1), (130, 40)])
@pytest.mark.parametrize("block", [64, 999])
def test_every_bit_is_that_of_the_rows_in_memory(monkeypatch, rows, columns, block):
    monkeypatch.setattr(moments, "_BLOCK_ROWS", block)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, columns)) * rng.lognormal(size=columns, sigma=5) + rng.normal(size=columns)
    values[:, 0] = np.round(values[:, 0])
    ours, theirs = moments.standard_scaler(values), StandardScaler().fit(values)
    for name in ("mean_", "var_", "scale_", "n_samples_seen_", "n_features_in_"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    assert (ours.transform(values) == theirs.transform(values)).all()


def test_a_constant_column_is_left_as_it_is():
    values = np.column_stack([np.full(300, 0.1), np.arange(300.0)])
    assert moments.standard_scaler(values).scale_[0] == 1.0 == StandardScaler().fit(values).scale_[0]
