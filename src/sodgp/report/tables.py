"""Tables of a report, and numbers and cells as their text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sodgp.plots.style import told_apart
from sodgp.tables.frames import NUMBER

if TYPE_CHECKING:
    from sodgp.report.content import Report
    from sodgp.report.measures import Column

NAMES, TEXT, REMARK = "text names", "text", "text remark"
MOST_INPUTS = 4


@dataclass(frozen=True)
class Table:
    """Rows of text, the class of some columns by number, and how much was left out."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    kinds: Mapping[int, str] = field(default_factory=lambda: {0: TEXT})
    left_out: int = 0


def worst_rows(report: Report, target: int, header: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    """The worst rows of a target: their numbers, `cells` [rows, columns] of text, and the inputs that matter most."""
    inputs, worst = report.about["inputs"], report.worst(target)
    order = np.argsort(-report.importance.mean[:, target], kind="stable")[:MOST_INPUTS]
    rows = []
    for row, own in zip(worst, cells, strict=True):
        where = "extrapolated" if report.outside[row] else ""
        rows.append([f"{report.rows[row] + 1:,}", *own, where, *(_cell(report, row, i) for i in order)])
    names = ["row", *header, "", *told_apart([inputs[i] for i in order], 24)]
    return Table(names, rows, left_out=len(inputs) - len(order))


def _cell(report: Report, row: int, column: int) -> str:
    """The cell of an input, as it came."""
    if not report.cells:
        return of_column(report.X[row, column], report.columns[column])
    cells = report.cells[column]
    if cells.missing[row]:
        return "missing"
    if cells.kind != NUMBER:
        return short(str(cells.texts()[row]), 20)
    return of_column(float(cells.values[row]), report.columns[column])


def short(name: str, limit: int = 30) -> str:
    """A text that is cut where it is long."""
    return name if len(name) <= limit else f"{name[: limit - 1]}…"


def of_column(value: float, column: Column) -> str:
    """A value of a column: without decimals where all of them are whole numbers."""
    return plain(value, column.std) if not column.whole or abs(value) >= 1e9 else f"{value:,.10g}"


def plain(value: float, spread: float) -> str:
    """A number of the data, with as many decimals as its column's standard deviation asks for.

    Examples
    --------
    >>> plain(151.0, 81.0), plain(0.0123456, 0.005), plain(1234567.0, 1e5), plain(3e12, 1e11)
    ('151.0', '0.01235', '1,234,567', '3e+12')
    >>> plain(1.7e9 + 123456.0, 1e5)
    '1.700123e+09'
    """
    value = float(value)
    decimals = 2 if spread <= 0 else int(np.clip(2 - np.floor(np.log10(spread)), -300, 12))
    if abs(value) >= 1e9 or decimals > 8:
        digits = int(np.floor(np.log10(abs(value)))) + 1 + decimals if value and spread > 0 else 0
        return f"{value:.{np.clip(digits, 4, 15)}g}"
    return f"{value:,.{max(decimals, 0)}f}"
