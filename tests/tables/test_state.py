"""Fitted columns as JSON: they come back the same, and damaged ones are refused."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sodgp.errors import ModelFileError
from sodgp.tables.encoder import TableEncoder

pd = pytest.importorskip("pandas")
FRAME = pd.DataFrame(
    {
        "number": [1.0, None, None, 4.5, 2.0, 9.0],
        "comma": ["1,5", "2,25", "3", "4", "?", "7"],
        "truth": ["yes", "no", None, "yes", "no", None],
        "level": ["u", "v", "v", "u", "w", None],
        "size": pd.Categorical(["S", "M", "M", None, "S", "L"], categories=["S", "M", "L"], ordered=True),
        "day": pd.date_range("2020-01-30", periods=6, freq="90D"),
        "id": [4, 2, 6, 1, 3, 5],
        "note": ["a", "b", "c", "d", "e", "f"],
    }
)


def state():
    return json.loads(json.dumps(TableEncoder({"note": "keep"}, missing=["none"], max_levels=5).fit(FRAME).state()))


def test_a_state_comes_back_the_same():
    encoder = TableEncoder({"note": "keep"}).fit(FRAME)
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.state())))
    assert again.fitted_columns_ == encoder.fitted_columns_
    assert_array_equal(again.transform(FRAME), encoder.transform(FRAME))
    assert again.columns_ == encoder.columns_
    assert again.kept_ == ["note"]
    assert again.state() == encoder.state()


def test_levels_that_were_counted_come_back():
    frame = pd.DataFrame({"a": [f"l{i // 2}" for i in range(80)], "x": np.arange(80.0) ** 2})
    encoder = TableEncoder(max_levels=3).fit(frame)
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.state())))
    assert_array_equal(again.transform(frame), encoder.transform(frame))


def changed(path, value):
    entries = state()
    place = entries
    for key in path[:-1]:
        place = place[key]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return entries


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["columns"], {}),
        (["columns"], []),
        (["columns", 0], 3),
        (["columns", 0, "kind"], "spell"),
        (["columns", 0, "kind"], ["number"]),
        (["columns", 0, "fill"], "1"),
        (["columns", 0, "fill"], float("nan")),
        (["columns", 0, "fill"], True),
        (["columns", 0, "gaps"], -1),
        (["columns", 0, "gaps"], 0),
        (["columns", 0, "gaps"], KeyError),
        (["columns", 0, "name"], None),
        (["columns", 0, "name"], "comma"),
        (["columns", 0, "more"], 1),
        (["columns", 1, "style"], "roman"),
        (["columns", 3, "levels"], []),
        (["columns", 3, "levels"], ["u", 1]),
        (["columns", 3, "levels"], ["u", "u"]),
        (["columns", 3, "counts"], [["u", 0]]),
        (["columns", 3, "counts"], [["u"]]),
        (["columns", 4, "fill"], 3.0),
        (["columns", 4, "fill"], 0.5),
        (["columns", 5, "format"], "%q"),
        (["columns", 5, "seasons"], ["moon"]),
        (["columns", 5, "unit"], 0.0),
        (["columns", 6, "is_kept"], 1),
        (["missing"], 5),
        (["max_levels"], 0),
        (["missing"], KeyError),
    ],
)
def test_a_damaged_state_is_refused(path, value):
    assert TableEncoder.from_state(state())
    with pytest.raises(ModelFileError, match="columns"):
        TableEncoder.from_state(changed(path, value))


@pytest.mark.parametrize("value", [None, 3, [], {}, {"columns": []}])
def test_what_is_no_state(value):
    with pytest.raises(ModelFileError):
        TableEncoder.from_state(copy.copy(value))
