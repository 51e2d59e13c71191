"""What rows have that the rows of training had not: counted, and reported in one warning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sodgp.errors import TableWarning
from sodgp.system.notice import warn_user
from sodgp.tables.columns import Column, Encoded

__all__ = ["News", "short"]

_SHOWN = 3


class News:
    """Unknown levels and new gaps of any number of batches; `before` says what knew nothing of them."""

    def __init__(self, before: str = "training") -> None:
        self.before = before
        self._levels: dict[str, set[str]] = {}
        self._rows: Counter[str] = Counter()
        self._gaps: Counter[str] = Counter()

    def add(self, columns: Sequence[Column], parts: Sequence[Encoded]) -> None:
        """Count those of a batch."""
        for column, part in zip(columns, parts, strict=True):
            if part.unknown:
                self._levels.setdefault(column.name, set()).update(part.unknown)
                self._rows[column.name] += len(part.unknown)
            if part.gaps:
                self._gaps[column.name] += part.gaps

    def warn(self) -> None:
        """Give the warning, if there is something to tell."""
        said = []
        for name in dict.fromkeys([*self._rows, *self._gaps]):
            if name in self._rows:
                levels = sorted(self._levels[name])
                shown = ", ".join(repr(short(level)) for level in levels[:_SHOWN]) + (
                    ", ..." if len(levels) > _SHOWN else ""
                )
                said.append(f"{name!r} has levels that {self.before} had not ({shown}) in {_rows(self._rows[name])}")
            if name in self._gaps:
                said.append(f"{name!r} is missing in {_rows(self._gaps[name])}, and was never in {self.before}")
        if said:
            warn_user(f"{'; '.join(said)}. These are filled in as unknown.", TableWarning)


def short(text: str) -> str:
    """A text for messages, cut where it is long."""
    return text if len(text) <= 30 else f"{text[:29]}…"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
