"""What becomes of one column: numbers for a model, a name for each of them, and what is said about it.

A column is frozen once it has been fitted (`sodgp.tables.fitting`), and plain JSON in a model file
(`sodgp.tables.state`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from sodgp.system.validation import FloatArray
from sodgp.tables.frames import BOOLEAN, DATE, NUMBER, TEXT, Cells, as_text, date_text
from sodgp.tables.words import boolean_of, date_format, date_of, number_of, parsed

DAY = 86_400.0
# Seasons of dates, in the order of their columns.
SEASONS: Final = ("year", "week", "day")


@dataclass(frozen=True)
class Encoded:
    """Numbers of one column, [N, K], and what was not as in training.

    `gaps` are missing cells where training had none, `unknown` the levels that it had not, and `bad` the cells that
    cannot be read: row and text.
    """

    values: FloatArray
    gaps: int = 0
    unknown: list[str] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Column(ABC):
    """One column of a table, as the model gets it."""

    kind: ClassVar[str]
    name: str

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """Names of its numbers; none where it is left out."""

    @property
    def width(self) -> int:
        """How many numbers it becomes."""
        return len(self.features)

    @property
    @abstractmethod
    def said(self) -> str:
        """What became of it, for people."""

    @abstractmethod
    def encode(self, cells: Cells, missing: frozenset[str]) -> Encoded:
        """Cells as numbers; `missing` are the texts that stand for nothing."""

    def read(self, cells: Cells, missing: frozenset[str]) -> Cells:
        """The cells as what the column is, with nothing in the place of those marks."""
        return cells if cells.kind != TEXT else replace(cells, values=cells.texts(missing))


@dataclass(frozen=True)
class LeftOut(Column):
    """A column that is no input; with `is_kept` predictions carry it along."""

    kind = "left out"
    reason: str
    is_kept: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def said(self) -> str:
        """Why."""
        return f"left out: {self.reason}"

    def encode(self, cells: Cells, missing: frozenset[str]) -> Encoded:
        """No numbers."""
        return Encoded(np.empty((len(cells), 0)))


@dataclass(frozen=True)
class Filled(Column):
    """A column of one number a cell, in which `fill` takes the place of what is missing.

    `gaps` counts the missing cells of training; with `has_indicator` another column says where they are.
    """

    fill: float
    gaps: int
    has_indicator: bool

    @property
    def features(self) -> tuple[str, ...]:
        """Its own name, and that of the indicator."""
        return (self.name, *([f"{self.name} missing"] if self.has_indicator else []))

    def _said_of_gaps(self, fill: str) -> str:
        if not self.gaps:
            return ""
        return f"; {self.gaps:,} missing: {fill}" + (", with a column that says where" if self.has_indicator else "")

    def _filled(self, values: FloatArray, known: NDArray[np.bool_]) -> FloatArray:
        columns = [np.where(known, values, self.fill)]
        return np.stack([*columns, *([(~known).astype(float)] if self.has_indicator else [])], axis=1)

    def _new_gaps(self, missing: NDArray[np.bool_]) -> int:
        return 0 if self.gaps else int(missing.sum())


@dataclass(frozen=True)
class NumberColumn(Filled):
    """Numbers; `style` says how they are written where they are text."""

    kind = "number"
    style: str = "plain"

    @property
    def said(self) -> str:
        """That it is a number, and what is done about gaps."""
        how = {"comma": " with a decimal comma", "thousands": " with commas for thousands or units"}
        return f"number{how.get(self.style, '')}{self._said_of_gaps(f'median {self.fill:.6g}')}"

    def read(self, cells: Cells, missing: frozenset[str]) -> Cells:
        """Numbers, also of text."""
        if cells.kind != TEXT:
            return cells
        return Cells(self.name, NUMBER, parsed(cells.texts(missing), partial(number_of, style=self.style)))

    def encode(self, cells: Cells, missing: frozenset[str]) -> Encoded:
        """The numbers; infinite ones cannot be used."""
        if cells.kind != TEXT:
            values, gone = np.asarray(cells.values, dtype=np.float64), cells.missing
            wrong = np.isinf(values) if cells.kind != DATE else ~gone
            texts = cells.texts() if wrong.any() else None
        else:
            texts = cells.texts(missing)
            gone = np.array([text is None for text in texts], dtype=bool)
            values = self.read(cells, missing).values
            wrong = np.isnan(values) & ~gone
        bad = [] if texts is None else [(int(row), str(texts[row])) for row in np.flatnonzero(wrong)]
        return Encoded(self._filled(values, ~gone & ~wrong), self._new_gaps(gone), bad=bad)


@dataclass(frozen=True)
class BooleanColumn(Filled):
    """Yes and no, true and false, on and off: 1 and 0."""

    kind = "boolean"

    @property
    def said(self) -> str:
        """That it is 0 and 1."""
        return "yes or no: 1 and 0" + self._said_of_gaps("no" if self.fill == 0 else "yes")

    def encode(self, cells: Cells, missing: frozenset[str]) -> Encoded:
        """0 and 1, and for unknown words the middle."""
        if cells.kind == BOOLEAN:
            return Encoded(self._filled(cells.values, ~cells.missing), self._new_gaps(cells.missing))
        texts = cells.texts(missing)
        gone = np.array([text is None for text in texts], dtype=bool)
        values = parsed(texts, boolean_of)
        strange = np.isnan(values) & ~gone
        unknown = [str(text) for text in texts[strange]]
        return Encoded(self._filled(np.where(strange, 0.5, values), ~gone), self._new_gaps(gone), unknown)


@dataclass(frozen=True)
class OrderedColumn(Filled):
    """Levels in an order that counts: 0, 1, 2, ..."""

    kind = "ordered category"
    levels: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """The order."""
        return f"ordered: {_listed(self.levels, ' < ')}{self._said_of_gaps(self.levels[int(self.fill)])}"

    def encode(self, cells: Cells, missing: frozenset[str]) -> Encoded:
        """Places in the order; unknown levels take that of gaps."""
        places = {level: float(place) for place, level in enumerate(self.levels)}
        texts = cells.texts(missing)
        gone = np.array([text is None for text in texts], dtype=bool)
        values = parsed(texts, lambda text: places.get(text, math.nan))
        strange = np.isnan(values) & ~gone
        unknown = [str(text) for text in texts[strange]]
        return Encoded(self._filled(values, ~gone & ~strange), self._new_gaps(gone), unknown)


@dataclass(frozen=True)
class CategoryColumn(Column):
    """A column for each level; two levels share one.

    Attributes
    ----------
    levels : tuple of str
        Those with a column of their own.
    pooled : tuple of str
        The rare ones, unless they are very many.
    has_other : bool
        Whether there is a column ``other`` for the rare ones, and for levels that training has not seen. Without it an
        unknown level is none of the known ones: all zeros, or the middle of two.
    has_missing : bool
        Whether what is missing is a level; else it is treated as unknown.
    counts : tuple of (str, int)
        With very many levels, how often those occurred that did so more than once: its logarithm is one more column.
    n_levels, gaps : int
        Different levels and missing cells in training.
    """

    kind = "category"
    levels: tuple[str, ...]
    pooled: tuple[str, ...]
    has_other: bool
    has_missing: bool
    counts: tuple[tuple[str, int], ...]
    n_levels: int
    gaps: int

    @property
    def slots(self) -> tuple[str, ...]:
        """What a cell can be."""
        return (*self.levels, *(["other"] if self.has_other else []), *(["missing"] if self.has_missing else []))

    @property
    def features(self) -> tuple[str, ...]:
        """``NAME=LEVEL`` for each slot; of two the second."""
        shown = self.slots[1:] if len(self.slots) == 2 else self.slots
        names = [f"{self.name}={slot}" for slot in self.levels if slot in shown]
        names += [f"{self.name} {slot}" for slot in self.slots[len(self.levels) :] if slot in shown]
        return (*names, *([f"{self.name} frequency"] if self.counts else []))

    @property
    def said(self) -> str:
        """Its levels, and which were pooled."""
        parts = [f"{self.n_levels:,} levels: {_listed(self.levels)}"]
        if self.has_other:
            which = f" ({_listed(self.pooled)})" if 0 < len(self.pooled) <= 5 else ""
            parts.append(f"{self.n_levels - len(self.levels):,} rare as other{which}")
        if self.counts:
            parts.append("and how often each occurs")
        if self.gaps:
            parts.append(f"{self.gaps:,} missing: {'a level' if self.has_missing else 'as unknown'}")
        return "category of " + "; ".join(parts)

    def encode(self, cells: Cells, missing: frozenset[str]) -> Encoded:
        """Zeros and ones."""
        texts, slots = cells.texts(missing), self.slots
        gone = np.array([text is None for text in texts], dtype=bool)
        place = {level: float(number) for number, level in enumerate(self.levels)}
        other = float(len(self.levels)) if self.has_other else -1.0
        known = {**dict.fromkeys(self.pooled, other), **place}
        seen = known.keys() | {level for level, _ in self.counts}
        found = parsed(texts, lambda text: known.get(text, other))
        found[gone] = float(len(slots) - 1) if self.has_missing else -1.0
        codes = found.astype(np.int64)
        values = np.zeros((len(texts), len(slots)))
        rows = np.flatnonzero(codes >= 0)
        values[rows, codes[rows]] = 1.0
        if len(slots) == 2:
            values = np.where(codes < 0, 0.5, values[:, 1])[:, None]
        if self.counts:
            often = dict(self.counts)
            frequency = parsed(texts, lambda text: math.log(often.get(text, 1)))
            values = np.column_stack([values, np.nan_to_num(frequency)])
        # Of very many levels those that occurred once are not remembered.
        is_open = bool(self.counts)
        unknown = [] if is_open else [text for text in texts if text is not None and text not in seen]
        return Encoded(values, 0 if self.gaps else int(gone.sum()), unknown)


@dataclass(frozen=True)
class DateColumn(Filled):
    """Days since the first date of training (of times: hours), and sine and cosine of the seasons that vary."""

    kind = "date"
    format: str = ""
    origin: float = 0.0
    unit: float = DAY
    seasons: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """Trend, two for each season, and the indicator."""
        waves = [f"{self.name} {wave} of {season}" for season in self.seasons for wave in ("sin", "cos")]
        return (self.name, *waves, *([f"{self.name} missing"] if self.has_indicator else []))

    @property
    def said(self) -> str:
        """The parts that it became."""
        trend = f"{'days' if self.unit == DAY else 'hours'} since {date_text(self.origin)}"
        how = "" if self.format in ("", "iso", "month") else f" (read as {self.format})"
        season = f" and the season of {', '.join(self.seasons)}" if self.seasons else ""
        return f"date{how}: {trend}{season}{self._said_of_gaps('median')}"

    def read(self, cells: Cells, missing: frozenset[str]) -> Cells:
        """Dates, also of text."""
        return Cells(self.name, DATE, self.seconds(cells, missing)[0])

    def encode(self, cells: Cells, missing: frozenset[str]) -> Encoded:
        """Trend and seasons."""
        seconds, gone, bad = self.seconds(cells, missing)
        known = np.isfinite(seconds)
        columns = [(np.where(known, seconds, self.fill) - self.origin) / self.unit]
        for season in self.seasons:
            angle = 2 * np.pi * phase(np.where(known, seconds, self.fill), season)
            columns += [np.sin(angle), np.cos(angle)]
        columns += [(~known).astype(float)] if self.has_indicator else []
        return Encoded(np.stack(columns, axis=1), self._new_gaps(gone), bad=bad)

    def seconds(
        self, cells: Cells, missing: frozenset[str]
    ) -> tuple[FloatArray, NDArray[np.bool_], list[tuple[int, str]]]:
        """Seconds since 1970, nan where there are none; which are missing; and what is no date."""
        if cells.kind == DATE:
            return cells.values, cells.missing, []
        texts = cells.texts(missing)
        gone = np.array([text is None for text in texts], dtype=bool)
        form = self.format or date_format(text for text in texts if text is not None) or "iso"
        seconds = parsed(texts, partial(date_of, form=form)) if cells.kind == TEXT else np.full(len(cells), math.nan)
        wrong = np.flatnonzero(np.isnan(seconds) & ~gone)
        return seconds, gone, [(int(row), str(texts[row])) for row in wrong]


def phase(seconds: FloatArray, season: str) -> FloatArray:
    """Where in the year, in the week (from Monday) or in the day: from 0 to 1.

    Examples
    --------
    >>> phase(np.array([0.0, 43200.0]), "day").tolist(), phase(np.array([4 * 86400.0]), "week").tolist()
    ([0.0, 0.5], [0.0])
    """
    if season == "day":
        return np.asarray(seconds % DAY / DAY)
    if season == "week":  # 1970 began on a Thursday
        return np.asarray((seconds / DAY + 3) % 7 / 7)
    moments = np.floor(seconds).astype("datetime64[s]")
    begin = moments.astype("datetime64[Y]")
    end = begin + np.timedelta64(1, "Y")
    length = (end.astype("datetime64[s]") - begin.astype("datetime64[s]")).astype(np.float64)
    return np.asarray((moments - begin.astype("datetime64[s]")).astype(np.float64) / length)


def _listed(levels: tuple[str, ...], between: str = ", ", most: int = 8) -> str:
    shown = between.join(level if len(level) <= 30 else f"{level[:29]}…" for level in levels[:most])
    return shown + (f"{between}... ({len(levels)} in all)" if len(levels) > most else "")


CLASSES: Final[dict[str, type[Column]]] = {
    each.kind: each for each in (NumberColumn, BooleanColumn, CategoryColumn, OrderedColumn, DateColumn, LeftOut)
}
__all__ = ["CLASSES", "NUMBER", "Column", "Encoded", "as_text", *(each.__name__ for each in CLASSES.values())]
