"""The tables as one HTML page that needs no other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from benchmarks.paper.cells import Cell
from benchmarks.paper.table import MARK, METRICS, Entry, Table, build, notes

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #1b1f24; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #d8dee4; white-space: nowrap; }
th:first-child { text-align: left; }
thead th { border-bottom: 2px solid #57606a; }
small { display: block; color: #57606a; }
.differs { color: #9a3412; }
@media (prefers-color-scheme: dark) {
  body { background: #14171a; color: #e6e8ea; } small { color: #9aa4ae; } .differs { color: #fb923c; }
  th, td { border-color: #333a41; }
}
"""


def page(cells: Sequence[Cell]) -> str:
    """The tables of NLPP, RMSE and CRPS."""
    tables = "\n".join(_table(build(cells, metric)) for metric in METRICS)
    remarks = "\n".join(f"<li>{escape(line.replace('`', ''))}</li>" for line in notes(cells))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>sodgp benchmark</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>sodgp benchmark</h1>\n"
        f"{tables}\n<ul>\n{remarks}\n</ul>\n</body>\n</html>\n"
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    rows = "\n".join(
        f'<tr><th scope="row">{escape(label)}</th>{"".join(map(_entry, entries))}</tr>'
        for label, entries in table.rows.items()
    )
    return (
        f'<h2>{escape(table.title)}</h2>\n<div class="wide"><table>\n<thead><tr><th scope="col">method</th>{head}</tr>'
        f"</thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def _entry(entry: Entry) -> str:
    paper = "" if entry.paper is None else f"<small>paper {escape(str(entry.paper))}</small>"
    number = "-" if entry.ours is None else escape(str(entry.ours))
    number = f"<b>{number}</b>" if entry.is_best else number
    kind, mark = (' class="differs"', f" {MARK}") if entry.differs else ("", "")
    return f"<td{kind}>{f'{number} {entry.splits}'.strip()}{mark}{paper}</td>"
