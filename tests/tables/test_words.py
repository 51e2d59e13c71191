"""Texts in cells: numbers, booleans and dates."""

import math

import pytest

from sodgp.tables.words import DATE_FORMATS, MISSING, boolean_of, date_format, date_of, number_of, number_style


@pytest.mark.parametrize(
    ("texts", "style", "values"),
    [
        (["1", "-2.5", "+3e2", ".5", "4."], "plain", [1, -2.5, 300, 0.5, 4]),
        (["1,234.5", "7"], "thousands", [1234.5, 7]),
        (["1,234,567", "1,000"], "thousands", [1234567, 1000]),
        (["$12", "$1,300.25"], "thousands", [12, 1300.25]),
        (["12 %", "7.5 %"], "thousands", [12, 7.5]),
        (["1,5", "2"], "comma", [1.5, 2]),
        (["1.234,5", "-0,25"], "comma", [1234.5, -0.25]),
        (["1,5 €", ",75 €"], "comma", [1.5, 0.75]),
        (["1,234", "5,678"], None, []),
        (["007", "1"], None, []),
        (["0", "0.5"], "plain", [0, 0.5]),
        (["1_000"], None, []),
        (["inf"], None, []),
        (["0x10"], None, []),
        (["1 2"], None, []),
        ([], None, []),
    ],
)
def test_numbers(texts, style, values):
    assert number_style(texts) == style
    assert [number_of(text, style) for text in texts if style] == values


def test_what_is_no_number_is_nan():
    assert all(math.isnan(number_of(text, "plain")) for text in ("", "a", "1,5", "nan", "1e999", "--1"))


def test_booleans():
    assert [boolean_of(text) for text in ("YES", "true", "On", "n", "F", "off")] == [1, 1, 1, 0, 0, 0]
    assert math.isnan(boolean_of("x"))


@pytest.mark.parametrize(
    ("texts", "form"),
    [
        (["2020-02-29", "1999-12-31"], "iso"),
        (["2020-02-29 12:30", "2020-02-29T12:30:59.5Z", "2020-02-29 01:00+02:00"], "iso"),
        (["31.12.2020"], "%d.%m.%Y"),
        (["02/13/2020", "01/02/2020"], "%m/%d/%Y"),
        (["13/02/2020", "01/02/2020"], "%d/%m/%Y"),
        (["Jan 1 2000"], "%b %d %Y"),
        (["2020-05"], "month"),
        (["11:15", "9:00"], "%H:%M"),
        (["1:5", "2:3"], None),
        (["1/2", "2/2"], None),
        (["2020-02-30"], None),
        (["2020", "2021"], None),
        (["may", "june"], None),
        (["2020-01-01", "01.01.2020"], None),
        ([], None),
    ],
)
def test_dates(texts, form):
    assert date_format(texts) == form


def test_dates_are_seconds_on_the_wall_clock():
    assert date_of("1970-01-02 01:00", "iso") == 90_000
    assert date_of("1970-01-02 01:00+05:00", "iso") == 90_000
    assert date_of("02.01.1970", "%d.%m.%Y") == 86_400
    assert date_of("00:01:30", "%H:%M:%S") == 90
    assert date_of("01.01.63", "%d.%m.%y") < 0 < date_of("01.01.39", "%d.%m.%y")


def test_every_format_reads_what_it_writes():
    import datetime

    moment = datetime.datetime(2021, 3, 14, 15, 9, 26)
    for form in set(DATE_FORMATS) - {"iso", "month"}:
        assert not math.isnan(date_of(moment.strftime(form), form)), form


def test_marks_of_missing_values_are_folded():
    assert {mark.casefold() for mark in MISSING} == MISSING
