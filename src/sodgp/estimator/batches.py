"""Predictions of any number of rows, a batch at a time, here or in many processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from sodgp.errors import ConfigurationError, InputError
from sodgp.system.jobs import in_jobs

__all__ = ["BatchPrediction"]

_BATCH_ROWS = 50_000


class BatchPrediction:
    """Gives an estimator `predict_batches`."""

    def predict_batches(
        self,
        X: Any,
        *,
        method: str = "predict",
        batch_rows: int = _BATCH_ROWS,
        n_jobs: int | None = None,
        **options: Any,
    ) -> Iterator[Any]:
        """Predictions of rows that come in batches, in order and in the memory of a few batches.

        Parameters
        ----------
        X : path, array, data frame, tensor or iterable of these
            A Parquet, CSV or TSV file, whose columns are found by their names where the model knows some; one table,
            which is cut into batches; or an iterable of batches, Arrow's included, each of which is taken as it is.
        method : str
            Of this estimator, called with each batch: ``"predict"``, ``"predict_distribution"``, ...
        batch_rows : int
            Rows of a batch of a file or a table.
        n_jobs : int or None
            Processes, as in joblib: None is 1 unless inside `joblib.parallel_config`. The numbers are the same.
        **options
            Of the method, such as ``return_std=True``.

        Yields
        ------
        What the method returns, for one batch after the other.

        Examples
        --------
        >>> import numpy as np
        >>> from sodgp import DeepGPRegressor
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> [len(mean) for mean, std in model.predict_batches(X, batch_rows=20, return_std=True)]
        [20, 10]
        """
        from sodgp.system.validation import check_integer

        check_is_fitted(self)
        check_integer("batch_rows", batch_rows, minimum=1)
        if method.startswith("_") or not callable(getattr(self, method, None)):
            raise ConfigurationError(f"method={method!r} is no method of {type(self).__name__}; use 'predict'.")
        tasks = ((self, method, batch, options) for batch in _batches(X, batch_rows))
        return in_jobs(_predicted, tasks, n_jobs, "predicted")


def _batches(X: Any, rows: int) -> Iterator[Any]:
    """Batches of a file, a table or an iterable."""
    if isinstance(X, str | Path):
        from sodgp.tables.pieces import pieces

        yield from pieces(X, rows)
    elif hasattr(X, "shape") and not hasattr(X, "to_batches"):
        cut = X.iloc if hasattr(X, "iloc") else X
        for start in range(0, len(X), rows):
            yield cut[start : start + rows]
    elif hasattr(X, "to_batches"):
        yield from X.to_batches(max_chunksize=rows)
    elif isinstance(X, Iterable):
        yield from X
    else:
        raise InputError(f"predict_batches takes a file, a table or an iterable of batches, not {type(X).__name__}.")


def _predicted(estimator: Any, method: str, batch: Any, options: dict[str, Any]) -> Any:
    """What a method of an estimator says about one batch."""
    from sodgp.tables.pieces import Piece

    is_named = isinstance(batch, Piece) or hasattr(batch, "to_pandas")
    if is_named:
        frame = batch.read() if isinstance(batch, Piece) else batch.to_pandas()
        names = getattr(estimator, "feature_names_in_", None)
        encoder = estimator.fitted_.columns.encoder
        needed = (names if encoder is None else [column.name for column in encoder.used_]) if names is not None else ()
        missing = [repr(name) for name in needed if name not in frame.columns]
        if missing:
            raise InputError(f"a batch lacks input columns of the model: {', '.join(missing)}.")
        # Without names in the model it is the order that counts.
        if names is None:
            batch = frame.to_numpy(dtype="float64", na_value=float("nan"))
        else:
            batch = frame[[name for name in names if name in frame.columns]]
    return getattr(estimator, method)(batch, **options)
