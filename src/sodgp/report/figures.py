"""Pictures of a report, as SVG inside the page: small, so that text stays legible on a phone."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sodgp import plots
from sodgp.errors import InputError
from sodgp.estimator.columns import EncodedRows
from sodgp.estimator.describe import input_groups, n_inputs, numbers_first
from sodgp.plots.style import GREY, MANY, POINT, plain, tidy, told_apart

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from sodgp.report.content import Report

_WIDTH, _HEIGHT = 4.5, 3.5
_MOST_BARS = 12
_MOST_DEPENDENCES = 3
_RC = {"svg.hashsalt": "sodgp", "svg.fonttype": "path", "font.size": 9.5, "axes.titlesize": 10, "legend.fontsize": 8.5}


@dataclass(frozen=True)
class Picture:
    """A picture as the ``data:`` address of an SVG; `name` is for links and tests."""

    name: str
    caption: str
    source: str


def importance_picture(report: Report, target: int) -> Picture:
    """How much the loss rises when a column is shuffled."""
    name, loss = report.evaluation.targets[target], report.kind.loss
    caption = (
        f"Importance for {name}: rise of the {loss} when a column is shuffled. Redundant columns can replace each other"
        " and then look unimportant."
    )
    return picture(f"importance-{target}", caption, partial(_importance, report, target))


def dependence_pictures(report: Report, target: int) -> list[Picture]:
    """Partial dependence of the columns that matter most."""
    strength = report.importance.mean[:, target]
    order = [int(i) for i in np.argsort(-strength, kind="stable")[:_MOST_DEPENDENCES] if strength[i] > 0]
    names = report.about["inputs"]
    return [
        picture(
            f"dependence-{target}-{number}",
            f"Average prediction over {names[column]}, the other columns as they are in up to 40 of the rows, with the"
            " model's own uncertainty (noise left out).",
            partial(plots.plot_dependence, report.model, EncodedRows(report.X), column, target=target),
        )
        for number, column in enumerate(order)
    ]


def of_model(report: Report) -> dict[str, list[Picture]]:
    """Pictures of the model: ``relevance`` of every layer, ``subset``, ``training``, ``layers`` and ``fit``."""
    model = report.model
    found: dict[str, list[Picture]] = {"relevance": [], "training": [], "layers": [], "fit": []}
    layers = len(model.model_.layers)
    for layer in range(1, layers + 1):
        inputs = "the data's columns" if layer == 1 else f"the outputs of layer {layer - 1}"
        caption = f"Relevance in layer {layer}: inverse lengthscales of its kernel over {inputs}."
        try:
            plots.relevance(model, layer)
        except InputError:
            continue
        draw = partial(plots.plot_relevance, model, layer, most=_MOST_BARS)
        found["relevance"].append(picture(f"relevance-{layer}", caption, draw))
    caption = "The model's inducing points among the evaluated rows, in the two inputs that matter most to layer 1."
    found["relevance"].append(picture("subset", caption, partial(plots.plot_subset, model, report.X)))
    if model.history_.iteration:
        caption = "Training: the bound or the objective, and the terms that add up to it. It should rise and flatten."
        found["training"].append(picture("history", caption, partial(plots.plot_history, model)))
    found["layers"] = [_hidden(report, layer) for layer in range(1, layers)]
    if n_inputs(model) == 1 and model.model_.n_outputs == 1 and report.evaluation.y.ndim == 2:
        caption = "The fit: bands of y (with noise) and of f (the function)."
        found["fit"].append(picture("fit", caption, partial(_fit, report)))
    return found


def _hidden(report: Report, layer: int) -> Picture:
    model = report.model
    if n_inputs(model) == 1:
        caption = f"Hidden layer {layer} over the input: draws of its first output. Steep: room for change."
        draw = partial(plots.plot_hidden, model, _line(report), layer)
    else:
        caption = (
            f"Hidden layer {layer} on a regular grid over two inputs, the others at their mean. Where it is stretched,"
            " the model can change faster."
        )
        draw = partial(plots.plot_warp, model, layer, X=report.X, inputs=_two_inputs(report))
    return picture(f"hidden-{layer}", caption, draw)


def _two_inputs(report: Report) -> tuple[int, int]:
    """The two most important inputs that vary among the evaluated rows."""
    groups = input_groups(report.model)
    strength = np.where(np.ptp(report.X, axis=0) > 0, report.importance.mean[groups, 0], -np.inf)
    order = numbers_first(report.model, strength)
    # Of one column after the other: levels of one category alone would say little.
    second = next((each for each in order[1:] if groups[each] != groups[order[0]]), order[1])
    return int(order[0]), int(second)


def _line(report: Report) -> NDArray[np.float64]:
    """Points over the one input, a little beyond the evaluated rows, which may all be equal."""
    low, high = report.X.min(), report.X.max()
    margin = 0.03 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, 250)


def _fit(report: Report, *, ax: Axes) -> Axes:
    x, y = report.X[:, 0], report.evaluation.y[:, 0]
    plots.plot_fit(report.model, _line(report), n_functions=3, ax=ax)
    ax.plot(x, y, "o", color="black", markersize=2.5, label="evaluated rows", zorder=5, rasterized=len(x) > MANY)
    return ax


def _importance(report: Report, target: int, *, ax: Axes) -> Axes:
    values, spread = report.importance.mean[:, target], report.importance.std[:, target]
    order = np.argsort(-values, kind="stable")[:_MOST_BARS]
    places = np.arange(len(order))
    ax.barh(places, values[order], color=POINT, height=0.68, zorder=2)
    ax.errorbar(values[order], places, xerr=spread[order], fmt="none", ecolor=GREY, elinewidth=1.2, zorder=3)
    ax.axvline(0, color=GREY, linewidth=0.8)
    names = told_apart([report.about["inputs"][i] for i in order], 22)
    ax.set_yticks(places, [plain(name) for name in names])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"rise of the {report.kind.loss}")
    return tidy(ax, grid="x")


def _enlarge(handle: Artist | None) -> None:
    """Make dots legible in the legend: those of many rows are small and faint, others of many sizes."""
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D

    if isinstance(handle, PathCollection):
        handle.set_sizes([30.0])
    if isinstance(handle, Line2D) and handle.get_markersize() <= 3:
        handle.set(alpha=1.0, markersize=4, markeredgewidth=1.0)


def picture(name: str, caption: str, draw: Callable[..., Axes]) -> Picture:
    """What `draw` draws into its Axes, with a legend below."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with matplotlib.rc_context(_RC), warnings.catch_warnings():
        # Characters that the font lacks become boxes in the picture; the tables show them.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        ax = figure.subplots()
        draw(ax=ax)
        if isinstance(ax.xaxis.get_major_locator(), MaxNLocator):
            # Long numbers would run into each other.
            ax.locator_params(axis="x", nbins=6)
        if (entries := ax.get_legend_handles_labels())[0]:
            for handle in figure.legend(*entries, loc="outside lower center", ncols=2, frameon=False).legend_handles:
                _enlarge(handle)
        text = io.BytesIO()
        figure.savefig(text, format="svg", dpi=160, metadata={"Date": None, "Creator": None})
    return Picture(name, caption, f"data:image/svg+xml;base64,{base64.b64encode(text.getvalue()).decode()}")
