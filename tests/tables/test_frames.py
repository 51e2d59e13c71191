"""Data frames of three libraries are the same cells."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

from sodgp.errors import InputError, InputTypeError
from sodgp.tables.frames import as_text, cells_of, date_text, is_frame, is_plain, of_objects

pd = pytest.importorskip("pandas")
DAY = dt.date(2020, 1, 2)
MOMENT = dt.datetime(2020, 1, 2, 12)
COLUMNS = {
    "whole": [1, None, 3],
    "real": [0.5, None, -1.0],
    "truth": [True, None, False],
    "word": ["a", None, " b "],
    "day": [DAY, None, DAY],
    "moment": [MOMENT, None, MOMENT],
    "nothing": [None, None, None],
    "span": [dt.timedelta(hours=1), None, dt.timedelta(0)],
}
SECONDS = (MOMENT - dt.datetime(1970, 1, 1)).total_seconds()
WANTED = {
    "whole": ("number", ["1", None, "3"]),
    "real": ("number", ["0.5", None, "-1"]),
    "truth": ("boolean", ["True", None, "False"]),
    "word": ("text", ["a", None, "b"]),
    "day": ("date", ["2020-01-02", None, "2020-01-02"]),
    "moment": ("date", ["2020-01-02 12:00:00", None, "2020-01-02 12:00:00"]),
    "nothing": ("text", [None, None, None]),
    "span": ("number", ["3600", None, "0"]),
}


def frames():
    yield "pandas", lambda: pd.DataFrame(COLUMNS)
    yield "objects", lambda: pd.DataFrame(COLUMNS, dtype=object)
    yield "pandas of Arrow", lambda: pd.DataFrame(COLUMNS).convert_dtypes()
    yield "Arrow", lambda: pytest.importorskip("pyarrow").table(COLUMNS)
    yield "polars", lambda: pytest.importorskip("polars").DataFrame(COLUMNS)


@pytest.mark.parametrize(("name", "make"), list(frames()), ids=[name for name, _ in frames()])
def test_every_library_gives_the_same_cells(name, make):
    frame = make()
    assert is_frame(frame)
    found = {cells.name: cells for cells in cells_of(frame)}
    assert list(found) == list(COLUMNS)
    for column, (kind, texts) in WANTED.items():
        if (name, column) == ("objects", "span"):
            continue  # Python's own time spans are no numbers
        assert found[column].kind == kind, column
        assert found[column].texts().tolist() == texts, column
        assert found[column].missing.tolist() == [text is None for text in texts]
    assert found["moment"].values[0] == SECONDS
    assert not is_plain(frame)


def test_levels_and_their_order():
    frame = pd.DataFrame(
        {
            "size": pd.Categorical(["M", None, "L"], categories=["S", "M", "L"], ordered=True),
            "code": pd.Categorical([2, 1, None]),
        }
    )
    size, code = cells_of(frame)
    assert (size.levels, size.is_ordered, size.texts().tolist()) == (("S", "M", "L"), True, ["M", None, "L"])
    assert (code.levels, code.is_ordered, code.texts().tolist()) == (("1", "2"), False, ["2", "1", None])


def test_an_order_of_arrow():
    pa = pytest.importorskip("pyarrow")
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["z", "a"]), ordered=True)
    (cells,) = cells_of(pa.table({"size": column}))
    assert (cells.levels, cells.is_ordered) == (("z", "a"), True)


def test_an_enum_of_polars():
    pl = pytest.importorskip("polars")
    (cells,) = cells_of(pl.DataFrame({"a": pl.Series(["x", None], dtype=pl.Enum(["y", "x"]))}))
    assert (cells.levels, cells.texts().tolist()) == (("y", "x"), ["x", None])


def test_times_with_zones_are_those_of_the_clock():
    moments = pd.to_datetime(["2020-07-01 12:00", None]).tz_localize("Europe/Berlin")
    assert cells_of(pd.DataFrame({"a": moments}))[0].texts().tolist() == ["2020-07-01 12:00:00", None]


def test_periods_are_text_and_times_are_dates():
    frame = pd.DataFrame({"p": pd.PeriodIndex(["2020-01", "2020-02"], freq="M"), "t": [dt.time(1), dt.time(2)]})
    period, time = cells_of(frame)
    assert (period.kind, period.values.tolist()) == ("text", ["2020-01", "2020-02"])
    assert (time.kind, time.values.tolist()) == ("date", [3600.0, 7200.0])


def test_what_is_a_frame_and_what_is_plain():
    numbers = pd.DataFrame({"a": [1, 2], "b": [True, False]})
    assert is_plain(numbers)
    assert not is_plain(numbers.assign(c=[1.0, None]))
    assert is_plain(numbers.astype(object))
    assert not is_frame(np.eye(2))
    assert not is_frame([[1, 2]])
    assert not is_frame(pd.DataFrame(np.eye(2), columns=["a", "a"]))
    assert not is_frame(pd.DataFrame())
    assert is_frame(pd.DataFrame(np.eye(2)))
    assert [cells.name for cells in cells_of(pd.DataFrame(np.eye(2), columns=[7, "a"]))] == ["7", "a"]


def test_a_lazy_frame_is_refused():
    pl = pytest.importorskip("polars")
    with pytest.raises(InputError, match="collect"):
        is_frame(pl.LazyFrame({"a": [1]}))


def test_columns_of_objects_are_refused_together():
    frame = pd.DataFrame({"a": [[1], [2]], "b": [{"x": 1}, None], "c": [b"1", b"2"], "d": [1, 2]})
    with pytest.raises(InputTypeError, match=r"'a' holds list.*'b' holds dict.*'c' holds bytes"):
        cells_of(frame)
    assert cells_of(frame, ["d"])[0].values.tolist() == [1, 2]


def test_missing_columns_are_named():
    with pytest.raises(InputError, match="lacks the columns 'b', 'c'"):
        cells_of(pd.DataFrame({"a": [1]}), ["b", "a", "c"])


def test_objects():
    assert of_objects("a", [Decimal("1.5"), np.float32(2), None, np.nan, pd.NA]).values[:2].tolist() == [1.5, 2]
    assert of_objects("a", [True, 2]).kind == "text"
    assert of_objects("a", [np.bool_(True), None]).kind == "boolean"
    assert of_objects("a", [np.datetime64("1970-01-02"), pd.NaT]).values[0] == 86_400
    with pytest.raises(InputTypeError, match="too large"):
        of_objects("a", [10**400])


def test_texts_of_odd_values():
    assert as_text(np.float64(3)) == "3"
    assert as_text(float("inf")) == "inf"
    assert date_text(1e30) == "1e+30 s"
