"""Columns whose differences are lost before training are warned of by name, and no others."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from sodgp import DeepGPRegressor
from sodgp.errors import NumericalWarning

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.sin(X[:, 0])
IDS = 2**60 + np.arange(60, dtype=np.int64)


def fit(rows, targets=Y, **options):
    small = {"n_layers": 1, "subset_size": 5, "max_iter": 1, "random_state": 0}
    return DeepGPRegressor(**{**small, **options}).fit(rows, targets)


def changed(column, values):
    rows = X.copy()
    rows[:, column] = values
    return rows


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 5e-324])
def test_differences_too_small_to_square(scale):
    tiny = changed(1, scale * np.round(10 * X[:, 1]))
    with pytest.warns(
        NumericalWarning, match=r"column 1 of X varies by .*e-\d+ only.*counts as constant.*larger units"
    ):
        fit(tiny)
    with pytest.warns(NumericalWarning, match="column 'dose' of X varies"):
        fit(pd.DataFrame(tiny, columns=["age", "dose"]))


@pytest.mark.parametrize(
    "rows",
    [
        np.column_stack([np.arange(60), IDS]),
        np.column_stack([np.arange(60, dtype=np.uint64), IDS.astype(np.uint64)]),
        pd.DataFrame({"0": X[:, 0], "1": IDS}),
        pd.DataFrame({"0": X[:, 0], "1": pd.array(IDS, dtype="Int64")}),
        [[float(a), int(b)] for a, b in zip(X[:, 0], IDS, strict=True)],
        np.column_stack([X[:, 0].astype(object), IDS.astype(object)]),
        torch.from_numpy(np.column_stack([np.arange(60), IDS])),
    ],
    ids=["int64", "uint64", "frame", "nullable", "list", "objects", "tensor"],
)
def test_whole_numbers_that_floats_round(rows):
    with pytest.warns(
        NumericalWarning, match=r"column '?1'? of X has whole numbers beyond 2\*\*53, of which float64 rounds 59"
    ):
        fit(rows)


def test_whole_numbers_of_y():
    with pytest.warns(NumericalWarning, match=r"column 'time' of y has whole numbers beyond 2\*\*53"):
        fit(X, pd.Series(2**54 + np.arange(60), name="time"))


def test_one_row_that_is_far_away():
    far = changed(0, np.where(np.arange(60) == 7, 1e12, X[:, 0]))
    with pytest.warns(
        NumericalWarning, match=r"column 0 of X has 1e\+12 in row 7, beside which the other rows look equal"
    ):
        fit(far)
    with pytest.warns(NumericalWarning, match=r"column 0 of y has -1e\+12 in row 3"):
        fit(X, np.where(np.arange(60) == 3, -1e12, Y))


def test_a_few_such_rows_among_many():
    rows = RNG.normal(size=(25_000, 1))
    rows[[4, 20_001], 0] = 1e12, -1e13
    with pytest.warns(NumericalWarning, match=r"has -1e\+13 in row 20001"):
        fit(rows, np.sin(rows[:, 0]))


def test_it_is_said_once_for_all_members_and_of_every_column():
    tiny = 1e-200 * X
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fit(tiny, n_members=3)
    assert [str(each.message)[:13] for each in seen] == ["column 0 of X", "column 1 of X"]
    assert seen[0].filename == __file__


HARMLESS = {
    "constant": np.full(60, 3.0),
    "rare": np.arange(60) == 5,
    "zeros but for two": np.where(np.arange(60) < 2, 1e12, 0.0),
    "heavy tails": np.random.default_rng(1).standard_cauchy(60),
    "logarithmic": np.exp(8 * np.random.default_rng(1).normal(size=60)),
    "far from zero": 1e9 + X[:, 0],
    "large floats": 1e17 * X[:, 0],
    "whole numbers that are exact": np.arange(60) * 2**54,
    "small": 1e-150 * X[:, 0],
    "one row a hundred times as far": np.where(np.arange(60) == 5, 100.0, X[:, 0]),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_other_columns_are_not_warned_of(name):
    fit(changed(1, HARMLESS[name]))  # warnings are errors here
    fit(np.column_stack([np.arange(60), HARMLESS[name]]) if HARMLESS[name].dtype.kind == "i" else X)


def test_few_rows():
    fit(X[:3], Y[:3], subset_size=2)
    fit([[0.0], [1.0]], [0.0, 1.0], subset_size=2)
