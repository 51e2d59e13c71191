"""Tables and pictures of what the cells hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

Record = Mapping[str, Any]


def markdown(records: Sequence[Record], times: Sequence[Record], missing: int) -> str:
    """The whole report."""
    parts = ["# Subset selectors"]
    if records:
        one = records[0]["settings"]
        parts.append(
            f"{one['iterations']} iterations, {one['layers']} layers, {one['splits']} splits,"
            f" max_rows={one['max_rows']}; test NLPP in original units (lower"
            " is better), mean and standard error over the splits, RMSE in brackets. The best mean of a column is bold."
        )
        if missing:
            parts.append(f"**Not complete: {missing} cells have not been run.**")
        parts += [_scores(records, data) for data in _values(records, "data")]
    if times:
        parts.append(_times(times))
    return "\n\n".join(parts) + "\n"


def draw(records: Sequence[Record], times: Sequence[Record], out: Path) -> list[Path]:
    """Pictures of NLPP over M and of seconds over N; none where Matplotlib is missing."""
    if find_spec("matplotlib") is None:
        return []
    from matplotlib.figure import Figure

    written = []
    data_sets = _values([r for r in records if "nlpp" in r], "data")
    if data_sets:
        figure = Figure(figsize=(3.6 * len(data_sets) + 1.4, 3.4), layout="constrained")
        for place, data in enumerate(data_sets, start=1):
            axes = figure.add_subplot(1, len(data_sets), place, title=data, xlabel="M", xscale="log")
            for selector in _values(records, "selector"):
                good = [r for r in records if _is(r, data, selector) and "nlpp" in r]
                axes.plot([r["cell"]["size"] for r in good], [np.mean(r["nlpp"]) for r in good], "o-", label=selector)
            _mark_values(axes, sorted({r["cell"]["size"] for r in records}))
            if place == 1:
                axes.set_ylabel("test NLPP")
                figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", fontsize="small")
        figure.savefig(out / "nlpp.png", dpi=150)
        written.append(out / "nlpp.png")
    if times:
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.add_subplot(xlabel="N", ylabel="seconds", xscale="log", yscale="log")
        for selector in dict.fromkeys(t["selector"] for t in times):
            own = [t for t in times if t["selector"] == selector]
            axes.plot([t["rows"] for t in own], [t["seconds"] for t in own], "o-", label=selector)
        _mark_values(axes, sorted({t["rows"] for t in times}))
        figure.legend(loc="outside right center", fontsize="small")
        figure.savefig(out / "selection-time.png", dpi=150)
        written.append(out / "selection-time.png")
    return written


def _mark_values(axes: Any, values: Sequence[int]) -> None:
    """Ticks at the sizes that were run, as plain numbers, and none between."""
    axes.set_xticks(values, [f"{value:,}" for value in values])
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)


def _scores(records: Sequence[Record], data: str) -> str:
    own = [r for r in records if r["cell"]["data"] == data]
    sizes = sorted(_values(own, "size"))
    selectors = _values(own, "selector")
    cells = {(r["cell"]["selector"], r["cell"]["size"]): r for r in own}
    means = {key: float(np.mean(r["nlpp"])) for key, r in cells.items() if "nlpp" in r}
    rows = []
    for selector in selectors:
        row = [selector]
        for size in sizes:
            best = min((mean for (_, other), mean in means.items() if other == size), default=None)
            row.append(_score(cells.get((selector, size)), means.get((selector, size)) == best))
        rows.append(row)
    return f"## {data}\n\n" + _table(["selector", *(f"M = {size}" for size in sizes)], rows)


def _score(record: Record | None, is_best: bool) -> str:
    if record is None:
        return "-"
    if "error" in record:
        return "failed"
    nlpp = np.asarray(record["nlpp"])
    error = nlpp.std(ddof=1) / np.sqrt(len(nlpp)) if len(nlpp) > 1 else float("nan")
    text = f"{nlpp.mean():.3f} ± {error:.3f}" if len(nlpp) > 1 else f"{nlpp.mean():.3f}"
    return f"{'**' if is_best else ''}{text}{'**' if is_best else ''} ({np.mean(record['rmse']):.3f})"


def _times(times: Sequence[Record]) -> str:
    rows = list(dict.fromkeys(t["rows"] for t in times))
    seconds = {(t["selector"], t["rows"]): t["seconds"] for t in times}
    body = [
        [name, *(f"{seconds[name, n]:.2f}" if (name, n) in seconds else "-" for n in rows)]
        for name in dict.fromkeys(t["selector"] for t in times)
    ]
    one = times[0]
    head = f"## Seconds of one selection\n\nM = {one['size']}, {one['columns']} columns, CPU.\n\n"
    return head + _table(["selector", *(f"N = {n:,}" for n in rows)], body)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _values(records: Sequence[Record], name: str) -> list[Any]:
    return list(dict.fromkeys(r["cell"][name] for r in records))


def _is(record: Record, data: str, selector: str) -> bool:
    return bool(record["cell"]["data"] == data and record["cell"]["selector"] == selector)
