"""What becomes of the columns of a table: numbers, names, and what is said."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sodgp.errors import ConfigurationError, InputError, InputTypeError, TableWarning
from sodgp.tables.encoder import TableEncoder

pd = pytest.importorskip("pandas")


def encoded(values, kind="auto", **options):
    """The transformer of one column, with a second one that is always an input, and its numbers."""
    frame = pd.DataFrame({"a": values, "other": np.linspace(0, 1, len(values))})
    encoder = TableEncoder(None if kind == "auto" else {"a": kind}, **options).fit(frame)
    return encoder, encoder.transform(frame)[:, :-1]


def what(encoder):
    return encoder.fitted_columns_[0].kind, encoder.columns_["a"]


def test_numbers_pass():
    encoder, values = encoded([1.5, -2.0, 3e9])
    assert values[:, 0].tolist() == [1.5, -2.0, 3e9]
    assert what(encoder) == ("number", "number")


def test_gaps_of_numbers():
    encoder, values = encoded([1.0, None, 3.0, None, 8.0])
    assert values.tolist() == [[1, 0], [3, 1], [3, 0], [3, 1], [8, 0]]
    assert encoder.get_feature_names_out().tolist() == ["a", "a missing", "other"]
    assert what(encoder)[1] == "number; 2 missing: median 3, with a column that says where"
    encoder, values = encoded([1.0, None, 3.0, 8.0])  # one gap is too rare for a column
    assert values.tolist() == [[1], [3], [3], [8]]
    assert what(encoder)[1] == "number; 1 missing: median 3"


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (["1", "2.5", "?", "4"], [1, 2.5, 2.5, 4]),
        (["1,5", "2", "3,25", "n/a"], [1.5, 2, 3.25, 2]),
        (["$1,000.50", "7", "-", "9"], [1000.5, 7, 9, 9]),
        ([1, "2", None, 4.0], [1, 2, 2, 4]),
    ],
)
def test_numbers_as_text(values, numbers):
    encoder, found = encoded(values)
    assert what(encoder)[0] == "number"
    assert found[:, 0].tolist() == numbers


def test_yes_and_no():
    for values in (["yes", "No", "yes"], ["T", "f", "t"], [True, False, True], ["on", "off", "ON"]):
        encoder, found = encoded(values)
        assert found.tolist() == [[1], [0], [1]]
        assert what(encoder) == ("boolean", "yes or no: 1 and 0")
    encoder, found = encoded([True, None, False, None, True, True])
    assert found.tolist() == [[1, 0], [1, 1], [0, 0], [1, 1], [1, 0], [1, 0]]
    assert encoded([0, 1, 1], "boolean")[1].tolist() == [[0], [1], [1]]


def test_a_column_for_each_level():
    encoder, values = encoded(["b", "a ", "c", "a", "b", " c"])
    assert encoder.get_feature_names_out().tolist()[:3] == ["a=a", "a=b", "a=c"]
    assert values.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert what(encoder) == ("category", "category of 3 levels: a, b, c")


def test_two_levels_share_a_column():
    encoder, values = encoded(["u", "v", "v", "u"])
    assert values[:, 0].tolist() == [0, 1, 1, 0]
    assert encoder.get_feature_names_out()[0] == "a=v"


def test_rare_levels_are_pooled_and_unknown_ones_join_them():
    encoder, values = encoded(["u", "v", "v", "u", "w", "x"])
    assert encoder.get_feature_names_out().tolist()[:3] == ["a=u", "a=v", "a other"]
    assert values[4:].tolist() == [[0, 0, 1], [0, 0, 1]]
    assert what(encoder)[1] == "category of 4 levels: u, v; 2 rare as other (w, x)"
    new = pd.DataFrame({"a": ["u", "new", "w", "newer", "new"], "other": 0.0})
    with pytest.warns(TableWarning, match=r"'a' has levels that training had not \('new', 'newer'\) in 3 rows"):
        found = encoder.transform(new)
    assert found[:, :3].tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 1]]


def test_an_unknown_level_is_none_of_the_known():
    encoder, _ = encoded(["u", "v", "w"] * 2)
    new = pd.DataFrame({"a": ["x", None], "other": 0.0})
    with pytest.warns(TableWarning, match="'a' is missing in 1 row, and was never in training"):
        assert encoder.transform(new)[:, :3].tolist() == [[0, 0, 0], [0, 0, 0]]
    encoder, _ = encoded(["u", "v"] * 2)
    with pytest.warns(TableWarning):
        assert encoder.transform(new)[:, 0].tolist() == [0.5, 0.5]


def test_what_is_missing_is_a_level_where_it_is_not_rare():
    encoder, values = encoded(["u", "v", None, "u", "v", "?"])
    assert encoder.get_feature_names_out().tolist()[:3] == ["a=u", "a=v", "a missing"]
    assert values[[2, 5]].tolist() == [[0, 0, 1], [0, 0, 1]]
    assert what(encoder)[1] == "category of 2 levels: u, v; 2 missing: a level"
    encoder, values = encoded(["u", "v", None, "u", "v"])
    assert values[2].tolist() == [0.5]
    assert what(encoder)[1].endswith("1 missing: as unknown")


def test_very_many_levels_are_cut_and_counted():
    values = [f"l{i:03}" for i in range(40) for _ in range(2 + (i == 7))]
    encoder, found = encoded(values, max_levels=5)
    names = encoder.get_feature_names_out().tolist()
    assert names[:7] == ["a=l000", "a=l001", "a=l002", "a=l003", "a=l007", "a other", "a frequency"]
    assert_allclose(found[:, 6], np.log([3 if value == "l007" else 2 for value in values]))
    assert "and how often each occurs" in what(encoder)[1]
    new = encoder.transform(pd.DataFrame({"a": ["l039", "never"], "other": 0.0}))
    assert_allclose(new[:, 5:7], [[1, np.log(2)], [1, 0]])


def test_the_order_of_levels_is_kept():
    sizes = pd.Categorical(["M", "S", None, "L", "M"], categories=["S", "M", "L", "XL"], ordered=True)
    encoder, values = encoded(sizes)
    assert values[:, 0].tolist() == [1, 0, 1, 2, 1]
    assert what(encoder) == ("ordered category", "ordered: S < M < L; 1 missing: M")
    encoder, values = encoded(["hi", "lo", "hi"], ["lo", "hi"])
    assert values[:, 0].tolist() == [1, 0, 1]
    with pytest.warns(TableWarning, match="'middling'"):
        assert encoder.transform(pd.DataFrame({"a": ["middling"], "other": 0.0}))[0, 0] == 1
    with pytest.raises(InputError, match="'a' holds 'hi' in row 1, 'hi' in row 3, not one of lo, mid"):
        encoded(["hi", "lo", "hi"], ["lo", "mid"])


def test_dates_are_days_and_seasons():
    days = pd.date_range("2020-01-01", periods=800, freq="D")
    encoder, values = encoded(days)
    names = ["a", "a sin of year", "a cos of year", "a sin of week", "a cos of week", "other"]
    assert encoder.get_feature_names_out().tolist() == names
    assert_array_equal(values[:, 0], np.arange(800))
    assert_allclose(values[366, 1:3], [0, 1], atol=1e-12)  # the first day of a year
    assert_allclose(values[:14, 3:], values[7:21, 3:], atol=1e-9)
    assert what(encoder)[1] == "date: days since 2020-01-01 and the season of year, week"
    assert_allclose(encoded([day.strftime("%d.%m.%Y") for day in days])[1], values)


@pytest.mark.parametrize(
    ("dates", "seasons"),
    [
        (pd.date_range("2000", periods=30, freq="YS"), []),
        (pd.date_range("2000", periods=30, freq="MS"), ["year"]),
        (pd.date_range("2000", periods=30, freq="W"), []),
        (pd.date_range("2000", periods=30, freq="D"), ["week"]),
        (pd.date_range("2000", periods=48, freq="h"), ["day"]),
    ],
)
def test_seasons_that_do_not_vary_are_left_out(dates, seasons):
    encoder, _ = encoded(dates)
    assert list(encoder.fitted_columns_[0].seasons) == seasons


def test_times_of_the_day():
    encoder, values = encoded(["06:00", "12:00", "18:30", "00:00"])
    assert_allclose(values[:, 0], [6, 12, 18.5, 0])
    assert_allclose(values[0, 1:], [1, 0], atol=1e-12)
    assert what(encoder)[1] == "date (read as %H:%M): hours since 1970-01-01 and the season of day"


def test_gaps_of_dates():
    encoder, values = encoded(["2020-01-01", None, "2020-01-11", "?", "2020-01-03"])
    assert values[:, 0].tolist() == [0, 2, 10, 2, 2]
    assert values[:, -1].tolist() == [0, 1, 0, 1, 0]
    assert what(encoder)[1].endswith("2 missing: median, with a column that says where")


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("a", [7, 7, 7], "constant, 7"),
        ("a", ["x", "x", "x"], "constant, x"),
        ("a", [None, None, None], "every cell is missing"),
        ("a", ["?", "", "NA"], "every cell is missing"),
        ("a", ["Ann", "Bob", "Cy"], "every text is another: names, ids or free text"),
        ("a", ["2020-01-01"] * 3, "constant, 2020-01-01"),
        ("id", [3, 1, 2], "an id (whole numbers, all different)"),
        ("PassengerId", [3, 1, 2], "an id (whole numbers, all different)"),
        ("order_no", ["3", "1", "2"], "an id (whole numbers, all different)"),
        ("n", list(range(1, 13)), "a running number"),
        ("a", [f"t{i // 2}" for i in range(23)] + [f"u{i}" for i in range(9)], "21 different texts in 32 rows: names"),
    ],
)
def test_what_says_nothing_is_left_out(name, values, reason):
    frame = pd.DataFrame({name: values, "y": np.linspace(0, 1, len(values))})
    encoder = TableEncoder().fit(frame)
    assert encoder.columns_[name].startswith(f"left out: {reason}")
    assert encoder.get_feature_names_out().tolist() == ["y"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("id", [1, 2, 2]),
        ("humidity", [1, 2, 3]),
        ("paid", [1, 2, 3]),
        ("year", list(range(1, 13))),
        ("t", list(range(12))),
        ("n", list(range(1, 9))),
        ("n", list(range(5, 17))),
        ("id", [1.5, 2.5, 3.5]),
    ],
)
def test_numbers_that_only_look_like_ids_stay(name, values):
    frame = pd.DataFrame({name: values, "y": np.linspace(0, 1, len(values))})
    assert TableEncoder().fit(frame).columns_[name] == "number"


def test_what_a_user_says_is_done():
    frame = pd.DataFrame({"zip": [8001.0, None, 8001.0, 9000.0, 9000.0, 1.5], "id": range(6), "x": np.arange(6) / 7})
    encoder = TableEncoder({"zip": "category", "id": "number", "x": "drop"}).fit(frame)
    assert encoder.get_feature_names_out().tolist() == ["zip=8001", "zip=9000", "zip other", "id"]
    assert encoder.columns_["x"] == "left out: as asked"
    whole = frame.assign(zip=[8001, 9000, 8001, 9000, 9000, 9000])  # whole numbers without a gap are the same levels
    assert encoder.transform(whole)[:2, :2].tolist() == [[1, 0], [0, 1]]
    encoder = TableEncoder({"id": "keep"}).fit(frame)
    assert (encoder.kept_, encoder.columns_["id"]) == (["id"], "left out: kept for the predictions")
    assert what(encoded(["2020", "2021", "2022"], "category", max_levels=2)[0])[0] == "left out"


def test_marks_of_what_is_missing():
    frame = pd.DataFrame({"a": [1.0, -999, 3, 4], "b": ["u", "v", "Keine", "u"], "c": ["1", "keine", "2", "3"]})
    encoder = TableEncoder(missing=["-999", "keine"]).fit(frame)
    assert encoder.columns_["a"] == "number; 1 missing: median 3"
    assert encoder.columns_["c"] == "number; 1 missing: median 2"
    assert encoder.transform(frame)[:, 0].tolist() == [1, 3, 3, 4]


def test_all_bad_cells_are_said_together():
    frame = pd.DataFrame(
        {
            "a": [str(i) for i in range(24)] + ["x", "many"],
            "b": ["1,234"] * 13 + ["2,345"] * 13,
            "c": ["2020-01-01", "01.02.2020"] * 13,
            "d": np.where(np.arange(26) == 4, np.inf, 1.0 * np.arange(26)),
        }
    )
    with pytest.raises(InputError) as caught:
        TableEncoder().fit(frame)
    said = str(caught.value)
    assert "'a' holds 'x' in row 25, 'many' in row 26, not a number" in said
    assert "'b' holds '1,234' in row 1, '1,234' in row 2, '1,234' in row 3 and 23 more, not a number" in said
    assert "Commas may stand for thousands or decimals" in said
    assert "'c' holds '01.02.2020' in row 2" in said
    assert "Write all dates in one way" in said
    assert "'d' holds 'inf' in row 5, not a number" in said


def test_codes_and_few_levels_are_no_numbers_with_slips():
    assert what(encoded(["12", "12a", "13", "13", "12", "12a", "14", "14"])[0])[0] == "category"
    assert what(encoded(["4", "6", "8", "rotary", "4", "6"] * 4)[0])[0] == "category"
    assert what(encoded(["007", "007", "12", "12"])[0])[0] == "category"


def test_bad_cells_of_new_rows_are_said_together():
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": ["2020-01-01", "2020-01-02", "2020-01-04"]}))
    with pytest.raises(
        InputError, match=r"'a' holds 'x' in row 2, not a number; 'b' holds 'soon' in row 1, not a date"
    ):
        encoder.transform(pd.DataFrame({"a": [1, "x"], "b": ["soon", "2020-01-01"]}))
    assert encoder.transform(pd.DataFrame({"b": ["2020-01-03"], "a": ["7"]})).tolist() == [[7, 2]]


def test_columns_are_found_by_their_names():
    frame = pd.DataFrame({"a": ["u", "v"] * 3, "b": [1.0, 2, 3, 4, 5, 7]})
    encoder = TableEncoder().fit(frame)
    wanted = encoder.transform(frame)
    assert_array_equal(encoder.transform(frame[["b", "a"]].assign(more=1)), wanted)
    assert_array_equal(encoder.transform(frame.to_numpy(dtype=object)), wanted)
    with pytest.raises(InputError, match="lacks the columns 'a'"):
        encoder.transform(frame[["b"]])
    with pytest.raises(InputError, match="an array of these 2 columns"):
        encoder.transform(np.zeros((2, 3)))


def test_groups_say_which_column_a_number_is_of():
    frame = pd.DataFrame({"a": ["u", "v", "w"] * 2, "id": [5, 3, 1, 2, 4, 9], "b": [1.0, None, None, 4, 5, 7]})
    encoder = TableEncoder().fit(frame)
    assert [column.name for column in encoder.used_] == ["a", "b"]
    assert encoder.groups_.tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": {"a": "paint"}}, "'a' cannot be 'paint'"),
        ({"kinds": ["a"]}, "must be a mapping"),
        ({"kinds": {1: "drop"}}, "must be a mapping"),
        ({"kinds": {"a": ["x"]}}, "needs two or more different texts"),
        ({"kinds": {"a": ["x", "x"]}}, "needs two or more different texts"),
        ({"kinds": {"a": 3}}, "needs two or more different texts"),
        ({"missing": "?"}, "missing must be a list"),
        ({"missing": [1]}, "missing must be a list"),
        ({"max_levels": 1}, "max_levels must be an integer of at least 2"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ConfigurationError, match=message):
        TableEncoder(**options).fit(pd.DataFrame({"a": [1, 2]}))


def test_tables_without_an_input():
    with pytest.raises(
        InputError, match=r"no column is left as an input \('a': left out: constant, 1; 'b': left out: e"
    ):
        TableEncoder().fit(pd.DataFrame({"a": [1, 1], "b": ["x", "y"]}))
    with pytest.raises(InputError, match="no rows"):
        TableEncoder().fit(pd.DataFrame({"a": []}))
    with pytest.raises(InputError, match="takes a data frame"):
        TableEncoder().fit(np.eye(3))
    with pytest.raises(InputError, match="columns names 'c', but the table has 'a'"):
        TableEncoder({"c": "drop"}).fit(pd.DataFrame({"a": [1, 2]}))
    with pytest.raises(InputTypeError, match="holds list objects"):
        TableEncoder().fit(pd.DataFrame({"a": [[1], [2]]}))


def test_it_is_a_transformer_of_scikit_learn():
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline

    frame = pd.DataFrame({"a": ["u", "v", "w"] * 4, "b": np.linspace(0, 1, 12)})
    encoder = clone(TableEncoder({"b": "number"}, max_levels=4))
    assert encoder.get_params() == {"kinds": {"b": "number"}, "missing": (), "max_levels": 4}
    model = make_pipeline(encoder, Ridge()).fit(frame, frame["b"])
    assert model.predict(frame).shape == (12,)
    assert not hasattr(encoder, "feature_names_in_") or list(encoder.feature_names_in_) == ["a", "b"]


def test_nothing_new_warns_of_nothing():
    frame = pd.DataFrame({"a": ["u", None, "v", "u", "v", None], "b": [1, None, 3, 4, None, 6]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder().fit(frame).transform(frame)
