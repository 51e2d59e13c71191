"""What is measured of data and model."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
from report_data import FRAME, NASTY, Y

from sodgp import DeepGPRegressor
from sodgp.evaluation.rows import shared_rows, take
from sodgp.report import held_out
from sodgp.report.measures import columns_of, outside_training


def test_importance_finds_the_inputs_that_count(report):
    a, nasty, count = report.importance.mean[:, 0]
    assert a > count > abs(nasty)


def test_rows_beyond_the_range_of_training_are_outside(model):
    X = FRAME[140:].copy()
    X["a"] += 8
    found = held_out(model, X, Y[140:] + 200)
    np.testing.assert_array_equal(found.outside, outside_training(model, X.to_numpy()))
    inside = outside_training(model, FRAME[:140].to_numpy())
    assert not inside.any()
    edge = FRAME[:140].to_numpy().max(0)
    std = FRAME[:140].to_numpy().std(0)
    assert outside_training(model, np.stack([edge, edge + 0.05 * std, edge + 0.2 * std])).tolist() == [
        False,
        False,
        True,
    ]
    # Of a file without ranges the rows that it holds are asked.
    without = copy.copy(model)
    without.fitted_ = dataclasses.replace(model.fitted_, x_range=None)
    assert outside_training(without, (edge + 1.5 * std)[None]).all()
    assert not outside_training(without, (edge + 0.5 * std)[None]).any()


def test_the_range_of_training_is_in_the_file(model, tmp_path):
    model.save(tmp_path / "m.sodgp")
    found = DeepGPRegressor.load(tmp_path / "m.sodgp").fitted_.x_range
    np.testing.assert_array_equal(found, [FRAME[:140].min(), FRAME[:140].max()])


def test_training_rows_are_counted_among_others(model):
    """With the labels of all rows in q_hat a model keeps all of them."""
    assert shared_rows(model, FRAME[:140].to_numpy()) == (140, 140)
    assert shared_rows(model, FRAME[140:].to_numpy()) == (0, 140)
    half = take(FRAME, model.subset_indices_[:15]).to_numpy()
    assert shared_rows(model, half) == (15, 140)


def test_columns_are_inputs_and_targets_of_the_evaluated_rows(model, report):
    columns = columns_of(model, report.X, report.evaluation)
    assert [(c.name, c.role) for c in columns] == [
        ("a", "input"),
        (NASTY, "input"),
        ("count", "input"),
        (f"load {NASTY}", "target"),
    ]
    assert [c.whole for c in columns] == [False, False, True, False]
    assert columns[2].distinct == 5
