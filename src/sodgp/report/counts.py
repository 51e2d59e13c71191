"""Reports of counts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sodgp import plots
from sodgp.report.figures import dependence_pictures, importance_picture, picture
from sodgp.report.kinds import Section
from sodgp.report.regression import NUMBERS, calibration, pit_picture, prediction_pictures, worth

if TYPE_CHECKING:
    from sodgp.report.content import Report


def _sections(report: Report, target: int) -> list[Section]:
    name = report.evaluation.targets[target]
    assert report.frequencies is not None
    rootogram = picture(
        f"rootogram-{target}",
        f"Rootogram of {name}: bars that end beyond the dotted lines are counts that were seen more (below) or less"
        " (above) often than expected.",
        partial(plots.plot_frequencies, report.frequencies, target),
    )
    return [
        Section("Calibration", [rootogram, pit_picture(report, target)]),
        Section("Predictions and residuals", prediction_pictures(report, target)),
        Section("What matters", [importance_picture(report, target), *dependence_pictures(report, target)]),
    ]


COUNTS = replace(
    NUMBERS,
    note=(
        "RMSE, MAE, CRPS and widths are numbers of counts. NLPP is of probabilities, not of a density. “Without inputs”"
        " is a negative binomial with the mean and variance of the training targets, or a Poisson distribution."
    ),
    reading=(
        "NLPP: mean negative log probability of the count that was seen. RMSE: error of the mean. CRPS: like the MAE,"
        " but of the whole distribution. Coverage is judged by the randomised PIT, since intervals of counts hold more"
        " than they must. PIT: where the observation lies in its predictive distribution, flat for a perfect model."
    ),
    rules=(calibration, worth),
    sections=_sections,
)
