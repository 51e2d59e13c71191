"""Warnings of a report, each with what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sodgp.estimator.describe import feature_names

if TYPE_CHECKING:
    from sodgp.report.content import Report
    from sodgp.training.history import History

FEW_TRAINING_ROWS, FEW_ROWS = 50, 30
# With fewer rows no finding rests on the intervals.
TOO_FEW_ROWS = 5
# By how many nats a row the bound may still rise over the last tenth of a run.
STILL_RISING = 0.02
# With fewer in the log of training their scatter says nothing about Monte Carlo noise.
_MANY_ENTRIES = 10
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
    from sodgp.report import advice, simpler

    rules = (*_BEFORE, *report.kind.rules, simpler.findings, advice.straight_layers, *_AFTER)
    found = [finding for rule in rules for finding in rule(report)]
    return sorted(found, key=lambda finding: finding.level != "bad")


def _seen_rows(report: Report) -> Iterator[Finding]:
    shared, kept = report.overlap
    if shared and not report.folds:
        what = "looks like the training table" if shared > 0.5 * kept else "shares rows with the training table"
        yield Finding(
            "bad",
            f"The evaluated table {what}: {shared:,} of the {kept:,} training rows that the model keeps are"
            " in it. Scores on rows that a model has seen are too good.",
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
    late = _late_rise(history.bound) if len(history.bound) >= _MANY_ENTRIES else _short_rise(history)
    rise = 0.0 if about["objective"] == "posterior" else late / about["rows"]
    if rise > STILL_RISING:
        what = "bound" if about["objective"] == "bound" else "objective"
        yield Finding(
            "warn",
            f"The {what} was still rising when training ended (by {rise:.2f} nats a row over its last part).",
            "Fit again with a larger max_iter.",
        )


def _short_rise(history: History) -> float:
    """Rise over the last tenth of a run with few entries in its log, as if it had been even over its last part."""
    steps, bound = np.asarray(history.iteration, dtype=np.float64), np.asarray(history.bound)
    if len(bound) < 2 or len(steps) != len(bound):
        return 0.0
    # Of entries that are closer the difference is mostly Monte Carlo noise.
    before = np.flatnonzero(steps <= 0.9 * steps[-1])
    if not len(before):
        return 0.0
    start = int(before[-1])
    rise = float(bound[-1] - bound[start]) * 0.1 * steps[-1] / (steps[-1] - steps[start])
    return rise if bound[-1] >= bound[start:-1].max() else 0.0


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


def _rows(report: Report) -> Iterator[Finding]:
    outside = int(report.outside.sum())
    if outside:
        yield Finding(
            "warn",
            f"{rows_are(outside)} outside of what the model was trained on: it extrapolates there.",
            "Do not trust predictions far outside the training data; the table of worst rows marks such rows.",
        )


def rows_are(count: int) -> str:
    """A number of rows, with its verb."""
    return f"{count:,} row is" if count == 1 else f"{count:,} rows are"


def _inputs(report: Report) -> Iterator[Finding]:
    scaler, count = report.model.fitted_.x_seen, len(report.evaluation)
    names = feature_names(report.model)
    constant = [name for name, variance in zip(names, scaler.var_, strict=True) if variance == 0]
    if constant:
        yield Finding(
            "warn",
            f"Constant in the training data, so nothing was learned from {listed(constant)}.",
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
            f" deviations in {listed(moved)}.",
            "Check that both come from one source; the model was not trained on rows like these.",
        )


def listed(names: Sequence[str], most: int = 6) -> str:
    """The first of many names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


_Rules: TypeAlias = tuple[Callable[["Report"], Iterator[Finding]], ...]
# Around those of the kind of target.
_BEFORE: _Rules = (_seen_rows, _training)
_AFTER: _Rules = (_size, _rows, _inputs)
