"""Data frames of any library as columns of plain cells: pandas, polars and Arrow tables, read through narwhals."""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import InputError, InputTypeError
from sodgp.tables.words import number_of

__all__ = ["Cells", "as_text", "cells_of", "is_frame", "is_plain", "without_marks"]

_EPOCH = datetime.datetime(1970, 1, 1)
# Kinds of cells.
NUMBER, BOOLEAN, DATE, TEXT = "number", "boolean", "date", "text"


@dataclass(frozen=True)
class Cells:
    """One column as it came.

    Attributes
    ----------
    kind : {"number", "boolean", "date", "text"}
        How the cells are stored, not what they mean.
    values : ndarray of shape [N]
        float64 with nan for what is missing (dates: seconds since 1970 on the wall clock); for text str or None.
    levels : tuple of str
        Those that a categorical type declares, in its order.
    is_ordered : bool
        Whether that order means something.
    """

    name: str
    kind: str
    values: NDArray[Any]
    levels: tuple[str, ...] = ()
    is_ordered: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which cells hold nothing, [N]."""
        if self.kind != TEXT:
            return np.isnan(self.values)
        return np.array([value is None for value in self.values], dtype=bool)

    def at(self, rows: NDArray[np.int64]) -> Cells:
        """The cells of these rows."""
        return replace(self, values=self.values[rows])

    def texts(self, missing: frozenset[str] = frozenset()) -> NDArray[np.object_]:
        """The cells as text without white space around it; None for what is missing or such a mark."""
        if self.kind == TEXT:
            return np.array([_known(value, missing) for value in self.values], dtype=object)
        words = {0.0: "False", 1.0: "True"} if self.kind == BOOLEAN else {}
        found = [None if math.isnan(v) else words.get(v) or as_text(v) for v in self.values.tolist()]
        if self.kind == DATE:
            found = [None if math.isnan(v) else date_text(v) for v in self.values.tolist()]
        return np.array(found, dtype=object)


def _known(value: str | None, missing: frozenset[str]) -> str | None:
    text = None if value is None else value.strip()
    return None if not text or text.casefold() in missing else text


def as_text(value: Any) -> str:
    """A level as text: whole numbers are the same text whether a gap has made floats of them or not.

    Examples
    --------
    >>> as_text(8001), as_text(8001.0), as_text(0.5), as_text(" red ")
    ('8001', '8001', '0.5', 'red')
    """
    if isinstance(value, float | np.floating | Decimal) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value).strip()


def date_text(seconds: float) -> str:
    """A date for messages; where it is no date of the calendar, its number."""
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return f"{seconds:g} s"
    return moment.isoformat(sep=" ") if moment.time() != datetime.time() else moment.date().isoformat()


def is_frame(X: Any) -> bool:
    """Whether this is a data frame with a name for each column, each of them once."""
    names = _names(X)
    return names is not None and len(set(names)) == len(names) > 0


def is_plain(X: Any) -> bool:
    """Whether every column of a frame holds numbers or booleans without gaps: an array says the same."""
    return all(cells.kind in (NUMBER, BOOLEAN) and not cells.missing.any() for cells in cells_of(X))


def cells_of(X: Any, names: Iterable[str] | None = None) -> list[Cells]:
    """The columns of a frame, or those with these names, in that order.

    Raises
    ------
    InputError
        A column is missing, or is of a type that is neither numbers, text nor dates.
    """
    import narwhals.stable.v2 as nw

    # By place: the names of pandas need not be text.
    known = {str(name): place for place, name in enumerate(_names(X) or [])}
    wanted = list(known) if names is None else list(names)
    lacking = [repr(name) for name in wanted if name not in known]
    if lacking:
        there = ", ".join(map(repr, known))
        raise InputError(f"X lacks the columns {', '.join(lacking)} of the fit; it has {there}. Spell them like that.")
    frame = nw.from_native(X, eager_only=True)
    found, bad = [], []
    for name in wanted:
        try:
            found.append(_cells(name, frame[:, known[name]]))
        except InputTypeError as error:
            bad.append(str(error))
    if bad:
        raise InputTypeError(f"{'; '.join(bad)}. Drop such columns (columns={{'NAME': 'drop'}}), or make text of them.")
    return found


def _names(X: Any) -> list[Any] | None:
    """Names of the columns of a frame; None for what is none."""
    # What is no frame must not wait for the import.
    if isinstance(X, np.ndarray | list | tuple):
        return None
    if type(X).__name__ == "LazyFrame" and type(X).__module__.startswith("polars"):
        raise InputError("X is a lazy frame, whose rows are not there yet. Give X.collect().")
    if not (hasattr(X, "columns") or hasattr(X, "column_names")):
        return None
    import narwhals.stable.v2 as nw

    if not nw.dependencies.is_into_dataframe(X):
        return None
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def _cells(name: str, series: Any) -> Cells:
    """One column, by its type."""
    import narwhals.stable.v2 as nw

    kind = series.dtype
    if kind.is_numeric():
        return Cells(name, NUMBER, _floats(series.cast(nw.Float64)))
    if kind == nw.Boolean:
        return Cells(name, BOOLEAN, _floats(series.cast(nw.Int64).cast(nw.Float64)))
    if kind == nw.Datetime:
        return Cells(name, DATE, _floats(series.dt.replace_time_zone(None).dt.timestamp("us")) / 1e6)
    if kind == nw.Date:
        return Cells(name, DATE, _floats(series.cast(nw.Datetime("us")).dt.timestamp("us")) / 1e6)
    if kind == nw.Duration:
        return Cells(name, NUMBER, _floats(series.dt.total_microseconds()) / 1e6)
    if kind in (nw.Categorical, nw.Enum):
        return _of_levels(name, series)
    return of_objects(name, series.to_list())


def _floats(series: Any) -> NDArray[np.float64]:
    values = series.to_numpy()
    if values.dtype == object:
        values = np.array([math.nan if value is None else value for value in values])
    return np.asarray(values, dtype=np.float64)


def _of_levels(name: str, series: Any) -> Cells:
    """A column of a categorical type; its order counts where the type says so."""
    native, declared = series.to_native(), getattr(series.dtype, "categories", None)
    is_ordered = bool(getattr(native.dtype if hasattr(native, "dtype") else native.type, "ordered", False))
    if declared is None and is_ordered:  # of Arrow, whose dictionary narwhals sorts
        declared = native.combine_chunks().dictionary.to_pylist()
    levels = tuple(as_text(v) for v in (series.cat.get_categories().to_list() if declared is None else declared))
    return replace(
        of_objects(name, [_or_none(v) for v in series.to_list()], TEXT), levels=levels, is_ordered=is_ordered
    )


def of_objects(name: str, values: Iterable[Any], kind: str | None = None) -> Cells:
    """A column of Python objects: numbers, booleans, dates, or text; a mixture is text.

    Examples
    --------
    >>> of_objects("a", [1, None, 2.5]).kind, of_objects("b", ["x", 3, None]).values.tolist()
    ('number', ['x', '3', None])
    """
    cells = [_or_none(value) for value in values]
    known = [value for value in cells if value is not None]
    if kind is None:
        kind = next((kind for kind, test in _TESTS if known and all(map(test, known))), TEXT)
    if kind == TEXT:
        strange = next((v for v in known if not isinstance(v, _SINGLE) and type(v).__name__ not in _NAMED), None)
        if strange is not None:
            raise InputTypeError(f"column {name!r} holds {type(strange).__name__} objects, such as {strange!r:.40}")
        return Cells(name, TEXT, np.array([None if v is None else as_text(v) for v in cells], dtype=object))
    make = _seconds if kind == DATE else float
    try:
        numbers_found = [math.nan if value is None else make(value) for value in cells]
    except OverflowError:
        raise InputTypeError(f"column {name!r} holds whole numbers that are too large for a float") from None
    return Cells(name, kind, np.array(numbers_found, dtype=np.float64))


def without_marks(cells: Cells, missing: Iterable[str]) -> Cells:
    """Numbers with nan in the place of those that stand for nothing, such as -999."""
    marks = [number_of(mark.strip(), "plain") for mark in missing]
    if cells.kind != NUMBER or not marks:
        return cells
    return Cells(cells.name, cells.kind, np.where(np.isin(cells.values, marks), np.nan, cells.values))


def _or_none(value: Any) -> Any:
    """None for the missing values of all libraries: None, nan, NaT, pandas.NA."""
    if value is None or isinstance(value, str):
        return value
    try:
        return None if value != value else value
    except (TypeError, ValueError):  # pandas.NA has no truth value; arrays have many
        return None if type(value).__name__ == "NAType" else value


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real | Decimal) and not _is_boolean(value)


def _is_date(value: Any) -> bool:
    return isinstance(value, datetime.date | datetime.time | np.datetime64)


def _seconds(value: Any) -> float:
    """Seconds since 1970 on the wall clock; a time of the day is one of the first day."""
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64)) / 1e6
    if isinstance(value, datetime.time):
        value = datetime.datetime.combine(_EPOCH.date(), value)
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    return (value.replace(tzinfo=None) - _EPOCH).total_seconds()


_TESTS = ((BOOLEAN, _is_boolean), (NUMBER, _is_number), (DATE, _is_date))
# What has one text; classes of pandas, which may be missing, by their names.
_NAMED = ("Period", "Interval")
_SINGLE = (str, numbers.Number, Decimal, np.bool_, datetime.date, datetime.time, datetime.timedelta, np.datetime64)
