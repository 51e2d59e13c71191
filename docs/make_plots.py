"""Draw the figures of docs/plots.md and docs/report.md into docs/images: ``python docs/make_plots.py [NAME ...]``.

Takes about a minute on one core. The data are the step function, scikit-learn's diabetes set, and a function of two
inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sodgp import DeepGPRegressor, plots
from sodgp.data import paper_split, step
from sodgp.evaluation import Evaluation, evaluate

IMAGES = Path(__file__).parent / "images"
LEGEND: dict[str, Any] = {"frameon": True, "framealpha": 0.85, "edgecolor": "none", "fontsize": 8}


@cache
def step_model() -> DeepGPRegressor:
    """Three layers on the step function."""
    data = step(40)
    return DeepGPRegressor(n_layers=3, subset_size=20, random_state=0).fit(data.X, data.y)


@cache
def diabetes(n_layers: int) -> tuple[DeepGPRegressor, Any, Evaluation]:
    """A model of the diabetes data, its training inputs, and what it says of the held-out rows."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    y = y.rename("progression")
    train, test = paper_split(len(X), 0, 0.7)
    model = DeepGPRegressor(n_layers=n_layers, subset_size=50, max_iter=400, random_state=0)
    model.fit(X.iloc[train], y.iloc[train])
    return model, X.iloc[train], evaluate(model, X.iloc[test], y.iloc[test])


@cache
def plane_model() -> tuple[DeepGPRegressor, Any]:
    """Two layers on a function of two inputs that rises steeply along the first one."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 2))
    y = np.tanh(6 * X[:, 0]) + 0.5 * X[:, 1] + 0.05 * rng.standard_normal(300)
    return DeepGPRegressor(subset_size=60, max_iter=600, random_state=0).fit(X, y), X


def fit() -> Figure:
    """`plot_fit` with functions."""
    data = step(40)
    figure, ax = canvas(6.4, 3.8)
    plots.plot_fit(step_model(), np.linspace(-1.1, 1.1, 300), data=(data.X, data.y), n_functions=4, ax=ax)
    ax.legend(loc="upper left", **LEGEND)
    ax.set_ylim(-2.1, 2.9)
    return figure


def hidden() -> Figure:
    """`plot_hidden`, both layers."""
    figure = Figure(figsize=(6.4, 2.7), layout="constrained")
    for layer, ax in enumerate(figure.subplots(1, 2), start=1):
        plots.plot_hidden(step_model(), np.linspace(-1.1, 1.1, 300), layer, ax=ax)
    return figure


def warp() -> Figure:
    """`plot_warp`."""
    model, X = plane_model()
    figure, ax = canvas(5.0, 4.4)
    plots.plot_warp(model, X=X, ax=ax)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, **LEGEND)
    return figure


def subset() -> Figure:
    """`plot_subset`."""
    model, X, _ = diabetes(2)
    figure, ax = canvas(5.2, 3.8)
    plots.plot_subset(model, X, ax=ax)
    ax.legend(loc="upper left", **LEGEND)
    return figure


def history() -> Figure:
    """`plot_history`."""
    figure, ax = canvas(6.0, 3.4)
    plots.plot_history(step_model(), ax=ax)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **LEGEND)
    return figure


def predictions() -> Figure:
    """`plot_predictions`."""
    figure, ax = canvas(5.2, 4.2)
    plots.plot_predictions(diabetes(2)[2], ax=ax)
    ax.legend(loc="upper left", **LEGEND)
    return figure


def residuals() -> Figure:
    """`plot_residuals`."""
    figure, ax = canvas(5.6, 3.4)
    plots.plot_residuals(diabetes(2)[2], ax=ax)
    ax.legend(loc="lower left", ncols=3, **LEGEND)
    return figure


def calibration() -> Figure:
    """`plot_coverage` and `plot_pit`."""
    figure = Figure(figsize=(7.2, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.plot_coverage(diabetes(2)[2], ax=left)
    plots.plot_pit(diabetes(2)[2], ax=right)
    left.legend(loc="lower right", **LEGEND)
    right.legend(loc="upper left", **LEGEND)
    return figure


def relevance() -> Figure:
    """`plot_relevance`, both layers."""
    figure = Figure(figsize=(7.0, 3.0), layout="constrained")
    for layer, ax in enumerate(figure.subplots(1, 2), start=1):
        plots.plot_relevance(diabetes(2)[0], layer, ax=ax)
        ax.set_title(f"layer {layer}", fontsize=10)
    return figure


def comparison() -> Figure:
    """`plot_comparison`, two scores."""
    found = {f"{n} layer{'s' * (n > 1)}": diabetes(n)[2] for n in (1, 2, 3)}
    figure = Figure(figsize=(7.0, 2.4), layout="constrained")
    for metric, ax in zip(("nlpp", "rmse"), figure.subplots(1, 2, sharey=True), strict=True):
        plots.plot_comparison(found, metric, ax=ax)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "plot-fit": fit,
    "plot-hidden": hidden,
    "plot-warp": warp,
    "plot-subset": subset,
    "plot-history": history,
    "plot-predictions": predictions,
    "plot-residuals": residuals,
    "plot-calibration": calibration,
    "plot-relevance": relevance,
    "plot-comparison": comparison,
}


def canvas(width: float, height: float) -> tuple[Figure, Any]:
    """A figure with one Axes, in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def draw(names: list[str], folder: Path = IMAGES) -> None:
    """Write PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        figure = FIGURES[name]()
        FigureCanvasAgg(figure)  # no window, whatever the backend
        figure.savefig(folder / f"{name}.png", dpi=120)
        print(folder / f"{name}.png")


if __name__ == "__main__":
    draw(sys.argv[1:] or list(FIGURES))
