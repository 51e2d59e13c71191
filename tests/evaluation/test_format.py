"""Scores as text."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sodgp.evaluation.classes import ClassEvaluation
from sodgp.evaluation.format import CLASS_LABELS, LABELS, counted, interval, number
from sodgp.evaluation.scores import Evaluation, Score


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("rmse", math.nan, "-"),
        ("coverage_90", 0.9, "90.0 %"),
        ("rmse", 12345.6, "12,346"),
        ("rmse", 1.2e10, "1.200e+10"),
        ("rmse", 9014.2, "9014"),
        ("nlpp", 0.0, "0.000"),
        ("rmse", 0.00123456, "0.001235"),
        ("rmse", -53.2, "-53.20"),
    ],
)
def test_numbers(key, value, text):
    assert number(key, value) == text


def test_intervals_and_counts():
    assert interval("coverage_50", Score(0.5, low=0.4, high=0.6)) == "40.0 % to 60.0 %"
    assert interval("rmse", Score(0.5, low=0.4, high=math.nan)) == "-"
    assert counted(0, "row") == "0 rows"


def test_every_score_has_a_label():
    one, zero = np.ones((2, 1)), np.zeros((2, 1))
    evaluation = Evaluation(("y",), one, zero, one, -one, one, -one, one, one / 2, zero, one)
    assert set(evaluation.scores(n_bootstrap=0)) == set(LABELS)
    classes = ClassEvaluation(("y",), np.arange(2), np.array([0, 1]), np.eye(2), np.array([0.5, 0.5]))
    assert list(classes.scores(n_bootstrap=0)) == list(CLASS_LABELS)
