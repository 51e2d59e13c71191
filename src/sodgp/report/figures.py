"""Pictures of a report, as SVG inside the page: small, so that a phone can show them without scaling letters away."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sodgp import plots
from sodgp.errors import InputError
from sodgp.plots.style import GREY, POINT, plain, tidy

if TYPE_CHECKING:
    from sodgp.report.content import Report

_WIDTH, _HEIGHT = 4.5, 3.5
_MOST_BARS = 12
_RC = {"svg.hashsalt": "sodgp", "svg.fonttype": "path", "font.size": 9.5, "axes.titlesize": 10, "legend.fontsize": 8.5}


@dataclass(frozen=True)
class Picture:
    """A picture and its words.

    Attributes
    ----------
    name : str
        For links and tests.
    caption : str
        What is seen and how to read it.
    source : str
        ``data:`` address of the SVG.
    """

    name: str
    caption: str
    source: str


def of_target(report: Report, target: int) -> dict[str, list[Picture]]:
    """Pictures of one target: ``calibration``, ``predictions`` and ``importance``."""
    found, name = report.evaluation, report.evaluation.targets[target]
    return {
        "calibration": [
            _picture(
                f"coverage-{target}",
                f"Coverage of {name}: share of the observations inside central intervals of every level. Below the"
                " band: too sure; above it: too timid.",
                lambda ax: plots.plot_coverage(found, target, ax=ax),
            ),
            _picture(
                f"pit-{target}",
                f"PIT of {name}: flat for a perfect model, a trough for one too sure, a hump for one too timid, a slope"
                " for biased means.",
                lambda ax: plots.plot_pit(found, target, ax=ax),
            ),
        ],
        "predictions": [
            _picture(
                f"predictions-{target}",
                f"Predicted against observed {name}, with 90 % intervals. One row in ten should be a cross.",
                lambda ax: plots.plot_predictions(found, target, ax=ax),
            ),
            _picture(
                f"residuals-{target}",
                f"Residuals of {name} in predictive standard deviations. A bent median is something left to learn.",
                lambda ax: plots.plot_residuals(found, target, ax=ax),
            ),
        ],
        "importance": [
            _picture(
                f"importance-{target}",
                f"Importance for {name}: rise of the RMSE when a column is shuffled. Columns that say the same can"
                " stand in for each other and then look unimportant.",
                lambda ax: _importance(ax, report, target),
            )
        ],
    }


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

        def draw(ax: Any, layer: int = layer) -> None:
            plots.plot_relevance(model, layer, most=_MOST_BARS, ax=ax)

        found["relevance"].append(_picture(f"relevance-{layer}", caption, draw))
    found["relevance"].append(
        _picture(
            "subset",
            "Where the model's inducing points are, among the evaluated rows, in the two inputs that matter most to"
            " layer 1.",
            lambda ax: plots.plot_subset(model, report.X, ax=ax),
        )
    )
    if model.history_.iteration:
        found["training"].append(
            _picture(
                "history",
                "Training: the bound, or the objective in its place, and the terms that add up to it. It should rise"
                " and flatten.",
                lambda ax: plots.plot_history(model, ax=ax),
            )
        )
    found["layers"] = [_hidden(report, layer) for layer in range(1, layers)]
    if model.n_features_in_ == 1 and model.model_.n_outputs == 1:
        found["fit"].append(_picture("fit", "The fit: bands of y (with noise) and of f (the function).", _fit(report)))
    return found


def _hidden(report: Report, layer: int) -> Picture:
    model = report.model
    if model.n_features_in_ == 1:
        x = _line(report)
        caption = f"What hidden layer {layer} makes of the input: draws of its first output. Steep: room for change."
        return _picture(f"hidden-{layer}", caption, lambda ax: plots.plot_hidden(model, x, layer, ax=ax))
    first, second = _two_inputs(report)
    caption = (
        f"What hidden layer {layer} makes of a regular grid over two inputs, the others at their mean. Where it is"
        " stretched, the model can change faster."
    )
    return _picture(
        f"hidden-{layer}", caption, lambda ax: plots.plot_warp(model, layer, X=report.X, inputs=(first, second), ax=ax)
    )


def _two_inputs(report: Report) -> tuple[int, int]:
    """The two most important inputs that vary among the evaluated rows."""
    strength = np.where(np.ptp(report.X, axis=0) > 0, report.importance.mean[:, 0], -np.inf)
    first, second = np.argsort(-strength, kind="stable")[:2]
    return int(first), int(second)


def _line(report: Report) -> NDArray[np.float64]:
    """Points over the one input, a little beyond the evaluated rows; also where these are all alike."""
    low, high = report.X.min(), report.X.max()
    margin = 0.03 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, 250)


def _fit(report: Report) -> Callable[[Any], object]:
    x, y = report.X[:, 0], report.evaluation.y[:, 0]
    grid = _line(report)

    def draw(ax: Any) -> None:
        plots.plot_fit(report.model, grid, n_functions=3, ax=ax)
        ax.plot(x, y, "o", color="black", markersize=2.5, label="evaluated rows", zorder=5, rasterized=len(x) > 1500)

    return draw


def _importance(ax: Any, report: Report, target: int) -> None:
    values, spread = report.importance.mean[:, target], report.importance.std[:, target]
    order = np.argsort(-values, kind="stable")[:_MOST_BARS]
    places = np.arange(len(order))
    ax.barh(places, values[order], color=POINT, height=0.68, zorder=2)
    ax.errorbar(values[order], places, xerr=spread[order], fmt="none", ecolor=GREY, elinewidth=1.2, zorder=3)
    ax.axvline(0, color=GREY, linewidth=0.8)
    names = [column.name for column in report.columns if column.role == "input"]
    ax.set_yticks(places, [plain(names[i], 22) for i in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("rise of the RMSE")
    tidy(ax, grid="x")


def _enlarge(handle: Any) -> None:
    """Dots of many rows are small and faint in the picture, and should not be in its legend."""
    if hasattr(handle, "get_markersize") and handle.get_markersize() <= 3:
        handle.set(alpha=1.0, markersize=4, markeredgewidth=1.0)


def _picture(name: str, caption: str, draw: Callable[[Any], object]) -> Picture:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_RC), warnings.catch_warnings():
        # Names in scripts that the font lacks become boxes in the picture; the tables show them.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        ax = figure.subplots()
        draw(ax)
        handles, labels = ax.get_legend_handles_labels()
        if handles:
            legend = figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
            for handle in legend.legend_handles:
                _enlarge(handle)
        text = io.BytesIO()
        figure.savefig(text, format="svg", dpi=160, metadata={"Date": None, "Creator": None})
    return Picture(name, caption, f"data:image/svg+xml;base64,{base64.b64encode(text.getvalue()).decode()}")
