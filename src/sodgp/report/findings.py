"""Warnings of a report, each with what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binomtest

from sodgp.estimator.describe import feature_names

if TYPE_CHECKING:
    from sodgp.report.content import Report

FEW_TRAINING_ROWS, FEW_ROWS = 50, 30
# With fewer rows no finding rests on the intervals.
TOO_FEW_ROWS = 5
# By how many nats a row the bound may still rise over the last tenth of a run.
STILL_RISING = 0.02
_SURE = 0.01
# What to train on where an objective is too sharp for the data.
_LESS_SHARP = {"predictive": "bound", "leave_one_out": "collapsed"}
_CROSS_VALIDATION = "use cross-validation (--cv 5) on the training table."


@dataclass(frozen=True)
class Finding:
    """One warning.

    Attributes
    ----------
    level : {"bad", "warn"}
        Whether the numbers of the report cannot be trusted, or should be read with care.
    text, fix : str
        What was found, with names from the data; and what to do.

    Examples
    --------
    >>> Finding("warn", "Only 20 rows were evaluated.", "Evaluate on more rows.").level
    'warn'
    """

    level: str
    text: str
    fix: str


def find(report: Report) -> list[Finding]:
    """All warnings, the serious ones first."""
    found = [finding for rule in _RULES for finding in rule(report)]
    return sorted(found, key=lambda finding: finding.level != "bad")


def _seen_rows(report: Report) -> Iterator[Finding]:
    shared, kept = report.overlap
    if shared and not report.folds:
        what = "looks like the training table" if shared > 0.5 * kept else "shares rows with the training table"
        yield Finding(
            "bad",
            f"The evaluated table {what}: {shared} of the {kept} rows of the model's subset are in it. Scores on rows"
            " that a model has seen are too good.",
            f"Evaluate on held-out rows, or {_CROSS_VALIDATION}",
        )


def _training(report: Report) -> Iterator[Finding]:
    about, history = report.about, report.model.history_
    if about["stopped"] == "failed":
        yield Finding(
            "bad",
            "Training failed numerically; the model has its last good parameters.",
            "Fit again with a smaller learning_rate, or look for columns with extreme values.",
        )
    elif about["stopped"] == "interrupted":
        yield Finding("warn", "Training was interrupted.", "Fit again, or take the scores as those of a short run.")
    if about["rollbacks"]:
        yield Finding(
            "warn",
            f"Training diverged {about['rollbacks']} times and was rolled back to smaller steps.",
            "Fit again with a smaller learning_rate; compare the bound.",
        )
    # The log density of a sampler's draws does not converge to a maximum.
    rise = 0.0 if about["objective"] == "posterior" else _late_rise(history.bound) / about["rows"]
    if rise > STILL_RISING:
        what = "bound" if about["objective"] == "bound" else "objective"
        yield Finding(
            "warn",
            f"The {what} was still rising when training ended (by {rise:.2f} nats a row over its last part).",
            "Fit again with a larger max_iter.",
        )


def _late_rise(bound: Sequence[float]) -> float:
    """Rise of the mean bound over the last two tenths of the log; 0 if it may be Monte Carlo noise."""
    count = max(2, len(bound) // 10)
    if len(bound) < 2 * count:
        return 0.0
    last, before = np.asarray(bound[-count:]), np.asarray(bound[-2 * count : -count])
    rise = float(last.mean() - before.mean())
    # The scatter of two entries alone would be too uncertain.
    scatter = float(np.std(np.diff(bound[-max(4, len(bound) // 4) :]), ddof=1)) / 2**0.5
    return rise if rise > 3.0 * scatter * (2 / count) ** 0.5 else 0.0


def _size(report: Report) -> Iterator[Finding]:
    rows, inputs, here = report.about["rows"], len(report.about["inputs"]), len(report.evaluation)
    if rows < max(FEW_TRAINING_ROWS, 5 * inputs):
        yield Finding(
            "warn",
            f"The model was trained on {rows} rows with {inputs} input{'s' * (inputs > 1)}: few.",
            "Collect more rows, or leave out inputs that matter little.",
        )
    if here < FEW_ROWS:
        yield Finding(
            "warn",
            f"Only {here} {'row was' if here == 1 else 'rows were'} evaluated: "
            + ("the intervals say little." if here < TOO_FEW_ROWS else "all intervals of this report are wide."),
            "Collect more rows." if report.folds else f"Evaluate on more rows, or {_CROSS_VALIDATION}",
        )


def _less_sure(report: Report) -> str:
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


def _calibration(report: Report) -> Iterator[Finding]:
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
                _less_sure(report) if low else _surer(report),
            )
        elif _is_off(middle, 0.5, len(report.evaluation), 0.05):
            yield Finding(
                "warn",
                f"{name}: 90 % intervals are right, but 50 % intervals hold {100 * middle:.0f} % of the observations:"
                " the predictive distribution has the wrong shape.",
                "The noise may have other tails, or change with the inputs"
                + (" (likelihood='heavy_tailed', likelihood='heteroscedastic')." if _is_plain(report) else "."),
            )


def _is_plain(report: Report) -> bool:
    """Whether another likelihood may be worth a try."""
    return report.model.likelihood_.is_plain


def _is_off(share: float, level: float, count: int, tolerance: float) -> bool:
    """Whether a coverage is off by more than a tolerance, and by more than chance explains."""
    return abs(share - level) > tolerance and bool(binomtest(round(share * count), count, level).pvalue < _SURE)


def _worth(report: Report) -> Iterator[Finding]:
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
                f"{name}: the predictive density is worse than that of a Gaussian that ignores the inputs"
                f" (NLPP {scores['nlpp'].value:.2f} against {scores['base_nlpp'].value:.2f}).",
                "Look at the worst rows: a few far outside their intervals can do this.",
            )


def _rows(report: Report) -> Iterator[Finding]:
    outside = int(report.outside.sum())
    if outside:
        yield Finding(
            "warn",
            f"{_rows_of(outside)} outside of what the model was trained on: it extrapolates there.",
            "Do not trust predictions far outside the training data; the table of worst rows marks such rows.",
        )
    for target, name in enumerate(report.evaluation.targets):
        far = int((np.abs(report.evaluation.z[:, target]) > 5).sum())
        if far:
            yield Finding(
                "warn",
                f"{name}: {_rows_of(far)} more than five standard deviations off.",
                "Check them for errors in the data; if they are right, the noise has heavier tails than a Gaussian"
                + (" (likelihood='heavy_tailed')." if _is_plain(report) else "."),
            )


def _rows_of(count: int) -> str:
    return f"{count:,} row is" if count == 1 else f"{count:,} rows are"


def _inputs(report: Report) -> Iterator[Finding]:
    scaler, count = report.model.fitted_.x_seen, len(report.evaluation)
    names = feature_names(report.model)
    constant = [name for name, variance in zip(names, scaler.var_, strict=True) if variance == 0]
    if constant:
        yield Finding(
            "warn",
            f"Constant in the training data, so nothing was learned from {_listed(constant)}.",
            "Leave such columns out, or train on rows in which they vary.",
        )
    if report.folds or count < FEW_ROWS:
        return
    limit = max(0.5, 4 / np.sqrt(count))
    moved = [column.name for column in report.columns if abs(column.shift) > limit and column.name not in constant]
    if moved:
        yield Finding(
            "warn",
            f"The evaluated rows differ from the training rows: the mean has moved by more than {limit:.1f} standard"
            f" deviations in {_listed(moved)}.",
            "Check that both come from one source; the model was not trained on rows like these.",
        )


def _listed(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


_RULES: tuple[Callable[[Report], Iterator[Finding]], ...] = (
    _seen_rows,
    _training,
    _calibration,
    _worth,
    _size,
    _rows,
    _inputs,
)
