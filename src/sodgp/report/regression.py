"""Reports of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from sodgp import plots
from sodgp.estimator.columns import EncodedRows
from sodgp.evaluation.format import LABELS, number
from sodgp.evaluation.scores import Evaluation
from sodgp.report.advice import changing_noise, spreads
from sodgp.report.figures import Picture, dependence_pictures, importance_picture, picture
from sodgp.report.findings import TOO_FEW_ROWS, Finding, rows_are
from sodgp.report.kinds import Kind, Section
from sodgp.report.simpler import simpler
from sodgp.report.tables import Table, plain, short, worst_rows
from sodgp.system.validation import FloatArray

if TYPE_CHECKING:
    from sodgp.report.content import Report

_SURE = 0.01
# What to train on where an objective is too sharp for the data.
_LESS_SHARP = {"predictive": "bound", "leave_one_out": "collapsed"}


def of_numbers(report: Report) -> Evaluation:
    """The evaluation of a report on numbers or counts."""
    return cast(Evaluation, report.evaluation)


def rmse_of(model: Any, rows: EncodedRows, y: NDArray[Any], classes: NDArray[Any] | None) -> FloatArray:
    """Root mean squared error of the predicted means, [P]."""
    residual = model.predict(rows).reshape(y.shape) - y
    return np.asarray(np.sqrt(np.mean(residual**2, axis=0)))


def coverage_picture(report: Report, target: int) -> Picture:
    """Coverage at all levels."""
    found, name = of_numbers(report), report.evaluation.targets[target]
    return picture(
        f"coverage-{target}",
        f"Coverage of {name}: share of the observations inside central intervals of every level. Below the band:"
        " overconfident; above it: underconfident.",
        partial(plots.plot_coverage, found, target),
    )


def pit_picture(report: Report, target: int) -> Picture:
    """Histogram of the PIT."""
    found, name = of_numbers(report), report.evaluation.targets[target]
    return picture(
        f"pit-{target}",
        f"PIT of {name}: flat for a perfect model, a trough for an overconfident one, a hump for an underconfident one,"
        " a slope for biased means.",
        partial(plots.plot_pit, found, target),
    )


def prediction_pictures(report: Report, target: int) -> list[Picture]:
    """Predictions and residuals."""
    found, name = of_numbers(report), report.evaluation.targets[target]
    predictions = picture(
        f"predictions-{target}",
        f"Predicted against observed {name}, with 90 % intervals. One row in ten should be a cross.",
        partial(plots.plot_predictions, found, target),
    )
    residuals = picture(
        f"residuals-{target}",
        f"Residuals of {name} in predictive standard deviations. A bent median is something left to learn.",
        partial(plots.plot_residuals, found, target),
    )
    found_spreads = spreads(report, target)
    if not found_spreads:
        return [predictions, residuals]
    most = max(found_spreads, key=lambda each: abs(each.correlation))
    spread = picture(
        f"spread-{target}",
        f"Size of the residuals of {name} over {short(most.name)}, with which it changes most. Level where the noise is"
        " right.",
        partial(plots.plot_spread, found, most.values, most.name, target),
    )
    return [predictions, residuals, spread]


def sections_of(report: Report, target: int) -> list[Section]:
    """Pictures of a target that is a number."""
    return [
        Section("Calibration", [coverage_picture(report, target), pit_picture(report, target)]),
        Section("Predictions and residuals", prediction_pictures(report, target)),
        Section("What matters", [importance_picture(report, target), *dependence_pictures(report, target)]),
    ]


def worst_of(report: Report, target: int) -> Table:
    """The rows with the lowest density, with their intervals."""
    found = of_numbers(report)
    spread = float(found.y[:, target].std())
    cells = []
    for row in report.worst(target):
        values = (part[row, target] for part in (found.y, found.low, found.high))
        y, low, high = (f"{value:,.10g}" if found.is_count else plain(value, spread) for value in values)
        mean = plain(found.mean[row, target], spread)
        cells.append([y, mean, f"{low} to {high}", f"{found.z[row, target]:+.1f}"])
    return worst_rows(report, target, ["observed", "predicted", "90 % interval", "residual / std"], cells)


def sentence_of(report: Report, target: int) -> str:
    """How far predictions are off, and whether intervals hold what they promise."""
    scores = report.scores[target]
    rmse, base = scores["rmse"].value, scores["base_rmse"].value
    off = f"Predictions of {report.evaluation.targets[target]} are off by {number('rmse', rmse)} (RMSE)"
    if base > 0:
        change = 100 * (1 - rmse / base)
        off += f", {abs(change):.0f} % {'less' if change >= 0 else 'more'} than the training mean"
    others = [f"{name} by {number('rmse', v)}" for name, v in simpler(report, target, "rmse").items()]
    off += f" ({', '.join(others)})" if others else ""
    covered = f"{100 * scores['coverage_90'].value:.0f} % of the observations are inside their 90 % intervals"
    return f"{off}; {covered}."


def less_sure(report: Report) -> str:
    """What to try where intervals are too narrow."""
    softer = _LESS_SHARP.get(report.about["objective"])
    first = "Train longer" if softer is None else f"Train on a less sharp objective (inference__objective='{softer}')"
    mixture = "several members in a plain mixture (n_members=4, inference__member_spread=1)"
    more = "a larger inference__member_spread" if report.about["members"] > 1 else mixture
    return f"{first}, use {more}, or widen the intervals by what the coverage curve says."


def _surer(report: Report) -> str:
    """What to try where they are too wide."""
    if report.about["members"] > 1:
        return "Members that disagree make intervals wide: train longer, or take a smaller inference__member_spread."
    return "Train longer: intervals shrink as the noise is learned."


def calibration(report: Report) -> Iterator[Finding]:
    """Coverage that is off."""
    if len(report.evaluation) < TOO_FEW_ROWS:
        return
    for target, name in enumerate(report.evaluation.targets):
        share = report.scores[target]["coverage_90"].value
        middle = report.scores[target]["coverage_50"].value
        if _is_off(share, 0.9, len(report.evaluation), 0.02):
            low = share < 0.9
            yield Finding(
                "bad" if share < 0.8 else "warn",
                f"{name}: 90 % intervals hold {100 * share:.0f} % of the observations; the model is"
                f" {'overconfident' if low else 'underconfident'}.",
                less_sure(report) if low else _surer(report),
            )
        elif _is_off(middle, 0.5, len(report.evaluation), 0.05):
            yield Finding(
                "warn",
                f"{name}: 90 % intervals are right, but 50 % intervals hold {100 * middle:.0f} % of the observations:"
                " the predictive distribution has the wrong shape.",
                "The noise may have other tails, or change with the inputs"
                + (" (likelihood='heavy_tailed', likelihood='heteroscedastic')." if is_plain(report) else "."),
            )


def is_plain(report: Report) -> bool:
    """Whether another likelihood may be worth a try."""
    return report.model.likelihood_.is_plain


def _is_off(share: float, level: float, count: int, tolerance: float) -> bool:
    """Whether a coverage is off by more than a tolerance, and by more than chance explains."""
    return abs(share - level) > tolerance and bool(binomtest(round(share * count), count, level).pvalue < _SURE)


def worth(report: Report) -> Iterator[Finding]:
    """Predictions that are not better than none."""
    if len(report.evaluation) < TOO_FEW_ROWS:
        return
    for name, scores in zip(report.evaluation.targets, report.scores, strict=True):
        if scores["r2"].low <= 0:
            yield Finding(
                "bad" if scores["r2"].value <= 0 else "warn",
                f"{name}: the predicted mean is not clearly better than the mean of the training targets"
                f" (R² {scores['r2'].value:.2f}).",
                "Check that inputs and target belong together; the inputs may say little about this target.",
            )
        elif scores["nlpp"].value > scores["base_nlpp"].value:
            yield Finding(
                "bad",
                f"{name}: the predictive density is worse than that of a forecast that ignores the inputs"
                f" (NLPP {scores['nlpp'].value:.2f} against {scores['base_nlpp'].value:.2f}).",
                "Look at the worst rows: a few far outside their intervals can do this.",
            )


def far_rows(report: Report) -> Iterator[Finding]:
    """Rows that no Gaussian has."""
    for target, name in enumerate(report.evaluation.targets):
        far = int((np.abs(of_numbers(report).z[:, target]) > 5).sum())
        if far:
            them, they = ("it", "it is") if far == 1 else ("them", "they are")
            yield Finding(
                "warn",
                f"{name}: {rows_are(far)} more than five standard deviations off.",
                f"Check {them} for errors in the data; if {they} right, the noise has heavier tails than a Gaussian"
                + (" (likelihood='heavy_tailed')." if is_plain(report) else "."),
            )


NOTE = (
    "RMSE, MAE, CRPS and widths are in the units of the target. “Without inputs” is a Gaussian with the mean and"
    " standard deviation of the training targets: what a model must beat."
)
READING = (
    "NLPP: mean negative log predictive density, judges mean and width together. RMSE: error of the mean. CRPS: like"
    " the MAE, but of the whole distribution. Coverage: share of rows inside their intervals. Predictions and intervals"
    " are of observations, noise included."
)
NUMBERS = Kind(
    labels=LABELS,
    headlines=("rmse", "r2", "coverage_90", "nlpp"),
    note=NOTE,
    reading=READING,
    loss="RMSE",
    losses=rmse_of,
    rules=(calibration, worth, far_rows, changing_noise),
    sections=sections_of,
    worst=worst_of,
    sentence=sentence_of,
)
