"""The first look at a source: how many rows, what its columns become, which classes there are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sodgp.data.sources import Source
from sodgp.errors import InputError, InputTypeError
from sodgp.estimator.columns import NUMERIC, ColumnsOption, checked_columns
from sodgp.estimator.fitted import Columns, Fitted
from sodgp.estimator.prepare import target_names_in
from sodgp.estimator.targets import check_classes, checked_labels, distinct_labels, warn_of_single_rows
from sodgp.predictive.classes import codes_of
from sodgp.tables.encoder import TableEncoder
from sodgp.tables.frames import is_frame, is_plain
from sodgp.tables.rows import Sample, labels_in, numbers_in, parted

__all__ = ["SAMPLE_ROWS", "Part", "Survey", "parts_of", "survey"]

SAMPLE_ROWS = 50_000
"""Random rows of a table by which its columns are judged."""
_MOST_LABELS = 10_000


@dataclass(frozen=True)
class Part:
    """A batch of a source: rows from `start` on, as frames or arrays."""

    name: str
    start: int
    X: Any
    y: Any

    def __len__(self) -> int:
        return len(self.X)

    def labels(self) -> NDArray[Any]:
        """The labels of the rows, [n]."""
        return checked_labels(labels_in(self.y) if is_frame(self.y) else self.y)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Errors about rows of this batch, which are counted from its first row, say where it is."""
        try:
            yield
        except InputError as error:
            where = "" if not self.start else f", rows from {self.start:,} on (below they are counted from there)"
            raise type(error)(f"{self.name}{where}: {error}") from error


@dataclass(frozen=True)
class Survey:
    """What was found: the columns, the number of rows, and of inputs of the model."""

    columns: Columns
    n_rows: int
    width: int

    @property
    def n_classes(self) -> int:
        """Classes of y; 0 of numbers."""
        return 0 if self.columns.classes is None else len(self.columns.classes)

    @property
    def judged_by(self) -> str:
        """By what the columns of a table were judged, in words."""
        return f"a random sample of {SAMPLE_ROWS:,} rows" if self.n_rows > SAMPLE_ROWS else "the first look"


def parts_of(source: Source) -> Iterator[Part]:
    """The batches of a source."""
    start = 0
    for batch in source.batches():
        X, y = parted(batch, source.targets) if source.targets else batch
        if np.ndim(X) != 2 and not is_frame(X):
            raise InputError(f"{source.name}: X of a batch must have the shape [n, D], not {list(np.shape(X))}.")
        if len(X) != len(y):
            raise InputError(f"{source.name}: a batch has {len(X)} rows of X and {len(y)} of y.")
        if len(X):
            yield Part(source.name, start, X, y)
        start += len(X)


def survey(source: Source, columns: ColumnsOption, previous: Fitted | None, *, as_classes: bool) -> Survey:
    """Read all rows once; of tables a sample is kept for a moment.

    Raises
    ------
    InputError
        There are no rows, the columns cannot be used, or the labels cannot.
    """
    encoder = checked_columns(columns) if previous is None else previous.columns.encoder
    is_guessed = previous is None and columns != NUMERIC
    first: Part | None = None
    sample, labels, n_rows, needs_encoder = Sample(SAMPLE_ROWS), _Labels(), 0, encoder is not None
    for part in parts_of(source):
        first = first or part
        with part.explained():
            if as_classes:
                labels.add(part.labels())
            if is_guessed and is_frame(part.X):
                needs_encoder = needs_encoder or not is_plain(part.X)
                sample.add(part.X)
        n_rows += len(part)
    if first is None:
        raise InputError(f"{source.name} has no rows.")
    if encoder is not None and not is_frame(first.X):
        raise InputError(f"columns names columns, but {source.name} has arrays, which have no names. Give data frames.")
    if needs_encoder and previous is None:
        encoder = (encoder or TableEncoder()).fit(sample.frame())
    X, y = first.X, first.y
    names = source.targets or target_names_in(y)
    found = Columns(
        n_inputs=np.shape(X)[1] if encoder is None else encoder.n_features_in_,
        n_targets=1 if np.ndim(y) == 1 else np.shape(y)[1],
        # A single column of a table is as good as a series.
        y_is_vector=np.ndim(y) == 1 or len(source.targets) == 1,
        inputs=_names_of(X) if encoder is None else encoder.feature_names_in_,
        targets=None if names is None else np.array(names, dtype=object),
        classes=labels.classes(n_rows) if as_classes else None,
        class_rows=labels.rows if as_classes else None,
        encoder=encoder,
    )
    if found.classes is not None and found.class_rows is not None:
        warn_of_single_rows(found.classes, found.class_rows)
    return Survey(found, n_rows, found.n_inputs if encoder is None else len(encoder.get_feature_names_out()))


def _names_of(X: Any) -> NDArray[np.object_] | None:
    """Names of the columns of a frame."""
    if not is_frame(X):
        return None
    return np.array([str(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns)], dtype=object)


class _Labels:
    """Distinct labels of batches, and how many rows have each."""

    def __init__(self) -> None:
        self._parts: list[tuple[NDArray[Any], NDArray[np.int64]]] = []
        self.rows = np.zeros(0, dtype=np.int64)

    def add(self, labels: NDArray[Any]) -> None:
        values, counts = np.unique(labels, return_counts=True)
        if len(values) > _MOST_LABELS:
            check_classes(values, len(labels))
        self._parts.append((values, counts))

    def classes(self, n_rows: int) -> NDArray[Any]:
        """The labels in ascending order; InputError as for labels in memory."""
        kinds = {values.dtype.kind.replace("u", "i").replace("f", "i"): values[0] for values, _ in self._parts}
        if len(kinds) > 1:
            shown = " and ".join(map(repr, kinds.values()))
            raise InputTypeError(f"y has labels of mixed types, {shown}: some batches have other ones than the first.")
        classes = distinct_labels(np.concatenate([values for values, _ in self._parts]))
        check_classes(classes, n_rows)
        self.rows = np.zeros(len(classes), dtype=np.int64)
        for values, counts in self._parts:
            self.rows[codes_of(values, classes)] += counts
        return classes


def inputs_of(part: Part, survey: Survey) -> NDArray[np.float64]:
    """X of a batch without an encoder as numbers, [n, D]; InputError where they are none."""
    if is_frame(part.X):
        names = _names_of(part.X)
        wanted = survey.columns.inputs
        if names is not None and wanted is not None and list(names) != list(wanted):
            raise InputError(f"a batch has the columns {', '.join(names)}, and the first had {', '.join(wanted)}.")
        return numbers_in(part.X)
    return plain_numbers(part.X, "X", survey.width)


def plain_numbers(values: Any, name: str, width: int) -> NDArray[np.float64]:
    """An array of a batch as float64 of shape [n, width]; InputError where it is another one."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise ValueError(f"its type is {array.dtype}")
        found = array.astype(np.float64).reshape(len(array), -1)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputTypeError(f"{name} must be numbers in a rectangular array: {error}") from error
    if found.shape[1] != width:
        raise InputError(f"{name} of a batch has {found.shape[1]} columns, and that of the first had {width}.")
    return found
