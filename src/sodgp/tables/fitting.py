"""From the cells of a column to what becomes of it: which kind it is, its levels, its median, its seasons."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sodgp.system.validation import FloatArray
from sodgp.tables.columns import (
    DAY,
    SEASONS,
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    LeftOut,
    NumberColumn,
    OrderedColumn,
    phase,
)
from sodgp.tables.frames import BOOLEAN, DATE, NUMBER, TEXT, Cells
from sodgp.tables.words import DATE_FORMATS, MISSING, boolean_of, date_format, date_of, number_of, number_style

__all__ = ["KINDS", "Rules", "fit_column"]

# What a user may ask for, other than an order of levels.
KINDS: Final = ("auto", "number", "boolean", "category", "date", "drop", "keep")
# Levels that training must have seen so often, between these, are not rare.
_RARE, _MOST_RARE, _RARE_SHARE = 2, 20, 200
# Levels that are remembered although they are rare.
_MOST_POOLED = 200
_NAMES_OF_IDS = frozenset({"id", "ids", "uuid", "guid", "index", "idx", "key", "row", "rowname", "rownames", "nr"})
_NAME_OF_ID = re.compile(r"[_\s.\-](id|uuid|guid|key|nr|no)$|[a-z](Id|ID)$|^Unnamed", re.ASCII)
# Names under which a running number is a time.
_NAMES_OF_TIMES = re.compile(r"^(x|t)$|time|date|year|month|week|day|hour|minute|second|step|age|period|quarter", re.I)
_FEWEST_RUNNING = 10
# Letters and digits in one: no number with a slip of the pen.
_CODE = re.compile(r"[A-Za-z]+[-_]?\d+|\d+[-_]?[A-Za-z]+")
# So many levels are a category in any table.
_FEW = 10
_ONE_WAY = "Write all dates in one way, such as 2020-12-31."


@dataclass(frozen=True)
class Rules:
    """What is decided in the same way for all columns of a table."""

    missing: frozenset[str] = MISSING
    max_levels: int = 30


@dataclass
class Unreadable(Exception):  # noqa: N818
    """Cells of a column that cannot be read as what it is: rows and texts, and what to do."""

    name: str
    cells: list[tuple[int, str]]
    wanted: str
    advice: list[str] = field(default_factory=list)


def fit_column(cells: Cells, wanted: str | tuple[str, ...], rules: Rules, *, is_first: bool = False) -> Column:
    """Decide what becomes of a column; `wanted` is one of `KINDS`, or the levels of a category in their order.

    Raises
    ------
    Unreadable
        Some cells are not what the others are, or not what was asked for.
    """
    if wanted in ("drop", "keep"):
        reason = "kept for the predictions" if wanted == "keep" else "as asked"
        return LeftOut(cells.name, reason, is_kept=wanted == "keep")
    texts = cells.texts(rules.missing) if cells.kind == TEXT or wanted == "category" or _is_order(wanted) else None
    gone = cells.missing if texts is None else np.array([text is None for text in texts], dtype=bool)
    if gone.all():
        return LeftOut(cells.name, "every cell is missing")
    if _is_order(wanted):
        assert texts is not None
        return _ordered(cells.name, tuple(wanted), texts, gone)
    if wanted == "auto":
        return _guessed(cells, texts, gone, rules, is_first=is_first)
    if wanted == "category":
        assert texts is not None
        return _category(cells, texts, gone, rules, is_asked=True)
    make = {"number": _number, "boolean": _boolean, "date": _date}[str(wanted)]
    return make(cells, texts, gone)


def _is_order(wanted: str | tuple[str, ...]) -> bool:
    return not isinstance(wanted, str)


def _guessed(
    cells: Cells, texts: NDArray[np.object_] | None, gone: NDArray[np.bool_], rules: Rules, *, is_first: bool
) -> Column:
    """The kind that the cells show."""
    name = cells.name
    if cells.kind == BOOLEAN:
        return _unless_constant(_boolean(cells, texts, gone), cells, rules)
    if cells.kind == DATE:
        return _unless_constant(_date(cells, texts, gone), cells, rules)
    if cells.kind == NUMBER:
        reason = _id_of_numbers(name, cells.values[~gone], is_first=is_first)
        return LeftOut(name, reason) if reason else _unless_constant(_number(cells, texts, gone), cells, rules)
    assert texts is not None
    if cells.is_ordered and cells.levels:
        present = set(texts[~gone])
        levels = tuple(level for level in cells.levels if level in present)
        if len(levels) > 1:
            return _ordered(name, levels, texts, gone)
        return _category(cells, texts, gone, rules)
    known = [str(text) for text in texts[~gone]]
    different = sorted(set(known))
    if not cells.levels:
        if number_style(different) is not None:
            column = _number(cells, texts, gone)
            reason = _id_of_numbers(name, column.encode(cells, rules.missing).values[~gone, 0], is_first=is_first)
            return LeftOut(name, reason) if reason else _unless_constant(column, cells, rules)
        if {str(boolean_of(text)) for text in different} == {"0.0", "1.0"}:
            return _boolean(cells, texts, gone)
        if date_format(different) is not None:
            return _unless_constant(_date(cells, texts, gone), cells, rules)
        _refuse_strays(name, texts, different)
    return _category(cells, texts, gone, rules)


def _unless_constant(column: Column, cells: Cells, rules: Rules) -> Column:
    """The column, unless all its cells are equal."""
    values = column.encode(cells, rules.missing).values
    if len(values) > 1 and not np.ptp(values, axis=0).any():
        value = next(text for text in cells.texts(rules.missing) if text is not None)
        return LeftOut(column.name, f"constant, {value}")
    return column


def _id_of_numbers(name: str, values: FloatArray, *, is_first: bool) -> str:
    """Why numbers look like an id; empty where they do not."""
    if len(values) < 2 or (values != np.round(values)).any() or len(np.unique(values)) < len(values):
        return ""
    if name.casefold() in _NAMES_OF_IDS or _NAME_OF_ID.search(name):
        return "an id (whole numbers, all different)"
    steps = np.diff(values)
    is_running = len(values) >= _FEWEST_RUNNING and values[0] in (0, 1) and (steps == 1).all()
    return "a running number" if is_first and is_running and not _NAMES_OF_TIMES.search(name) else ""


def _refuse_strays(name: str, texts: NDArray[np.object_], different: Sequence[str]) -> None:
    """Raise Unreadable where most cells are numbers, or dates, and a few are something else."""
    known = [(row, str(text)) for row, text in enumerate(texts) if text is not None]
    comma = [text for text in different if re.fullmatch(r"[+-]?[\d.]*,\d+", text)]
    thousands = [text for text in comma if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+", text)]
    is_repeated = len(different) <= 2 * _FEW and 3 * len(different) <= len(known) and not comma
    is_level = is_repeated or any(re.fullmatch(r"0\d+", text) for text in different)
    for style in () if is_level else ("plain", "thousands", "comma"):
        strays = [(row, text) for row, text in known if math.isnan(number_of(text, style))]
        is_code = all(_CODE.fullmatch(text) for _, text in strays) and bool(strays)
        if 2 * len(strays) < len(known) and not is_code:
            if not strays or (comma and len(thousands) == len(comma)):
                strays = [(row, text) for row, text in known if "," in text]
                advice = ["Commas may stand for thousands or decimals: write plain numbers, 1234.5."]
            elif comma and style == "plain":
                advice = ["It looks like a decimal comma: write numbers with a point, 1.5 (of a file: --decimal ,)."]
            else:
                advice = []
            raise Unreadable(name, strays, "a number", advice)
    sample = different[:: max(1, len(different) // 50)]
    if 2 * sum(date_format([text]) is not None for text in sample) > len(sample):
        form = max(DATE_FORMATS, key=lambda form: sum(not math.isnan(date_of(text, form)) for text in sample))
        strays = [(row, text) for row, text in known if math.isnan(date_of(text, form))]
        raise Unreadable(name, strays, "a date", [_ONE_WAY])


def _least(n_rows: int) -> int:
    """How often a level, or a gap, must occur to have a column of its own."""
    return int(np.clip(math.ceil(n_rows / _RARE_SHARE), _RARE, _MOST_RARE))


def _number(cells: Cells, texts: NDArray[np.object_] | None, gone: NDArray[np.bool_]) -> NumberColumn:
    style = "plain" if texts is None else number_style(str(text) for text in set(texts[~gone])) or "plain"
    draft = NumberColumn(cells.name, 0.0, 0, False, style)
    found = draft.encode(cells, frozenset())
    _refuse(cells.name, _of_known(found.bad, gone), "a number")
    fill = float(np.median(found.values[~gone, 0]))
    return NumberColumn(cells.name, fill, *_gaps(gone), style)


def _boolean(cells: Cells, texts: NDArray[np.object_] | None, gone: NDArray[np.bool_]) -> BooleanColumn:
    if cells.kind in (NUMBER, DATE):
        values = cells.values
        bad = [(int(row), f"{values[row]:g}") for row in np.flatnonzero(~gone & (values != 0) & (values != 1))]
        _refuse(cells.name, bad, "yes or no")
    elif texts is not None:
        values = np.array([0.0 if text is None else boolean_of(text) for text in texts])
        _refuse(cells.name, [(int(row), str(texts[row])) for row in np.flatnonzero(np.isnan(values))], "yes or no")
    else:
        values = cells.values
    return BooleanColumn(cells.name, float(values[~gone].mean() > 0.5), *_gaps(gone))


def _ordered(name: str, levels: tuple[str, ...], texts: NDArray[np.object_], gone: NDArray[np.bool_]) -> OrderedColumn:
    places = {level: place for place, level in enumerate(levels)}
    bad = [(row, str(text)) for row, text in enumerate(texts) if text is not None and text not in places]
    _refuse(name, bad, f"one of {', '.join(levels)}")
    fill = float(np.floor(np.median([places[text] for text in texts[~gone]])))
    return OrderedColumn(name, fill, *_gaps(gone), levels)


def _category(
    cells: Cells, texts: NDArray[np.object_], gone: NDArray[np.bool_], rules: Rules, *, is_asked: bool = False
) -> Column:
    name, least = cells.name, _least(len(texts))
    often = Counter(str(text) for text in texts[~gone])
    gaps = int(gone.sum())
    if len(often) == 1 and gaps < least:
        return LeftOut(name, f"constant, {next(iter(often))}")
    frequent = sorted((level for level in often if often[level] >= least), key=lambda level: (-often[level], level))
    if not frequent:
        what = "every text is another" if len(often) > 1 and max(often.values()) == 1 else "hardly a text occurs twice"
        return LeftOut(name, f"{what}: names, ids or free text" if not is_asked else f"{what}: no level to learn from")
    if not is_asked and len(often) > max(_FEW, 0.5 * len(texts)):
        return LeftOut(name, f"{len(often):,} different texts in {len(texts):,} rows: names, ids or free text")
    levels = tuple(sorted(frequent[: rules.max_levels]))
    rare = tuple(sorted(set(often) - set(levels)))
    has_missing = gaps >= least
    is_wide = len(frequent) > rules.max_levels or len(rare) > _MOST_POOLED
    counts = tuple(sorted((level, count) for level, count in often.items() if count > 1)) if is_wide else ()
    return CategoryColumn(
        name, levels, () if is_wide else rare, bool(rare), has_missing, counts, n_levels=len(often), gaps=gaps
    )


def _date(cells: Cells, texts: NDArray[np.object_] | None, gone: NDArray[np.bool_]) -> DateColumn:
    form = "" if texts is None else date_format(str(text) for text in set(texts[~gone])) or "iso"
    seconds, _, bad = DateColumn(cells.name, 0.0, 0, False, form).seconds(cells, frozenset())
    _refuse(cells.name, _of_known(bad, gone), "a date", [_ONE_WAY])
    found = seconds[~gone]
    span = float(np.ptp(found))
    return DateColumn(
        cells.name,
        float(np.median(found)),
        *_gaps(gone),
        format=form,
        origin=float(found.min()),
        unit=DAY if span > 2 * DAY else DAY / 24,
        seasons=tuple(season for season in SEASONS if _varies(found, season, span)),
    )


def _varies(seconds: FloatArray, season: str, span: float) -> bool:
    """Whether dates are spread over a season closely enough to say something about it."""
    different = len(np.unique(np.round(phase(seconds, season), 6)))
    if season == "day":
        return different > 2
    if season == "year":
        return span > 300 * DAY and different > 2
    days = np.unique(np.floor(seconds / DAY))
    return span > 14 * DAY and different > 1 and float(np.median(np.diff(days))) <= 3


def _gaps(gone: NDArray[np.bool_]) -> tuple[int, bool]:
    """How many cells are missing, and whether they are enough for an indicator."""
    count = int(gone.sum())
    return count, count >= _least(len(gone))


def _of_known(bad: Sequence[tuple[int, str]], gone: NDArray[np.bool_]) -> list[tuple[int, str]]:
    return [(row, text) for row, text in bad if not gone[row]]


def _refuse(name: str, bad: list[tuple[int, str]], wanted: str, advice: Sequence[str] = ()) -> None:
    if bad:
        raise Unreadable(name, bad, wanted, list(advice))
