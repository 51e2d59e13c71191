"""Scores of an evaluation for people and for programs."""

from __future__ import annotations

from typing import Any, Final

from sodgp.evaluation import Evaluation, Score

# Name -> (label, whether in units of the target, what is good).
LABELS: Final[dict[str, tuple[str, bool, str]]] = {
    "nlpp": ("NLPP", False, "lower is better"),
    "rmse": ("RMSE", True, "lower is better"),
    "mae": ("MAE", True, "lower is better"),
    "r2": ("R2", False, "1 is best, 0 is the training mean"),
    "crps": ("CRPS", True, "lower is better"),
    "coverage_50": ("50 % coverage", False, "best near 50 %"),
    "coverage_80": ("80 % coverage", False, "best near 80 %"),
    "coverage_90": ("90 % coverage", False, "best near 90 %"),
    "coverage_95": ("95 % coverage", False, "best near 95 %"),
    "width_90": ("width of 90 % intervals", True, "narrower is better at equal coverage"),
    "base_nlpp": ("NLPP without inputs", False, "of the training targets' mean and std"),
    "base_rmse": ("RMSE without inputs", True, "of the training targets' mean"),
}


def as_dictionary(evaluation: Evaluation, n_bootstrap: int) -> dict[str, Any]:
    """Rows and scores of every target: value, low and high."""
    targets: dict[str, Any] = {}
    for index, name in enumerate(evaluation.targets):
        found = evaluation.scores(index, n_bootstrap=n_bootstrap)
        targets[name] = {key: vars(score) if n_bootstrap else {"value": score.value} for key, score in found.items()}
    return {"rows": len(evaluation), "bootstrap": n_bootstrap, "interval": 0.95, "targets": targets}


def print_scores(evaluation: Evaluation, n_bootstrap: int) -> None:
    """A table for each target, on stdout."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for index, name in enumerate(evaluation.targets):
        table = Table(title=Text(f"{name}: {len(evaluation):,} rows"))
        table.add_column("score")
        table.add_column("value", justify="right")
        if n_bootstrap:
            table.add_column("95 % interval", justify="right")
        table.add_column("")
        for key, score in evaluation.scores(index, n_bootstrap=n_bootstrap).items():
            label, _, note = LABELS[key]
            ends = [interval(key, score)] if n_bootstrap else []
            table.add_row(label, number(key, score.value), *ends, note)
        console.print(table)


def number(key: str, value: float) -> str:
    """A score as text: shares in per cent, the rest with four digits.

    Examples
    --------
    >>> number("coverage_90", 0.9111), number("rmse", 53.214), number("nlpp", -0.12345)
    ('91.1 %', '53.21', '-0.123')
    """
    if key.startswith("coverage"):
        return f"{100 * value:.1f} %"
    return f"{value:.3f}" if abs(value) < 10 and not 0 < abs(value) < 1e-2 else f"{value:.4g}"


def interval(key: str, score: Score) -> str:
    """``low to high`` of a score."""
    return f"{number(key, score.low)} to {number(key, score.high)}"
