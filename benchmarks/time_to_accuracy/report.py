"""Tables and a picture of the results of a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.time_to_accuracy.cells import BUDGETS
from benchmarks.time_to_accuracy.contestants import CONTESTANTS
from benchmarks.time_to_accuracy.sets import SETS
from sodgp.plots.style import ALARM, DRAW, GREEN, POINT, PURPLE, SKY, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["markdown", "picture"]

Record = Mapping[str, Any]

# Colour, and mark: of ours filled, of others open.
_STYLES = {
    "quick": (POINT, "o"),
    "standard": (POINT, "s"),
    "thorough": (POINT, "D"),
    "quick-before": (SKY, "o"),
    "standard-before": (SKY, "s"),
    "exact": ("#000000", "*"),
    "sgpr": (ALARM, "^"),
    "svgp": (DRAW, "v"),
    "deep": (PURPLE, "X"),
    "ngboost": (GREEN, "P"),
    "catboost": ("#7f7f7f", "h"),
}
# What is so far above the best of a panel, in nats, is left out of it.
_FAR = 1.5


def markdown(records: Sequence[Record], stage: str) -> str:
    """For every set the CPU seconds and scores of whoever ran, and who was best at every budget."""
    parts = [f"# Time to accuracy, {stage} rows", _preface(records)]
    for name, described in SETS.items():
        own = [record for record in records if record["cell"]["data"] == name]
        if own:
            parts.append(f"## {described.label}\n\n{_table(own)}\n\n{_leaders(own)}")
    return "\n\n".join(parts) + "\n"


def _preface(records: Sequence[Record]) -> str:
    machines = sorted({r["origin"]["machine"]["cpu"] for r in records if "origin" in r})
    return (
        "CPU seconds of training on one thread, imports and predictions left out; means over splits. Runs with budgets"
        " are scored where a step has passed a budget: the seconds are those that were used."
        f" Machine: {', '.join(machines) or 'none yet'}."
    )


def _table(records: Sequence[Record]) -> str:
    lines = [
        "| contestant | splits | CPU seconds | NLPP | CRPS | RMSE | coverage of 90 % |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, contestant in CONTESTANTS.items():
        own = [record for record in records if record["cell"]["contestant"] == name]
        for number, points in enumerate(_points(own), start=1):
            means = {key: float(np.mean([p[key] for p in points])) for key in points[0]}
            scores = " | ".join(f"{means[key]:.4g}" for key in ("nlpp", "crps", "rmse"))
            label = contestant.label if number == 1 else ""
            lines.append(
                f"| {label} | {len(points)} | {means['seconds']:.3g} | {scores} | {100 * means['coverage_90']:.0f} % |"
            )
        for record in own:
            why = record.get("not_run") or record.get("error")
            if why:
                word = "not run" if "not_run" in record else f"failed on split {record['cell']['split']}"
                lines.append(f"| {contestant.label} | | {word}: {why.splitlines()[0][:100]} | | | | |")
    return "\n".join(lines)


def _points(records: Sequence[Record]) -> list[list[Record]]:
    """The first, second, ... point of every split that has it."""
    runs = [record["points"] for record in records if record["points"]]
    most = max((len(points) for points in runs), default=0)
    return [[points[number] for points in runs if len(points) > number] for number in range(most)]


def _leaders(records: Sequence[Record]) -> str:
    """The lowest mean NLPP that was there at each budget, of contestants whose points all splits have."""
    best = []
    for budget in BUDGETS:
        # A run is scored at the first step after its budget: a tenth more time is allowed for that step.
        found = [
            (float(np.mean([p["nlpp"] for p in points])), contestant.label)
            for name, contestant in CONTESTANTS.items()
            for points in _points([r for r in records if r["cell"]["contestant"] == name])
            if np.mean([p["seconds"] for p in points]) <= 1.1 * budget
        ]
        if found:
            score, label = min(found)
            best.append(f"{budget:g} s: {label} ({score:.3f})")
    return "Lowest NLPP within " + "; ".join(best) + "." if best else "Nobody was done in time."


def picture(records: Sequence[Record]) -> Figure:
    """A panel for each set: log CPU seconds against the mean NLPP."""
    from matplotlib.figure import Figure

    names = [name for name in SETS if any(r["cell"]["data"] == name and r["points"] for r in records)]
    columns = min(3, max(1, len(names)))
    lines = -(-max(1, len(names)) // columns)
    figure = Figure(figsize=(0.5 + 3.4 * columns, 0.9 + 2.6 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for ax, name in zip(panels, names, strict=False):
        _draw(ax, [r for r in records if r["cell"]["data"] == name])
        ax.set_title(SETS[name].label, fontsize=9)
    for ax in panels[len(names) :]:
        ax.set_axis_off()
    marks = {label: mark for ax in panels for mark, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    if marks:
        figure.legend(marks.values(), marks.keys(), loc="outside lower center", ncols=min(4, len(marks)), fontsize=8)
    return figure


def _draw(ax: Axes, records: Sequence[Record]) -> None:
    found = {}
    for name in CONTESTANTS:
        points = _points([r for r in records if r["cell"]["contestant"] == name])
        if points:
            found[name] = [tuple(np.mean([[p["seconds"], p["nlpp"]] for p in each], 0)) for each in points]
    values = [nlpp for each in found.values() for _, nlpp in each]
    lowest, highest = min(values), max(values)
    shown = min(highest, lowest + _FAR)
    margin = 0.06 * (shown - lowest) + 1e-3
    ax.set_ylim(lowest - margin, shown + margin)
    for name, each in found.items():
        colour, mark = _STYLES[name]
        ours = name.startswith(("quick", "standard", "thorough"))
        fill = colour if ours else "none"
        ax.plot(*np.transpose(each), mark, ls="-", lw=1.0, ms=6, color=colour, mfc=fill, label=CONTESTANTS[name].label)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xlabel("CPU seconds of training", fontsize=8)
    ax.set_ylabel("NLPP", fontsize=8)
    tidy(ax)
