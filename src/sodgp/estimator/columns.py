"""Tables as inputs of an estimator: when they are encoded, and rows that already are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import clone

from sodgp.errors import ConfigurationError, InputError
from sodgp.system.validation import FloatArray, check_predict_data, to_rows, without_tensors
from sodgp.tables.encoder import TableEncoder
from sodgp.tables.frames import is_frame, is_plain

if TYPE_CHECKING:
    from sodgp.estimator.base import DeepGPEstimator
    from sodgp.estimator.fitted import Fitted

__all__ = ["ColumnsOption", "EncodedRows", "checked_columns", "encoder_for", "in_parts", "rows_of"]

ColumnsOption: TypeAlias = str | Mapping[str, str | Sequence[str]] | TableEncoder
AUTO, NUMERIC = "auto", "numeric"


@dataclass(frozen=True)
class EncodedRows:
    """Rows in the model's own inputs, [N, D]: predictions take them in the place of a table."""

    values: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and inputs."""
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> EncodedRows:
        return EncodedRows(self.values[rows])


def checked_columns(columns: Any) -> TableEncoder | None:
    """The transformer that an option asks for; None where the table decides, or nothing is encoded.

    Raises
    ------
    ConfigurationError
        The option is unknown.
    """
    if isinstance(columns, TableEncoder):
        columns.check()
        return clone(columns)
    if isinstance(columns, Mapping):
        encoder = TableEncoder(columns)
        encoder.check()
        return encoder
    if columns not in (AUTO, NUMERIC):
        raise ConfigurationError(
            f"columns={columns!r:.100} is unknown; choose 'auto' or 'numeric', or say what columns are with a mapping,"
            " such as {'city': 'category', 'row': 'drop'}."
        )
    return None


def encoder_for(columns: ColumnsOption, X: Any, previous: Fitted | None = None) -> TableEncoder | None:
    """The fitted transformer for a table; None where X is numbers as they are.

    A fit that continues a `previous` one has its transformer.
    """
    if previous is not None:
        return previous.columns.encoder
    encoder = checked_columns(columns)
    if encoder is None and (columns == NUMERIC or not is_frame(X) or is_plain(X)):
        return None
    if not is_frame(X):
        raise InputError(
            f"columns names columns, but X is of type {type(X).__name__}, which has no names. Give a data frame."
        )
    return (encoder or TableEncoder()).fit(X)


def rows_of(estimator: DeepGPEstimator, X: Any) -> FloatArray:
    """Rows of a fitted estimator's inputs, [N, D], checked, and encoded where it was fitted to a table."""
    if isinstance(X, EncodedRows):
        return X.values
    encoder = estimator.fitted_.columns.encoder
    if encoder is None:
        return check_predict_data(estimator, X)
    values = encoder.transform(without_tensors(X, "X"))
    if not len(values):
        raise InputError("X has no rows: at least one is needed.")
    return np.ascontiguousarray(values)


def in_parts(estimator: DeepGPEstimator, X: Any) -> Any:
    """Rows in a form of which slices can be predicted; a table is encoded once for all of them."""
    if estimator.fitted_.columns.encoder is not None:
        return EncodedRows(rows_of(estimator, X))
    if isinstance(X, EncodedRows):
        return X
    return X.iloc if hasattr(X, "iloc") else to_rows(X)
