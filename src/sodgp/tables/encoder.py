"""The transformer of data frames: numbers for a model, and an account of every column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sodgp.errors import ConfigurationError, InputError, ModelFileError
from sodgp.system.validation import FloatArray, check_integer
from sodgp.tables.columns import Column, Encoded, LeftOut
from sodgp.tables.fitting import KINDS, Rules, Unreadable, fit_column
from sodgp.tables.frames import Cells, cells_of, is_frame, of_objects, without_marks
from sodgp.tables.news import News, short
from sodgp.tables.state import column_of_state, state_of_column
from sodgp.tables.words import MISSING

__all__ = ["TableEncoder"]

_MOST_CELLS, _MOST_COLUMNS = 3, 20


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn a data frame (pandas, polars, Arrow) into numbers, and say what became of every column.

    Numbers pass. Yes and no, true and false become 1 and 0. A category becomes a column of zeros and ones for each
    level; rare levels share one, as do levels that appear only later. Ordered categories become 0, 1, 2, ... Dates
    become days, with sine and cosine of the seasons that vary. Gaps are filled with the median (categories: a level),
    and another column says where they were, unless they are rare. Ids, free text and constant columns are left out.

    Parameters
    ----------
    kinds : mapping of str or None
        For columns whose kind should not be guessed: ``"number"``, ``"boolean"``, ``"category"``, ``"date"``,
        ``"drop"``, ``"keep"`` (no input; ``sodgp predict`` carries it along), or the levels of an ordered category, in
        their order.
    missing : sequence of str
        Texts that stand for nothing, besides the usual ones (``"?"``, ``"NA"``, ``"-"``, ``"null"``, ...).
    max_levels : int, default=30
        Columns that one category may become; its rarer levels are pooled, and how often a level occurs is one more.

    Attributes
    ----------
    columns_ : dict of str to str
        What became of every column.
    feature_names_in_ : ndarray of str
        The columns of the frame.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"sex": ["F", "M", "I"] * 2, "size": [1.0, None, 2, 3, 4, 5], "id": [7, 3, 5, 2, 9, 1]})
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.get_feature_names_out().tolist()
    ['sex=F', 'sex=I', 'sex=M', 'size']
    >>> encoder.columns_["id"]
    'left out: an id (whole numbers, all different)'
    """

    fitted_columns_: tuple[Column, ...]

    def __init__(
        self,
        kinds: Mapping[str, str | Sequence[str]] | None = None,
        missing: Sequence[str] = (),
        max_levels: int = 30,
    ) -> None:
        self.kinds = kinds
        self.missing = missing
        self.max_levels = max_levels

    def fit(self, X: Any, y: Any = None) -> Self:
        """Decide what becomes of each column of a frame [N, C]; y is not looked at.

        Raises
        ------
        InputError
            Cells that cannot be read, all of them together; or no column is left.
        ConfigurationError
            An option is wrong.
        """
        kinds, rules = self._checked()
        if not is_frame(X):
            raise InputError("TableEncoder takes a data frame (pandas, polars, Arrow) with a name for each column.")
        cells = [without_marks(each, self.missing) for each in cells_of(X)]
        there = {each.name for each in cells}
        unknown = [repr(name) for name in kinds if name not in there]
        if unknown:
            raise InputError(
                f"columns names {', '.join(unknown)}, but the table has {', '.join(map(repr, sorted(there)[:20]))}."
            )
        if cells and not len(cells[0]):
            raise InputError("the table has no rows.")
        fitted: list[Column] = []
        unreadable: list[Unreadable] = []
        for number, each in enumerate(cells):
            try:
                fitted.append(fit_column(each, kinds.get(each.name, "auto"), rules, is_first=number == 0))
            except Unreadable as error:
                unreadable.append(error)
        if unreadable:
            raise InputError(complaint(unreadable))
        if all(isinstance(column, LeftOut) for column in fitted):
            reasons = "; ".join(f"{column.name!r}: {column.said}" for column in fitted[:_MOST_COLUMNS])
            raise InputError(f"no column is left as an input ({reasons}). Say what a column is with columns=...")
        self._keep(fitted)
        return self

    def transform(self, X: Any) -> FloatArray:
        """A frame as numbers, [N, D]: columns are found by their names, others than those of the fit are passed over.

        Levels that training has not seen, and gaps where it had none, are counted in a `TableWarning`.

        Raises
        ------
        InputError
            Columns are missing, or cells cannot be read.
        """
        parts = self.encoded(X)
        news = News()
        news.add(self.used_, parts)
        news.warn()
        return np.concatenate([part.values for part in parts], axis=1)

    def encoded(self, X: Any) -> list[Encoded]:
        """The numbers of every column of `used_`, with what was not as in the fit; raises as `transform` does."""
        check_is_fitted(self)
        rules = self._checked()[1]
        used = self.used_
        cells = [without_marks(each, self.missing) for each in self._cells(X, [column.name for column in used])]
        parts = [column.encode(each, rules.missing) for column, each in zip(used, cells, strict=True)]
        bad = [
            Unreadable(column.name, part.bad, f"a {column.kind}")
            for column, part in zip(used, parts, strict=True)
            if part.bad
        ]
        if bad:
            raise InputError(complaint(bad))
        return parts

    def cells(self, X: Any) -> list[Cells]:
        """The columns of a frame that are inputs, with their cells as they were read: numbers, dates, text."""
        marks = self._checked()[1].missing
        found = self._cells(X, [column.name for column in self.used_])
        return [
            column.read(without_marks(each, self.missing), marks)
            for column, each in zip(self.used_, found, strict=True)
        ]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the numbers, [D]."""
        check_is_fitted(self)
        return np.array([name for column in self.fitted_columns_ for name in column.features], dtype=object)

    @property
    def columns_(self) -> dict[str, str]:
        """What became of every column."""
        return {column.name: column.said for column in self.fitted_columns_}

    @property
    def used_(self) -> list[Column]:
        """The columns that are inputs."""
        return [column for column in self.fitted_columns_ if column.features]

    @property
    def groups_(self) -> NDArray[np.int64]:
        """For every number, [D], the place of its column in `used_`."""
        counts = [len(column.features) for column in self.used_]
        return np.repeat(np.arange(len(counts)), counts)

    @property
    def kept_(self) -> list[str]:
        """Columns that are no inputs, and that predictions carry along."""
        return [column.name for column in self.fitted_columns_ if isinstance(column, LeftOut) and column.is_kept]

    def state(self) -> dict[str, Any]:
        """Options and fitted columns as JSON."""
        check_is_fitted(self)
        return {
            "missing": list(self.missing),
            "max_levels": self.max_levels,
            "columns": [state_of_column(column) for column in self.fitted_columns_],
        }

    @classmethod
    def from_state(cls, state: Any, kinds: Mapping[str, Any] | None = None) -> Self:
        """The fitted transformer that `state` described.

        Raises
        ------
        ModelFileError
            The description is damaged.
        """
        if not isinstance(state, Mapping) or state.keys() != {"missing", "max_levels", "columns"}:
            raise ModelFileError("its entry 'columns' is not what became of a table.")
        try:
            encoder = cls(kinds, tuple(state["missing"]), state["max_levels"])
            encoder._checked()
        except (ConfigurationError, TypeError) as error:
            raise ModelFileError(f"its entry 'columns' is wrong: {error}") from error
        columns = [column_of_state(entry) for entry in state["columns"]] if isinstance(state["columns"], list) else []
        if len({column.name for column in columns}) != len(columns) or not any(column.features for column in columns):
            raise ModelFileError("its entry 'columns' has no columns, or one of them twice.")
        encoder._keep(columns)
        return encoder

    def _keep(self, columns: Sequence[Column]) -> None:
        self.fitted_columns_ = tuple(columns)
        self.feature_names_in_ = np.array([column.name for column in columns], dtype=object)
        self.n_features_in_ = len(columns)

    def check(self) -> None:
        """Raise ConfigurationError for options that are wrong."""
        self._checked()

    def _checked(self) -> tuple[dict[str, str | tuple[str, ...]], Rules]:
        """The options, or ConfigurationError."""
        if isinstance(self.missing, str) or not all(isinstance(mark, str) for mark in self.missing):
            raise ConfigurationError(f"missing must be a list of texts, not {self.missing!r:.100}.")
        marks = MISSING | {mark.strip().casefold() for mark in self.missing}
        return checked_kinds(self.kinds), Rules(marks, check_integer("max_levels", self.max_levels, minimum=2))

    def _cells(self, X: Any, names: list[str]) -> list[Cells]:
        """The columns with these names; of an array, which has none, by their place."""
        if is_frame(X):
            return cells_of(X, names)
        values = np.asarray(X, dtype=object)
        if values.ndim != 2 or values.shape[1] != self.n_features_in_:
            raise InputError(
                f"X must be a data frame with the columns of the fit, or an array of these"
                f" {self.n_features_in_} columns in their order; it has the shape {list(values.shape)}."
            )
        places = {str(name): place for place, name in enumerate(self.feature_names_in_)}
        return [of_objects(name, values[:, places[name]].tolist()) for name in names]


def checked_kinds(kinds: Any) -> dict[str, str | tuple[str, ...]]:
    """What a user says about columns; ConfigurationError for anything unknown.

    Examples
    --------
    >>> checked_kinds({"city": "category", "size": ["S", "M", "L"]})
    {'city': 'category', 'size': ('S', 'M', 'L')}
    """
    if kinds is None:
        return {}
    if not isinstance(kinds, Mapping) or not all(isinstance(name, str) for name in kinds):
        raise ConfigurationError(f"columns must be a mapping from names to kinds, not {kinds!r:.100}.")
    found: dict[str, str | tuple[str, ...]] = {}
    for name, kind in kinds.items():
        if isinstance(kind, str):
            if kind not in KINDS:
                raise ConfigurationError(
                    f"columns: {name!r} cannot be {kind!r}; choose one of {', '.join(map(repr, KINDS))}, or list the"
                    " levels of an ordered category."
                )
            found[name] = kind
            continue
        levels = tuple(kind) if isinstance(kind, Sequence) else ()
        if len(levels) < 2 or len(set(levels)) < len(levels) or not all(isinstance(level, str) for level in levels):
            raise ConfigurationError(f"columns: the order of {name!r} needs two or more different texts, not {kind!r}.")
        found[name] = levels
    return found


def complaint(unreadable: Sequence[Unreadable]) -> str:
    """All cells that cannot be read, by column, and what to do."""
    parts, advice = [], []
    for each in unreadable[:_MOST_COLUMNS]:
        shown = [f"{short(text)!r} in row {row + 1}" for row, text in each.cells[:_MOST_CELLS]]
        more = f" and {len(each.cells) - len(shown):,} more" if len(each.cells) > len(shown) else ""
        parts.append(f"{each.name!r} holds {', '.join(shown)}{more}, not {each.wanted}")
        advice += [text for text in each.advice if text not in advice]
    left = len(unreadable) - len(parts)
    more_columns = f"; {left} more columns likewise" if left else ""
    usual = "Correct such cells (row 1 is the first below the header), or say that they are missing or a category."
    return f"{'; '.join(parts)}{more_columns}. {' '.join([*advice, usual])}"
