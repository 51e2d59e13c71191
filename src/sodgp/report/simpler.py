"""The model beside simpler ones: a linear model, boosting, and no inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sodgp.evaluation.baselines import NO_INPUTS
from sodgp.evaluation.format import COMPARED, interval, number
from sodgp.report.findings import TOO_FEW_ROWS, Finding
from sodgp.report.tables import Table

if TYPE_CHECKING:
    from sodgp.evaluation.scores import Score
    from sodgp.report.content import Report
    from sodgp.system.validation import FloatArray

# Standard errors by which a mean difference is not chance.
_CLEAR = 2.5
NO_ROWS = (
    "A linear model and gradient boosting stand here where the training rows are known: with --cv, or with --train"
    " train.csv (in Python train=(X, y))."
)


def _scores(report: Report, target: int) -> dict[str, dict[str, Score]]:
    """Scores of the simpler models by name."""
    seed = report.random_state
    return {name: found.scores(target, random_state=seed) for name, found in report.baselines.items()}


def simpler(report: Report, target: int, score: str) -> dict[str, float]:
    """One score of the linear model and of boosting, where there are these."""
    found = report.baselines.items()
    return {name: each.scores(target, n_bootstrap=0)[score].value for name, each in found if name != NO_INPUTS}


def compared(report: Report, target: int) -> Table:
    """The main scores of the model and of simpler ones; empty where there are none."""
    keys = COMPARED[report.about["task"]]
    if not report.baselines:
        return Table([], [])
    labels = [report.kind.labels[key][0] for key in keys]
    main = labels[0]
    rows = []
    for name, scores in {"this model": report.scores[target], **_scores(report, target)}.items():
        values = [number(key, scores[key].value) for key in keys]
        rows.append([name, values[0], interval(keys[0], scores[keys[0]]), *values[1:]])
    return Table(["", main, "95 % interval", *labels[1:]], rows)


def findings(report: Report) -> Iterator[Finding]:
    """Simpler models that are better, or as good."""
    if len(report.evaluation) < TOO_FEW_ROWS:
        return
    main = COMPARED[report.about["task"]][0]
    label = report.kind.labels[main][0]
    for target, name in enumerate(report.evaluation.targets):
        for who, found in report.baselines.items():
            if who == NO_INPUTS:
                continue
            mean, error = _difference(_losses(report.evaluation, target), _losses(found, target))
            theirs = found.scores(target, n_bootstrap=0)[main].value
            ours = report.scores[target][main].value
            values = f"{label} {number(main, theirs)} against {number(main, ours)}"
            if mean > _CLEAR * error:
                yield Finding(
                    "warn",
                    f"{name}: {_article(who)} is better on these rows ({values}).",
                    "Compare models (sodgp compare); effort='thorough', another likelihood or more rows may help.",
                )
            elif who == "linear" and abs(mean) < error:
                yield Finding(
                    "warn",
                    f"{name}: {_article(who)} does as well on these rows ({values}).",
                    "A straight relation needs no deep model: n_layers=1 or the linear model itself is easier to read.",
                )


def _article(name: str) -> str:
    return {"linear": "a linear model", "boosting": "gradient boosting"}.get(name, name)


def _losses(found: object, target: int) -> FloatArray:
    log_prob: FloatArray = -found.log_prob  # type: ignore[attr-defined]
    return log_prob if log_prob.ndim == 1 else log_prob[:, target]


def _difference(ours: FloatArray, theirs: FloatArray) -> tuple[float, float]:
    """Mean of the differences of rows, and its standard error."""
    difference = ours - theirs
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))
