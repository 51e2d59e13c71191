"""Reports: one HTML page, pictures included, about a model and its predictions for rows it has not seen.

Modules: `content` (what a report says, as data), `measures` (of data and model), `findings` (warnings), `figures`,
`page` (the HTML, by the template in `templates`).
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.report.content import Report, cross_validated, held_out
from sodgp.report.findings import Finding

__all__ = ["Finding", "Report", "cross_validated", "held_out", "write_report"]


def write_report(
    path: str | os.PathLike[str],
    model: DeepGPRegressor,
    X: Any,
    y: Any,
    *,
    cv: int | None = None,
    n_jobs: int | None = None,
    title: str = "",
    model_name: str = "",
    data_name: str = "",
    random_state: int = 0,
) -> Report:
    """Evaluate a fitted model and write the page, whole or not at all.

    Parameters
    ----------
    path : path of the HTML file; folders above are made
    model : DeepGPRegressor
        Fitted, or loaded from a file.
    X, y : array or data frame of shape [N, D] and [N] or [N, P]
        Rows that the model has not seen; with `cv` the training rows.
    cv : int or None
        Folds of a cross-validation, which fits a model with the options of `model` for each; None evaluates `model`.
    n_jobs : int or None
        Processes for the fits of the cross-validation, as in joblib.
    title, model_name, data_name : str, for the head of the page
    random_state : int, of folds, bootstrap and permutations

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
    make = held_out if cv is None else partial(cross_validated, cv=cv, n_jobs=n_jobs)
    report = make(model, X, y, title=title, model_name=model_name, data_name=data_name, random_state=random_state)
    report.write(path)
    return report
