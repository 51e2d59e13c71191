"""Simpler models beside the model."""

from __future__ import annotations

import numpy as np
from report_data import texts

from sodgp import DeepGPRegressor, SoD
from sodgp.report import cross_validated, held_out
from sodgp.report.simpler import compared, findings

RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 2))
Y = X @ [2.0, -1.0] + 0.1 * RNG.normal(size=160)
QUICK = {"n_layers": 1, "subset_size": 10, "random_state": 0}


def test_a_better_linear_model_is_told():
    model = DeepGPRegressor(max_iter=2, **QUICK).fit(X[:80], Y[:80])
    report = held_out(model, X[80:], Y[80:])
    assert [row[0] for row in compared(report, 0).rows] == ["this model", "linear", "boosting", "without inputs"]
    assert "a linear model is better on these rows" in texts(findings(report))
    assert "linear by 0.1" in report.kind.sentence(report, 0)


def test_training_rows_are_needed():
    model = DeepGPRegressor(max_iter=2, inference=SoD(objective="bound"), **QUICK).fit(X[:80], Y[:80])
    report = held_out(model, X[80:], Y[80:])
    assert not compared(report, 0).rows
    assert "--train train.csv" in report.html()
    given = held_out(model, X[80:], Y[80:], train=(X[:80], Y[:80]))
    folds = cross_validated(model, X, Y, 2)
    assert list(given.baselines) == list(folds.baselines) == ["linear", "boosting", "without inputs"]
    np.testing.assert_array_equal(folds.baselines["linear"].y, folds.evaluation.y)
