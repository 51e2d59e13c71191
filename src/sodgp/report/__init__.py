"""Reports: one HTML page, pictures included, about a model and its predictions for rows it has not seen.

Modules: `content` (what a report says, as data), `folds` (by cross-validation), `kinds` (what it says of `regression`,
`counts` and `classes`), `measures` (of data and model), `findings` (warnings), `figures`, `tables`, and `page`
(the HTML, by the template in `templates`).
"""

from __future__ import annotations

import os
from typing import Any

from sklearn.pipeline import Pipeline

from sodgp.errors import ConfigurationError
from sodgp.estimator.base import DeepGPEstimator
from sodgp.evaluation.pipelines import last_step
from sodgp.evaluation.splits import Splits
from sodgp.report.content import Report, held_out
from sodgp.report.findings import Finding
from sodgp.report.folds import cross_validated

__all__ = ["Finding", "Report", "cross_validated", "held_out", "write_report"]


def write_report(
    path: str | os.PathLike[str],
    model: DeepGPEstimator,
    X: Any,
    y: Any,
    *,
    cv: Splits | None = None,
    groups: Any = None,
    train: tuple[Any, ...] | None = None,
    n_jobs: int | None = None,
    title: str = "",
    model_name: str = "",
    data_name: str = "",
    random_state: int = 0,
    sample_weight: Any = None,
) -> Report:
    """Evaluate a fitted model and write the page, whole or not at all.

    Parameters
    ----------
    path : path of the HTML file; folders above are made
    model : DeepGPRegressor, DeepGPClassifier, or a Pipeline that ends in one
        Fitted, or loaded from a file. The page speaks of the inputs of the last step.
    X, y : array or data frame of shape [N, D] and [N] or [N, P]
        Rows that the model has not seen; with `cv` the training rows.
    cv : int, splitter of scikit-learn, list of (train, test) rows, or None
        Folds of a cross-validation, which fits a model with the options of `model` for each; None evaluates `model`.
    groups : array of shape [N], optional
        For a cross-validation: rows of a group are all in one fold.
    train : (X, y) or (X, y, sample_weight), optional
        The training rows, to which a linear model and boosting are fitted for comparison; not needed with `cv`, and
        where the model keeps all of them (up to 2,000 rows by default).
    n_jobs : int or None
        Processes for the fits of the cross-validation, as in joblib.
    title, model_name, data_name : str, for the head of the page
    random_state : int, of folds, bootstrap and permutations
    sample_weight : array of shape [N], optional
        How often each row counts in scores and coverage, and with `cv` in the fits; importance and pictures count rows.

    Returns
    -------
    Report
        What the page says, such as ``findings`` and ``evaluation``.

    Raises
    ------
    InputError, ConfigurationError
        Data or options that cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 60)[:, None]; y = np.sign(X[:, 0])
    >>> model = DeepGPRegressor(max_iter=20, random_state=0).fit(X[::2], y[::2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = write_report(f"{folder}/report.html", model, X[1::2], y[1::2])
    >>> len(report.evaluation)
    30
    """
    if cv is not None and isinstance(model, Pipeline):
        raise ConfigurationError(
            "a cross-validation of a Pipeline would fit the last step alone: evaluate it on rows held out, or give the"
            " table to the estimator itself, which encodes text, dates and gaps in every fold."
        )
    model, X = last_step(model, X)
    head: dict[str, Any] = {"title": title, "model_name": model_name, "data_name": data_name}
    head |= {"random_state": random_state, "sample_weight": sample_weight}
    if cv is None:
        if groups is not None:
            raise ConfigurationError("groups are for a cross-validation: say with cv how many folds there are.")
        report = held_out(model, X, y, train=train, **head)
    else:
        report = cross_validated(model, X, y, cv, groups=groups, n_jobs=n_jobs, **head)
    report.write(path)
    return report
