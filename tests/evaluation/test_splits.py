"""Folds, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold, ShuffleSplit, TimeSeriesSplit

from sodgp.errors import ConfigurationError, InputError
from sodgp.evaluation.splits import folds_of

Y = np.zeros(20)


def test_every_row_is_judged_once_and_by_others():
    for folds in (folds_of(4, Y), folds_of(KFold(4), Y), folds_of(4, Y, groups=np.arange(20) // 2)):
        assert sorted(folds.rows) == list(range(20))
        assert all(not set(train) & set(test) for train, test in folds.splits)


def test_classes_keep_their_shares_and_groups_stay_whole():
    labels = np.array(["a", "b", "b", "b"] * 5)
    for train, test in folds_of(5, labels, is_classes=True).splits:
        assert (labels[test] == "a").sum() == 1
        assert len(train) == 16
    groups = np.array(["x", "y", "z", "u"] * 5)
    for train, test in folds_of(2, labels, is_classes=True, groups=groups).splits:
        assert not set(groups[train]) & set(groups[test])


def test_order_of_time_leaves_the_first_rows_out():
    folds = folds_of(TimeSeriesSplit(3), Y)
    assert folds.words == "cross-validation by TimeSeriesSplit"
    assert sorted(folds.rows) == list(range(5, 20))
    assert all(train.max() < test.min() for train, test in folds.splits)


def test_a_class_with_fewer_rows_than_folds():
    labels = np.array(["a"] * 19 + ["b"])
    assert len(folds_of(3, labels, is_classes=True).splits) == 3


@pytest.mark.parametrize(
    ("cv", "options", "error", "words"),
    [
        (1, {}, ConfigurationError, "cv must be an integer from 2"),
        ("five", {}, ConfigurationError, "a splitter of scikit-learn"),
        ([], {}, ConfigurationError, "no folds"),
        (ShuffleSplit(3, test_size=0.9, random_state=0), {}, ConfigurationError, "test parts"),
        ([([0, 1], [1, 2])], {}, ConfigurationError, "trains on rows that it is judged by"),
        ([([0, 1], [20])], {}, ConfigurationError, "rows that the 20 rows have not"),
        (3, {"groups": ["a", "b"] * 10}, ConfigurationError, "there are 2"),
        (3, {"groups": ["a"] * 3}, InputError, "groups must have the shape"),
        (3, {"groups": [None, "b"] * 10}, InputError, "groups has 10 gaps"),
    ],
)
def test_what_makes_no_sense(cv, options, error, words):
    with pytest.raises(error, match=words):
        folds_of(cv, Y, **options)
