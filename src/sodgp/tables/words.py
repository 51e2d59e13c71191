"""What texts in cells mean: numbers, booleans and dates, and the marks of missing values."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["DATE_FORMATS", "MISSING", "boolean_of", "date_format", "date_of", "number_of", "number_style"]

# Marks of missing values in text, whatever their case; an empty cell is one, too.
MISSING: Final = frozenset(
    {"?", "-", "--", ".", "na", "n/a", "#n/a", "#na", "n.a.", "nan", "-nan", "nat", "none", "null", "<na>", "missing"}
)
_TRUE, _FALSE = {"true", "yes", "y", "t", "on", "1"}, {"false", "no", "n", "f", "off", "0"}

_POINT = r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"
_COMMA = r"[+-]?(\d{1,3}(\.\d{3})+|\d+)?,\d+|[+-]?\d{1,3}(\.\d{3}){2,}|[+-]?(\d+,\d*|,\d+)[eE][+-]?\d+|[+-]?\d+"
_THOUSANDS = r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?"
# Signs before or behind numbers, such as those of currencies.
_BEFORE, _BEHIND = r"[$€£¥]?\s*", r"\s*[%€$£¥]?"
# Each style with what a number in it looks like, in the order in which they are tried.
_STYLES: Final[dict[str, re.Pattern[str]]] = {
    "plain": re.compile(_POINT),
    "thousands": re.compile(f"{_BEFORE}({_POINT}|{_THOUSANDS}){_BEHIND}"),
    "comma": re.compile(f"{_BEFORE}({_COMMA}){_BEHIND}"),
}
# "1,234" may be a number of thousands or one with decimals.
_EITHER = re.compile(r"[+-]?\d{1,3},\d{3}")
_STRIPPED = "$€£¥% \t\u00a0"


def number_style(texts: Iterable[str]) -> str | None:
    """How all of these texts write numbers: ``"plain"``, ``"thousands"`` (1,234.5), ``"comma"`` (1.234,5); else None.

    None, too, for numbers with leading zeros, which are codes, and where a comma may stand for thousands or decimals.

    Examples
    --------
    >>> number_style(["1.5", "-2e3"]), number_style(["1,5", "2"]), number_style(["$1,234.50", "99"])
    ('plain', 'comma', 'thousands')
    >>> number_style(["1,234", "5,678"]), number_style(["0815", "4711"])
    (None, None)
    """
    found = list(texts)
    if any(re.fullmatch(r"0\d+", text) for text in found):
        return None
    for name, pattern in _STYLES.items():
        if found and all(pattern.fullmatch(text) for text in found):
            with_comma = [text for text in found if "," in text]
            is_open = with_comma and all(_EITHER.fullmatch(text.strip(_STRIPPED)) for text in with_comma)
            return None if is_open and not any("." in text for text in found) else name
    return None


def number_of(text: str, style: str) -> float:
    """A text as a number; nan for what is none.

    Examples
    --------
    >>> number_of("1.234,5", "comma"), number_of("12 %", "thousands")
    (1234.5, 12.0)
    """
    if not _STYLES[style].fullmatch(text):
        return math.nan
    text = text.strip(_STRIPPED)
    text = text.replace(".", "").replace(",", ".") if style == "comma" else text.replace(",", "")
    value = float(text)
    return value if math.isfinite(value) else math.nan


def boolean_of(text: str) -> float:
    """1 for yes, true, on, ..., 0 for no, false, off, ..., in any case; nan for other words.

    Examples
    --------
    >>> boolean_of("Yes"), boolean_of("f"), boolean_of("maybe")
    (1.0, 0.0, nan)
    """
    word = text.casefold()
    return 1.0 if word in _TRUE else 0.0 if word in _FALSE else math.nan


DATE_FORMATS: Final = (
    "iso",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m-%d-%Y",
    "%d-%m-%Y",
    "%m/%d/%y",
    "%d/%m/%y",
    "%d.%m.%y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%y %H:%M",
    "%b %d %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b %Y",
    "%B %Y",
    "%b-%y",
    "%m/%Y",
    "month",
    "%H:%M",
    "%H:%M:%S",
)
_EPOCH = datetime.datetime(1970, 1, 1)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}(:\d{2}(:\d{2}(\.\d+)?)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?")

_TIME = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")
# Years of two digits end here: 63 is 1963.
_LAST_YEAR = 2040


def date_format(texts: Iterable[str]) -> str | None:
    """The first of `DATE_FORMATS` that reads all of these texts; None where there is none.

    Examples
    --------
    >>> date_format(["2020-02-29"]), date_format(["13/02/2020", "01/02/2020"]), date_format(["soon"])
    ('iso', '%d/%m/%Y', None)
    """
    found = list(texts)
    if not found or not all(any(sign.isdigit() for sign in text) for text in found):
        return None
    return next((form for form in DATE_FORMATS if all(not math.isnan(date_of(t, form)) for t in found)), None)


def date_of(text: str, form: str) -> float:
    """A text as seconds since 1970 on the wall clock; nan for what is no date of this format.

    Examples
    --------
    >>> date_of("1970-01-02", "iso"), date_of("2020-13", "month")
    (86400.0, nan)
    """
    try:
        if form == "iso":
            if not _ISO.fullmatch(text):
                return math.nan
            moment = datetime.datetime.fromisoformat(text.replace(" Z", "Z")).replace(tzinfo=None)
        elif form == "month":
            if not re.fullmatch(r"\d{4}-\d{2}", text):
                return math.nan
            moment = datetime.datetime.fromisoformat(f"{text}-01")
        else:
            if form.startswith("%H") and not _TIME.fullmatch(text):
                return math.nan
            moment = datetime.datetime.strptime(text, form)
            if "%y" not in form.lower():  # a time of the day is one of the first day
                moment = datetime.datetime.combine(_EPOCH.date(), moment.time())
            elif "%y" in form and moment.year >= _LAST_YEAR:
                moment = moment.replace(year=moment.year - 100)
    except ValueError:
        return math.nan
    return (moment - _EPOCH).total_seconds()


def parsed(texts: NDArray[np.object_], read: Callable[[str], float]) -> NDArray[np.float64]:
    """Texts [N] as numbers, each different one read once; nan for None and for what cannot be read."""
    known = {text: read(text) for text in {text for text in texts if text is not None}}
    return np.array([math.nan if text is None else known[text] for text in texts], dtype=np.float64)
