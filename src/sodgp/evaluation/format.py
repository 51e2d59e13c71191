"""Scores in words and numbers for people: tables of the command line and of reports."""

from __future__ import annotations

import math
from typing import Final

from sodgp.evaluation.scores import Score

# Name -> (label, whether in units of the target, what is good).
LABELS: Final[dict[str, tuple[str, bool, str]]] = {
    "nlpp": ("NLPP", False, "lower is better"),
    "rmse": ("RMSE", True, "lower is better"),
    "mae": ("MAE", True, "lower is better"),
    "r2": ("R²", False, "1 is best, 0 is the training mean"),
    "crps": ("CRPS", True, "lower is better"),
    "coverage_50": ("50 % coverage", False, "best near 50 %"),
    "coverage_80": ("80 % coverage", False, "best near 80 %"),
    "coverage_90": ("90 % coverage", False, "best near 90 %"),
    "coverage_95": ("95 % coverage", False, "best near 95 %"),
    "width_90": ("mean 90 % width", True, "narrower is better at equal coverage"),
    "base_nlpp": ("NLPP without inputs", False, "of the training targets' mean and std"),
    "base_rmse": ("RMSE without inputs", True, "of the training targets' mean"),
}
CLASS_LABELS: Final[dict[str, tuple[str, bool, str]]] = {
    "log_loss": ("log loss", False, "lower is better"),
    "brier": ("Brier score", False, "lower is better"),
    "accuracy": ("accuracy", False, "higher is better"),
    "roc_auc": ("area under the ROC", False, "1 is best, 0.5 is chance"),
    "ece": ("calibration error", False, "lower is better"),
    "ece_chance": ("error of chance alone", False, "of calibrated models 95 % are below"),
    "base_log_loss": ("log loss without inputs", False, "of the classes' shares in training"),
    "base_accuracy": ("accuracy without inputs", False, "of the most frequent class"),
}


# By which models are held against each other, the main score first.
COMPARED: Final[dict[str, tuple[str, ...]]] = {
    "regression": ("nlpp", "rmse", "crps", "coverage_90"),
    "counts": ("nlpp", "rmse", "crps", "coverage_90"),
    "classification": ("log_loss", "brier", "accuracy", "roc_auc"),
}


def counted(count: int, what: str) -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "row"), counted(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def number(key: str, value: float) -> str:
    """A score as text: shares in per cent, the rest with four digits; a dash where there is none.

    Examples
    --------
    >>> number("coverage_90", 0.9111), number("rmse", 53.214), number("nlpp", -0.12345)
    ('91.1 %', '53.21', '-0.123')
    """
    if math.isnan(value):
        return "-"
    if key.startswith("coverage") or key.endswith("accuracy"):
        return f"{100 * value:.1f} %"
    if abs(value) >= 1e4:
        return f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3e}"
    # The # keeps zeros, and with four digits before it the point, too.
    return f"{value:.3f}" if abs(value) < 10 and not 0 < abs(value) < 1e-2 else f"{value:#.4g}".removesuffix(".")


def interval(key: str, score: Score) -> str:
    """``low to high`` of a score; a dash where it has no interval.

    Examples
    --------
    >>> interval("rmse", Score(0.3, low=0.2, high=0.5)), interval("rmse", Score(0.3, math.nan, math.nan))
    ('0.200 to 0.500', '-')
    """
    if math.isnan(score.low) or math.isnan(score.high):
        return "-"
    return f"{number(key, score.low)} to {number(key, score.high)}"
