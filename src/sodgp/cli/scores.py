"""Scores of an evaluation for people and for programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sodgp.errors import printable
from sodgp.evaluation.classes import ClassEvaluation
from sodgp.evaluation.format import CLASS_LABELS, LABELS, counted, interval, number
from sodgp.evaluation.scores import Evaluation, Score

if TYPE_CHECKING:
    from sodgp.evaluation.comparison import Comparison


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


def comparison_as_dictionary(found: Comparison) -> dict[str, Any]:
    """Scores and seconds of every contestant, by target."""
    contestants = {
        name: {"seconds": judged.seconds, **as_dictionary(judged.evaluation, 1000)}
        for name, judged in found.contestants.items()
    }
    return {"task": found.task.kind, "evaluated_by": found.how, "scores": list(found.scores), "models": contestants}


def print_comparison(found: Comparison) -> None:
    """One table for each target, on stdout: the best of the main score is bold."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, labels = Console(), LABELS | CLASS_LABELS
    main, *others = found.scores
    for target, name in enumerate(found.task.targets):
        table = Table(
            title=Text(f"{printable(name, one_line=True)}: {found.how}"), box=box.SIMPLE_HEAD, pad_edge=False, padding=0
        )
        heads = [labels[main][0], "95 % interval", *(labels[key][0] for key in others), "seconds"]
        table.add_column("model", no_wrap=True)
        for head in heads:
            table.add_column(head, justify="right", no_wrap=head.endswith("interval"))
        scores = {who: judged.evaluation.scores(target) for who, judged in found.contestants.items()}
        best = min(scores, key=lambda who: scores[who][main].value)
        for who, own in scores.items():
            values = [number(main, own[main].value), interval(main, own[main])]
            values += [number(key, own[key].value) for key in others]
            seconds = f"{found.contestants[who].seconds:.1f}"
            table.add_row(who, *values, seconds, style="bold" if who == best else "")
        console.print(table)
    console.print(f"{labels[main][0]}: lower is better. Seconds are those of all fits.", highlight=False)
