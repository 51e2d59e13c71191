"""Fitted columns as JSON, and back, each entry checked: files come from anywhere."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

from sodgp.errors import ModelFileError
from sodgp.tables.columns import (
    CLASSES,
    DAY,
    SEASONS,
    CategoryColumn,
    Column,
    DateColumn,
    Filled,
    NumberColumn,
    OrderedColumn,
)
from sodgp.tables.words import DATE_FORMATS

__all__ = ["column_of_state", "state_of_column"]

_STYLES: Final = ("plain", "thousands", "comma")


def state_of_column(column: Column) -> dict[str, Any]:
    """A column as JSON.

    Examples
    --------
    >>> from sodgp.tables.columns import LeftOut
    >>> state_of_column(LeftOut("row", "a running number"))
    {'kind': 'left out', 'name': 'row', 'reason': 'a running number', 'is_kept': False}
    """
    values = {f.name: getattr(column, f.name) for f in dataclasses.fields(column)}
    return {"kind": column.kind, **{name: _plain(value) for name, value in values.items()}}


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def column_of_state(entry: Any) -> Column:
    """The column that `state_of_column` wrote.

    Raises
    ------
    ModelFileError
        An entry is missing, unknown, or not of its type.
    """
    kind = entry.get("kind") if isinstance(entry, Mapping) else None
    if not isinstance(kind, str) or kind not in CLASSES:
        raise _error("kind", "unknown")
    cls = CLASSES[kind]
    wanted = {f.name: str(f.type) for f in dataclasses.fields(cls)}
    if entry.keys() != {"kind", *wanted}:
        raise _error(sorted(entry.keys() ^ {"kind", *wanted})[0], "missing or unknown")
    column = cls(**{name: _checked(name, entry[name], type_name) for name, type_name in wanted.items()})
    _check_sense(column)
    return column


def _checked(name: str, value: Any, type_name: str) -> Any:
    """A value of a field, by the field's annotation."""
    if type_name == "tuple[str, ...]" and isinstance(value, list) and all(type(item) is str for item in value):
        return tuple(value)
    is_counts = type_name == "tuple[tuple[str, int], ...]" and isinstance(value, list)
    if is_counts and all(isinstance(p, list) and [type(v) for v in p] == [str, int] and p[1] > 0 for p in value):
        return tuple((level, count) for level, count in value)
    if type_name == "float" and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if type_name == "int" and type(value) is int and 0 <= value < 2**53:
        return value
    if (type_name == "str" and type(value) is str) or (type_name == "bool" and type(value) is bool):
        return value
    raise _error(name, f"not of the type {type_name}")


def _check_sense(column: Column) -> None:
    """What types alone do not say."""
    if isinstance(column, NumberColumn) and column.style not in _STYLES:
        raise _error("style", "unknown")
    if isinstance(column, OrderedColumn) and not (0 <= column.fill < len(column.levels) and column.fill % 1 == 0):
        raise _error("fill", "not the place of a level")
    if isinstance(column, DateColumn):
        if column.format not in ("", *DATE_FORMATS) or not set(column.seasons) <= set(SEASONS):
            raise _error("format", "unknown")
        if column.unit not in (DAY, DAY / 24):
            raise _error("unit", "neither days nor hours")
    levels = column.levels if isinstance(column, CategoryColumn | OrderedColumn) else ()
    if len(set(levels)) != len(levels):
        raise _error("levels", "not different")
    if isinstance(column, CategoryColumn) and len(column.slots) < 2:
        raise _error("levels", "fewer than two")
    if isinstance(column, Filled) and column.has_indicator and not column.gaps:
        raise _error("has_indicator", "without a gap")


def _error(name: str, what: str) -> ModelFileError:
    return ModelFileError(f"in its entry 'columns', {name!r} is {what}. Save the model again, or fetch a fresh copy.")
