"""Rows of a model and rows that are evaluated."""

from __future__ import annotations

import numpy as np
import pytest

from sodgp import DeepGPRegressor
from sodgp.evaluation.rows import held_inputs, shared_rows, take, training_rows

X = np.random.default_rng(0).normal(size=(30, 2))


def test_a_model_with_a_subset_knows_its_rows_and_others_none():
    bound = DeepGPRegressor()
    bound.set_params(inference__objective="bound", n_layers=1, max_iter=2, subset_size=8, random_state=0).fit(
        X, X[:, 0]
    )
    assert shared_rows(bound, X) == (8, 8)
    dsvi = DeepGPRegressor(inference="dsvi", max_iter=2, subset_size=8, random_state=0).fit(X, X[:, 0])
    assert shared_rows(dsvi, X) == (0, 0)
    assert held_inputs(dsvi).shape == (0, 2)


def test_parts_of_all_kinds_of_tables():
    rows = np.array([2, 0])
    np.testing.assert_array_equal(take(X.tolist(), rows), X[rows])
    pandas = pytest.importorskip("pandas")
    np.testing.assert_array_equal(take(pandas.DataFrame(X), rows).to_numpy(), X[rows])


def test_all_training_rows_come_back_in_original_units_where_a_model_keeps_them():
    y = np.exp(X[:, 0])
    for options in ({}, {"target_transform": "log"}):
        model = DeepGPRegressor(n_layers=1, max_iter=2, subset_size=8, random_state=0, **options).fit(X, y)
        rows, targets = training_rows(model)
        order = np.lexsort(rows.T)
        np.testing.assert_allclose(rows[order], X[np.lexsort(X.T)])
        np.testing.assert_allclose(targets[order, 0], y[np.lexsort(X.T)])
    assert training_rows(model.set_params(inference="dsvi").fit(X, y)) is None
