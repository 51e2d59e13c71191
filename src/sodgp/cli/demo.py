"""``sodgp demo``: deep GPs with 1, 2 and 3 layers on a step and on the diabetes data, scored and plotted."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sodgp.data import paper_split, step
from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.predictive.metrics import scores
from sodgp.system.progress import progress, say
from sodgp.system.running import only_whole
from sodgp.system.validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LAYERS = (1, 2, 3)
STEP_TEST_ROWS = 200
PICTURE = "step.png"


@dataclass(frozen=True)
class Task:
    """A data set of the demo, split, and the options that keep its fits short."""

    name: str
    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    max_iter: int
    subset_size: int


@dataclass(frozen=True)
class Outcome:
    """One fit of the demo, with its scores on the test rows in original units."""

    task: Task
    n_layers: int
    model: DeepGPRegressor
    scores: dict[str, float]
    seconds: float


def run(out: Path, seed: int = 0, *, max_iter: int | None = None) -> list[Outcome]:
    """Fit, score, print the table and write ``step.png`` into the folder `out`, which is made if need be."""
    from sodgp.system.files import write_whole

    out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be written should not wait for the fits
    tasks = [step_task(seed), diabetes_task(seed)]
    if max_iter is not None:
        tasks = [replace(task, max_iter=max_iter) for task in tasks]
    outcomes = fit_all(tasks, seed)
    print_table(outcomes)
    figure = step_figure([outcome for outcome in outcomes if outcome.task.name == "step"])
    write_whole(out / PICTURE, lambda path: figure.savefig(path, format="png", dpi=100))
    say(f"Picture of the step: {out / PICTURE}")
    return outcomes


def step_task(seed: int) -> Task:
    """The step function: 40 noisy rows, scored on 200 others."""
    train, test = step(random_state=seed), step(STEP_TEST_ROWS, random_state=seed + 1_000_003)
    return Task("step", train.X, train.y, test.X, test.y, max_iter=1000, subset_size=20)


def diabetes_task(seed: int) -> Task:
    """scikit-learn's bundled diabetes data, 90 % of the rows for training."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    train, test = paper_split(len(X), seed)
    # Fewer steps than the defaults, and a smaller subset: a demo is short.
    return Task("diabetes", X[train], y[train], X[test], y[test], max_iter=400, subset_size=50)


def fit_all(tasks: Sequence[Task], seed: int) -> list[Outcome]:
    """Every task with every number of layers, under one progress bar."""
    outcomes = []
    with progress(len(LAYERS) * len(tasks), "demo") as begin:
        for task in tasks:
            for n_layers in LAYERS:
                callback = begin(f"{task.name}, {n_layers} layer{'s' * (n_layers > 1)}")
                model = DeepGPRegressor(
                    n_layers=n_layers,
                    max_iter=task.max_iter,
                    subset_size=task.subset_size,
                    random_state=seed,
                    callbacks=[callback],
                    verbose=False,
                )
                began = time.perf_counter()
                with only_whole([model]):
                    model.fit(task.X, task.y)
                seconds = time.perf_counter() - began
                found = scores(task.y_test, model.predict_distribution(task.X_test))
                outcomes.append(Outcome(task, n_layers, model, found, seconds))
    return outcomes


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Scores on the test rows, on stdout."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="SoD deep GPs on rows they have not seen")
    for name in ("data", "layers", "NLPP", "RMSE", "CRPS", "90 % coverage", "seconds"):
        table.add_column(name, justify="left" if name == "data" else "right")
    for name, group in itertools.groupby(outcomes, lambda outcome: outcome.task.name):
        for outcome in group:
            s = outcome.scores
            numbers = [f"{s[score]:.3f}" for score in ("nlpp", "rmse", "crps")]
            coverage = f"{100 * s['coverage_90']:.0f} %"
            table.add_row(name, str(outcome.n_layers), *numbers, coverage, f"{outcome.seconds:.1f}")
        table.add_section()
    Console().print(table)
    print("NLPP, RMSE and CRPS: lower is better. Coverage: best near 90 %.")


def step_figure(outcomes: Sequence[Outcome]) -> Figure:
    """Fits of the step, one column for each number of layers; below them draws of the last hidden layer."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from sodgp.plots import plot_fit, plot_functions, plot_hidden

    x = np.linspace(-1.1, 1.1, 300)
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    FigureCanvasAgg(figure)  # no window, whatever the user's backend
    axes = figure.subplots(2, len(outcomes), sharex=True, height_ratios=(3, 2), squeeze=False)
    for column, outcome in enumerate(outcomes):
        top, bottom = axes[:, column]
        task, model = outcome.task, outcome.model
        plot_fit(model, x, data=(task.X, task.y), ax=top)
        plot_functions(model, x, n_samples=4, ax=top)
        top.plot([-1.1, 0, np.nan, 0, 1.1], [-1, -1, np.nan, 1, 1], "--", color="0.25", linewidth=1, label="true step")
        top.set(title=f"{outcome.n_layers} layer{'s' * (outcome.n_layers > 1)}", ylim=(-2.1, 2.1))
        hidden = outcome.n_layers - 1
        if hidden == 0:
            bottom.set_axis_off()
            bottom.legend(*top.get_legend_handles_labels(), loc="center", frameon=False)
            continue
        plot_hidden(model, x, layer=hidden, ax=bottom)
        bottom.set_title(f"20 draws of hidden layer {hidden}")
    for ax in axes[:, 1:].flat:
        ax.set_ylabel("")
    for ax in axes[0, 1:]:
        ax.set_xlabel("")
    axes[0, 0].tick_params(labelbottom=True)
    if len(outcomes) > 1:
        axes[1, 1].set_ylabel("z (units of scaled x)")
    return figure
