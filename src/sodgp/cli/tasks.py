"""Regression, classification or counts: what a target is, and the estimator for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sodgp.cli.options import TASKS, as_arguments
from sodgp.cli.tables import most_match, no_numbers
from sodgp.errors import ConfigurationError
from sodgp.system.progress import say

if TYPE_CHECKING:
    import pandas as pd

    from sodgp import DeepGPClassifier, DeepGPRegressor
    from sodgp.training.callbacks import EarlyStopping

# Numbers with a decimal comma, with thousands, ...: not labels.
_NUMBER_LIKE = r"[\s$€£¥]*[+-]?[\d.,]+[\s%€$£¥]*"


def told_task(likelihood: str | None, said: str | None) -> str | None:
    """The task that was said, or that of the likelihood; None where neither says it."""
    from sodgp.estimator.options.fields import LIKELIHOODS

    names = {"numbers": "regression", "counts": "counts", "classes": "classification"}
    if said not in (None, *TASKS):
        raise ConfigurationError(f"--task {said} is unknown; choose one of {', '.join(TASKS)}.")
    of_likelihood = names[LIKELIHOODS[likelihood].targets] if likelihood in LIKELIHOODS else None
    if None not in (said, of_likelihood) and said != of_likelihood:
        raise ConfigurationError(
            f"--task {said} does not go with --likelihood {likelihood}, which is for {of_likelihood}."
        )
    return said or of_likelihood


def estimator_for(task: str, options: Mapping[str, Any]) -> DeepGPRegressor | DeepGPClassifier:
    """A new estimator with these options."""
    from sodgp import DeepGPClassifier, DeepGPRegressor

    if task == "classification":
        if options.get("target_transform", "none") != "none":
            raise ConfigurationError("--target-transform is for numbers, and this target has classes; leave it out.")
        options = {name: value for name, value in options.items() if name != "target_transform"}
        return DeepGPClassifier(**as_arguments(options, likelihood=None))
    usual = "negative_binomial" if task == "counts" else "gaussian"
    return DeepGPRegressor(**as_arguments({"likelihood": usual, **options}))


def task_of(y: pd.DataFrame, likelihood: str | None, said: str | None) -> str:
    """The task that was said, or that of the likelihood, or else what the targets look like, which is said on stderr.

    A target of text, of booleans or of two values has classes.
    """
    told = told_task(likelihood, said)
    if told is not None:
        return told
    if y.shape[1] > 1:
        return "regression"
    column = y.iloc[:, 0]
    values = column.dropna().unique()
    strays = no_numbers(column)
    # A few cells of text in a column of numbers are mistakes, which are reported as such.
    is_text = strays is not None and 2 * len(strays) >= column.count() and not most_match(strays, _NUMBER_LIKE)
    if not is_text and len(values) != 2:
        return "regression"
    shown = ", ".join(map(repr, sorted(map(str, values))[:5])) + (", ..." if len(values) > 5 else "")
    hint = "" if is_text else "; --task regression takes them as numbers"
    if len(values) > 1:  # else fit complains
        say(f"Note: {column.name!r} has {len(values)} classes, {shown}: this is a classification{hint}.")
    return "classification"


def early_stopping(model: DeepGPRegressor | DeepGPClassifier, patience: int | None) -> list[EarlyStopping]:
    """What ends training after so many steps without a better bound, or validation score."""
    from sodgp.training.callbacks import EarlyStopping

    if patience is None:
        return []
    monitor = "bound" if model.validation_fraction is None else "validation"
    return [EarlyStopping(monitor, patience=patience)]
