"""Figures of the cells: the RMSE of every method (the paper's Fig. 4), and training curves (its Appendix C)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.paper.cells import Cell, row_label
from benchmarks.paper.table import Number, data_order, row_order, summarise
from sodgp.errors import InputError
from sodgp.plots.style import ALARM, DRAW, GREEN, POINT, PURPLE, SKY, tidy
from sodgp.system.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The style of the line says the depth.
_COLOURS = {
    "default": "#000000",
    "SoD": POINT,
    "SoD*": SKY,
    "SGHMC": PURPLE,
    "DSVI": ALARM,
    "DSVI*": DRAW,
    "SVGP": GREEN,
    "gpytorch": "#7f7f7f",
    "exact": "#8c564b",
    "ngboost": "#bcbd22",
}
_DASHES = {1: ":", 2: "-", 3: "--", 4: "-."}
_PANELS = (("bound", "ELBO (nats)"), ("test_nlpp", "test log-likelihood per row"), ("test_rmse", "test RMSE"))
# The first iterations say nothing and would flatten all the rest.
_SHOWN_FROM = 0.15
# Bands of more methods than this hide each other.
_MOST_BANDS = 4
# In distances of the middle method from the best one.
_FAR = 6.0
_BESIDE: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "center", "fontsize": 8}


def rmse_figure(cells: Sequence[Cell]) -> Figure:
    """One panel for each data set, methods on the y axis, a dot for the mean and a bar of one standard deviation."""
    from matplotlib.figure import Figure

    columns = data_order(cell.key.data for cell in cells)
    width = min(4, len(columns))
    lines = [columns[start : start + width] for start in range(0, len(columns), width)]
    # Methods that were run on a set of the line: no other has a place in it.
    methods = [row_order((c.key.method, c.key.layers) for c in cells if c.key.data in line) for line in lines]
    heights = [1.0 + 0.26 * len(rows) for rows in methods]
    figure = Figure(figsize=(1.4 + 2.9 * width, sum(heights)), layout="constrained")
    panels = figure.subplots(len(lines), width, sharey="row", squeeze=False, height_ratios=heights)
    for line, rows, axes in zip(lines, methods, panels, strict=True):
        for ax in axes[len(line) :]:
            ax.set_axis_off()
        for ax, column in zip(axes, line, strict=False):
            _rmse_panel(ax, [cell for cell in cells if cell.key.data == column], rows)
            ax.set_title(column, fontsize=10)
        axes[0].set_yticks(range(len(rows)), [row_label(*row) for row in rows])
        axes[0].set_ylim(len(rows) - 0.4, -0.6)
    figure.supxlabel(
        "test RMSE, mean and one standard deviation over splits; lower is better, an arrow: beyond the axis", fontsize=9
    )
    return figure


def _rmse_panel(ax: Axes, cells: Sequence[Cell], rows: Sequence[tuple[str, int]]) -> None:
    numbers: dict[int, Number] = {}
    for place, row in enumerate(rows):
        same = [cell.results["rmse"] for cell in cells if (cell.key.method, cell.key.layers) == row]
        number = summarise([value for value in same if value is not None])
        if number is not None:
            numbers[place] = number
    low, high = _limits(list(numbers.values())) if numbers else (0.0, 1.0)
    for place, number in numbers.items():
        colour = _COLOURS.get(rows[place][0], "black")
        if number.mean > high:
            ax.plot(high, place, ">", ms=6, color=colour, clip_on=False)
            ax.annotate(f"{number.mean:,.4g} ", (high, place), (-6, 0), **_BESIDE, color=colour)
        else:
            ax.errorbar(number.mean, place, xerr=number.std, fmt="o", ms=5, capsize=3, color=colour)
    ax.set_xlim(low, high)
    ax.locator_params(axis="x", nbins=5)
    ax.tick_params(labelsize=8)
    tidy(ax)


def _limits(numbers: Sequence[Number]) -> tuple[float, float]:
    """Ends of the axis, such that a method far behind does not press the others together; an arrow stands for it."""
    means, stds = np.array([(n.mean, n.std or 0.0) for n in numbers]).T
    best, middle = means.min(), np.median(means)
    far = middle + _FAR * max(middle - best, 0.1 * middle)
    near = means <= far
    low, high = max((means - stds)[near].min(), 0.0), min((means + stds)[near].max(), far)
    margin = 0.08 * (high - low) or 0.1
    # An arrow has its number next to it.
    return max(low - margin, 0.0), high + (margin if near.all() else 4.0 * margin)


def curves_figure(cells: Sequence[Cell], data: str) -> Figure:
    """Bound, test log-likelihood and test RMSE over the iterations: mean over splits, with their range for few methods.

    Raises
    ------
    InputError
        No cell of that data set has curves.
    """
    from matplotlib.figure import Figure

    kept = [cell for cell in cells if cell.key.data == data and _has_curves(cell)]
    if not kept:
        known = ", ".join(data_order(cell.key.data for cell in cells if _has_curves(cell))) or "none"
        raise InputError(f"no cell of {data!r} has training curves; sets with curves here: {known}.")
    rows = row_order((cell.key.method, cell.key.layers) for cell in kept)
    banded = len(rows) <= _MOST_BANDS
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    panels = figure.subplots(1, len(_PANELS))
    for ax, (name, label) in zip(panels, _PANELS, strict=True):
        seen = [
            _curve(ax, [cell for cell in kept if (cell.key.method, cell.key.layers) == row], row, name, banded)
            for row in rows
        ]
        late = np.concatenate(seen)
        if late.size and np.ptp(late) > 0:
            margin = 0.05 * np.ptp(late)
            ax.set_ylim(late.min() - margin, late.max() + margin)
        ax.set_xlabel("iteration")
        ax.set_ylabel(label)
        tidy(ax)
    lines, names = panels[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside right center", frameon=False, fontsize=9)
    figure.suptitle(f"{data}: training curves, mean {'and range ' if banded else ''}over splits", fontsize=11)
    return figure


def _has_curves(cell: Cell) -> bool:
    """A sampler has none: no bound, and no posterior before its end."""
    return sum(value is not None for value in cell.history.get("test_nlpp", [])) > 1


def _curve(ax: Axes, cells: Sequence[Cell], row: tuple[str, int], name: str, banded: bool) -> Any:
    """Draw one method; returns the values behind the beginning of the run, for the limits of the axis."""
    iterations = sorted(set.intersection(*(set(cell.history["iteration"]) for cell in cells)))
    columns = []
    for cell in cells:
        by_iteration = dict(zip(cell.history["iteration"], cell.history[name], strict=True))
        columns.append([np.nan if by_iteration[i] is None else by_iteration[i] for i in iterations])
    values = np.asarray(columns, dtype=float) * (-1 if name == "test_nlpp" else 1)
    colour, mean = _COLOURS.get(row[0], "black"), values.mean(0)
    dashes = _DASHES.get(row[1], "-") if "DGP" in row_label(*row) else "-"
    ax.plot(iterations, mean, dashes, color=colour, lw=1.5, label=row_label(*row))
    if banded and len(cells) > 1:
        ax.fill_between(iterations, values.min(0), values.max(0), color=colour, alpha=0.15, lw=0)
    late = values[:, np.asarray(iterations) >= _SHOWN_FROM * iterations[-1]]
    return late[np.isfinite(late)]


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture, whole or not at all, in the format of the path's suffix."""
    write_whole(path, lambda scratch: figure.savefig(scratch, dpi=150, format=path.suffix[1:]))
