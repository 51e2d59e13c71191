"""Several models on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from sodgp.errors import InputError
from sodgp.evaluation.scores import Evaluation, Score
from sodgp.plots.style import GREY, MEAN, POINT, axes_or_current, plain, tidy, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS = {
    "nlpp": ("NLPP, nats a row; lower is better", False),
    "rmse": ("RMSE; lower is better", True),
    "mae": ("MAE; lower is better", True),
    "crps": ("CRPS; lower is better", True),
    "r2": ("R²; higher is better", False),
    "coverage_90": ("share inside 90 % intervals", False),
}


def plot_comparison(
    evaluations: Mapping[str, Evaluation],
    metric: str = "nlpp",
    target: int = 0,
    *,
    unit: str = "",
    n_bootstrap: int = 1000,
    ax: Axes | None = None,
) -> Axes:
    """One score of several models, with 95 % bootstrap intervals; the best is filled.

    All models predict the same rows, so two models whose intervals overlap may still differ significantly.

    Parameters
    ----------
    evaluations : dict of str to Evaluation, by the name of the model
    metric : str
        ``"nlpp"``, ``"rmse"``, ``"mae"``, ``"crps"``, ``"r2"`` or ``"coverage_90"``.
    target : int, column of the targets
    unit : str, of the target
    n_bootstrap : int, resamples; 0 for no intervals
    ax : Axes, default=the current one

    Raises
    ------
    InputError
        No model, an unknown score, or models evaluated on different rows.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sodgp import DeepGPRegressor
    >>> from sodgp.evaluation import evaluate
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> evaluation = evaluate(DeepGPRegressor(max_iter=5, random_state=0).fit(X, X[:, 0]), X, X[:, 0])
    >>> ax = plot_comparison({"one": evaluation, "two": evaluation}, "rmse", ax=Figure().subplots())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['one', 'two']
    """
    if metric not in _LABELS:
        raise InputError(f"metric={metric!r} is unknown; choose one of {', '.join(map(repr, _LABELS))}.")
    if not evaluations:
        raise InputError("a comparison needs at least one model.")
    truths = [evaluation.y for evaluation in evaluations.values()]
    if any(truth.shape != truths[0].shape or not np.array_equal(truth, truths[0]) for truth in truths):
        raise InputError("the models were evaluated on different rows; scores compare on the same rows only.")
    ax = axes_or_current(ax)
    scores = [e.scores(target, n_bootstrap=n_bootstrap)[metric] for e in evaluations.values()]
    best = _best(metric, scores)
    for place, score in enumerate(scores):
        ax.hlines(place, score.low, score.high, color=GREY, linewidth=1.6, zorder=2)
        fill, edge = (MEAN, MEAN) if place == best else ("white", POINT)
        ax.plot(score.value, place, "o", markersize=8, mfc=fill, mec=edge, mew=1.6, zorder=3)
    if metric == "coverage_90":
        ax.axvline(0.9, color=GREY, linestyle="--", linewidth=1.0, zorder=1)
    ax.set_yticks(range(len(scores)), [plain(name, 28) for name in evaluations])
    ax.set_ylim(len(scores) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.margins(x=0.08)
    label, in_units = _LABELS[metric]
    name, _, good = label.partition(";")
    ax.set_xlabel(f"{with_unit(name, unit)};{good}" if in_units and unit else label)
    return tidy(ax, grid="x")


def _best(metric: str, scores: list[Score]) -> int:
    values = np.array([score.value for score in scores])
    if metric == "coverage_90":
        return int(np.argmin(np.abs(values - 0.9)))
    worse = -values if metric == "r2" else values
    return int(np.argmin(np.where(np.isnan(worse), np.inf, worse)))
