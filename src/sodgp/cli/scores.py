"""Scores of an evaluation for people and for programs."""

from __future__ import annotations

import math
from typing import Any

from sodgp.errors import printable
from sodgp.evaluation.classes import ClassEvaluation
from sodgp.evaluation.format import CLASS_LABELS, LABELS, counted, interval, number
from sodgp.evaluation.scores import Evaluation, Score


def as_dictionary(evaluation: Evaluation | ClassEvaluation, n_bootstrap: int) -> dict[str, Any]:
    """Rows and scores of every target: value, low and high, which are None where there is no interval."""
    targets: dict[str, Any] = {}
    for index, name in enumerate(evaluation.targets):
        found = evaluation.scores(index, n_bootstrap=n_bootstrap)
        targets[name] = {key: _plain(score, *(("low", "high") if n_bootstrap else ())) for key, score in found.items()}
    return {"rows": len(evaluation), "bootstrap": n_bootstrap, "interval": 0.95, "targets": targets}


def _plain(score: Score, *ends: str) -> dict[str, float | None]:
    """The value and these of its ends; JSON has neither nan nor infinity."""
    numbers = {name: getattr(score, name) for name in ("value", *ends)}
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}


def print_scores(evaluation: Evaluation | ClassEvaluation, n_bootstrap: int) -> None:
    """A table for each target, on stdout."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for index, name in enumerate(evaluation.targets):
        table = Table(title=Text(f"{printable(name, one_line=True)}: {counted(len(evaluation), 'row')}"))
        table.add_column("score")
        table.add_column("value", justify="right")
        if n_bootstrap:
            table.add_column("95 % interval", justify="right")
        table.add_column("")
        for key, score in evaluation.scores(index, n_bootstrap=n_bootstrap).items():
            label, _, note = (LABELS | CLASS_LABELS)[key]
            ends = [interval(key, score)] if n_bootstrap else []
            table.add_row(label, number(key, score.value), *ends, note)
        console.print(table)
