"""Tables of the cells: ours beside the paper's, mean and standard deviation over splits, in Markdown."""

from __future__ import annotations

import importlib.resources
import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.paper.cells import Cell, row_label

METRICS = {"nlpp": "NLPP", "rmse": "RMSE", "crps": "CRPS"}
MARK = "‡"

# The paper's boston is the authors' damaged file, and nothing else may be compared with it.
_PAPER_COLUMN = {"boston_authors": "boston", "boston": None}
_DATA_ORDER = ("boston_authors", "boston", "concrete", "energy", "winered", "protein", "naval", "year")
_METHOD_ORDER = ("default", "SoD", "SoD*", "SGHMC", "DSVI", "DSVI*", "SVGP", "gpytorch", "exact", "ngboost")


@dataclass(frozen=True)
class Number:
    """Mean and standard deviation over splits.

    Attributes
    ----------
    mean : float
    std : float or None
        With n - 1 below the fraction line; None of a single split.
    splits : int
    """

    mean: float
    std: float | None
    splits: int

    def __str__(self) -> str:
        # Errors of naval are of the order of 1e-4.
        style = ".3f" if abs(self.mean) >= 0.01 else ".2e"
        return f"{self.mean:{style}}" + ("" if self.std is None else f" ± {self.std:{style}}")


@dataclass(frozen=True)
class Entry:
    """One cell of a table.

    Attributes
    ----------
    ours, paper : Number or None
    is_best : bool
        Whether ours is the lowest mean of the column among the rows with the most splits.
    lost : int
        Splits that were run and have no finite score: they are in no mean.
    """

    ours: Number | None
    paper: Number | None
    is_best: bool = False
    lost: int = 0

    @property
    def splits(self) -> str:
        """How many splits ours is of, and how many it lacks, in brackets; nothing where it was not run."""
        if self.lost:
            return f"({self.ours.splits if self.ours else 0}, {self.lost} not finite)"
        return f"({self.ours.splits})" if self.ours else ""

    @property
    def differs(self) -> bool:
        """Whether ours and the paper's are more than two joint standard deviations apart; unknown from one split."""
        if self.ours is None or self.paper is None or self.ours.std is None or self.paper.std is None:
            return False
        return abs(self.ours.mean - self.paper.mean) > 2 * (self.ours.std**2 + self.paper.std**2) ** 0.5


@dataclass(frozen=True)
class Table:
    """One metric over data sets (columns) and methods (rows).

    Attributes
    ----------
    title : str
    columns : list of str
    rows : dict of str to list of Entry
    """

    title: str
    columns: list[str]
    rows: dict[str, list[Entry]]


def paper_numbers() -> dict[str, Any]:
    """Table 1 of the paper, with notes on how to read it.

    Examples
    --------
    >>> paper_numbers()["rows"]["SoD-DGP2"]["energy"]
    [0.737, 0.089]
    """
    text = importlib.resources.files("benchmarks.paper").joinpath("paper_table.json").read_text(encoding="utf-8")
    return json.loads(text)


def summarise(values: Sequence[float]) -> Number | None:
    """Mean and standard deviation; None of nothing."""
    if not values:
        return None
    return Number(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


def data_order(names: Iterable[str]) -> list[str]:
    """The paper's order of data sets, then the others by name."""
    return sorted(set(names), key=lambda name: (_place(name, _DATA_ORDER), name))


def row_order(groups: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Methods in the paper's order with ours in front and the peers behind, each by depth."""
    return sorted(set(groups), key=lambda group: (_place(group[0], _METHOD_ORDER), group))


def _place(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def build(cells: Sequence[Cell], metric: str) -> Table:
    """The table of one metric.

    Parameters
    ----------
    cells : sequence of Cell
    metric : str
        A name in the cells' results.

    Returns
    -------
    Table
        With the paper's rows and numbers for the NLPP; every row of ours in any case.
    """
    paper = paper_numbers()["rows"] if metric == "nlpp" else {}
    columns = data_order(cell.key.data for cell in cells)
    groups = {(cell.key.method, cell.key.layers) for cell in cells}
    if any(_paper_column(column) for column in columns):
        groups |= {_group_of(label) for label in paper}
    values: dict[tuple[str, str, int], list[float | None]] = {}
    for cell in cells:
        values.setdefault(cell.key.group, []).append(cell.results[metric])
    rows: dict[str, list[Entry]] = {}
    order = row_order(groups)
    for method, layers in order:
        label, entries = row_label(method, layers), []
        for column in columns:
            scores = values.get((column, method, layers), [])
            found = [score for score in scores if score is not None]
            printed = paper.get(label, {}).get(_paper_column(column))
            theirs = Number(printed[0], printed[1], 5) if printed else None
            entries.append(Entry(summarise(found), theirs, lost=len(scores) - len(found)))
        rows[label] = entries
    for index in range(len(columns)):
        _mark_best(list(rows.values()), index)
    return Table(f"Test {METRICS.get(metric, metric)}", columns, rows)


def _paper_column(data: str) -> str | None:
    return _PAPER_COLUMN.get(data, data)


def _group_of(label: str) -> tuple[str, int]:
    method, _, layers = label.partition("-DGP")
    return method, int(layers or 1)


def _mark_best(rows: Sequence[list[Entry]], index: int) -> None:
    most = max((row[index].ours.splits for row in rows if row[index].ours), default=0)  # type: ignore[union-attr]
    fair = [row for row in rows if (ours := row[index].ours) and ours.splits == most]
    if len(fair) > 1:
        best = min(fair, key=lambda row: row[index].ours.mean)  # type: ignore[union-attr]
        best[index] = replace(best[index], is_best=True)


def notes(cells: Sequence[Cell]) -> list[str]:
    """How to read the tables, and what their cells do not have in common."""
    settings = cells[0].settings
    source = f" (SoD from the paper's {settings['source']})" if settings["protocol"] == "paper" else ""
    lines = [
        f"Protocol `{settings['protocol']}`{source}: mean ± standard deviation over splits, the number of splits in"
        " brackets, original units, lower is better.",
        "Bold: the best mean that we measured in a column, among the rows with the most splits.",
        f"{MARK}: ours and the paper's are more than two joint standard deviations, sqrt(s1² + s2²), apart. Not judged"
        " from a single split.",
        "paper: Table 1 of the paper, over its 5 runs. " + paper_numbers()["brackets"],
        "The paper's boston is the authors' damaged file (`boston_authors`); the sound `boston` has no number in it.",
        "-: not run.",
    ]
    if any(cell.results[metric] is None for cell in cells for metric in METRICS):
        lines.append("Not finite: splits whose score is infinite or no number. They are in no mean, which flatters it.")
    steps: dict[int, set[str]] = {}
    for cell in cells:
        count = cell.settings["options"].get("max_iter") or cell.results.get("iterations")
        if count is not None:
            steps.setdefault(count, set()).add(row_label(cell.key.method, cell.key.layers))
    counts = [f"{count:,} ({', '.join(sorted(rows))})" for count, rows in sorted(steps.items())]
    if counts:
        lines.append(f"Iterations: {'; '.join(counts)}.")
    commits = sorted({_commit(cell) for cell in cells})
    versions = sorted({str(cell.origin.get("sodgp")) for cell in cells})
    lines.append(f"{len(cells)} cells of sodgp {', '.join(versions)}, commit {', '.join(commits)}.")
    return lines


def _commit(cell: Cell) -> str:
    commit = str(cell.origin.get("commit", "unknown"))[:10]
    return f"{commit} with changes" if cell.origin.get("changed") else commit


def markdown(cells: Sequence[Cell]) -> str:
    """The tables of NLPP, RMSE and CRPS."""
    parts = []
    for metric in METRICS:
        table = build(cells, metric)
        lines = [f"## {table.title}", "", "| method | " + " | ".join(table.columns) + " |"]
        lines.append("|---|" + "---|" * len(table.columns))
        for label, entries in table.rows.items():
            # A star would begin emphasis.
            name = label.replace("*", "\\*")
            lines.append(f"| {name} | " + " | ".join(map(_markdown_entry, entries)) + " |")
        parts.append("\n".join(lines))
    parts.append("\n".join(f"- {line}" for line in notes(cells)))
    return "\n\n".join(parts) + "\n"


def _markdown_entry(entry: Entry) -> str:
    ours = "-" if entry.ours is None else f"**{entry.ours}**" if entry.is_best else str(entry.ours)
    ours = f"{ours} {entry.splits}".strip() + (f" {MARK}" if entry.differs else "")
    return ours if entry.paper is None else f"{ours}<br>paper {entry.paper}"
