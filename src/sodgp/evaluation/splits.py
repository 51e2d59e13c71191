"""Folds of a cross-validation: drawn here, or by a splitter of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, StratifiedKFold

from sodgp.errors import ConfigurationError, InputError
from sodgp.system.validation import to_rows

__all__ = ["Folds", "Split", "Splits", "folds_of"]

Rows: TypeAlias = NDArray[np.int64]
# What `cv` may be: a number of folds, a splitter of scikit-learn, or pairs of rows.
Splits: TypeAlias = Any


class Split(NamedTuple):
    """Rows to train on and rows to judge by, as numbers."""

    train: Rows
    test: Rows


class Folds(NamedTuple):
    """The splits of a cross-validation, and how they were made, in words.

    Examples
    --------
    >>> folds = folds_of(2, np.zeros(6))
    >>> len(folds.splits), folds.words, np.sort(folds.rows).tolist()
    (2, '2-fold cross-validation', [0, 1, 2, 3, 4, 5])
    """

    splits: list[Split]
    words: str

    @property
    def rows(self) -> Rows:
        """The rows that are judged, fold after fold."""
        return np.concatenate([split.test for split in self.splits])


def folds_of(
    cv: Splits, y: NDArray[Any], *, is_classes: bool = False, groups: Any = None, random_state: int = 0
) -> Folds:
    """Splits of the rows of y.

    Parameters
    ----------
    cv : int, splitter of scikit-learn, or iterable of (train, test)
        A number of folds shuffles the rows, and keeps the shares of classes; with `groups` all rows of a group are in
        one fold.
    y : array of shape [N] or [N, P]
    is_classes : bool
        Whether y has labels.
    groups : array of shape [N], optional
        What rows must not be torn apart, such as a patient.
    random_state : int
        Of the shuffle; a splitter has its own.

    Raises
    ------
    ConfigurationError
        The folds make no sense, or a row would be judged twice.
    InputError
        `groups` has another number of rows, or gaps.
    """
    if isinstance(cv, Folds):
        return Folds(_checked(cv.splits, len(y)), cv.words)
    count = len(y)
    names = None if groups is None else _groups(groups, count)
    if isinstance(cv, bool | str) or not (isinstance(cv, int | np.integer) or hasattr(cv, "split") or _is_list(cv)):
        raise ConfigurationError(_wanted(cv, count))
    if not isinstance(cv, int | np.integer):
        pairs = cv.split(np.zeros((count, 1)), y, names) if hasattr(cv, "split") else cv
        return Folds(_checked(pairs, count), f"cross-validation by {_name(cv)}")
    if not 2 <= cv <= count // 2:
        raise ConfigurationError(_wanted(cv, count))
    if names is not None:
        distinct = len(np.unique(names))
        if distinct < cv:
            raise ConfigurationError(f"cv={cv} folds need as many groups, and there are {distinct}; take a smaller cv.")
        make = StratifiedGroupKFold if is_classes else GroupKFold
        pairs = _drawn(make(int(cv), shuffle=True, random_state=random_state), y, names)
        return Folds(_checked(pairs, count), f"{cv}-fold cross-validation, groups in one fold")
    if is_classes:
        splitter = StratifiedKFold(int(cv), shuffle=True, random_state=random_state)
        return Folds(_checked(_drawn(splitter, y, None), count), f"stratified {cv}-fold cross-validation")
    order = np.random.default_rng(random_state).permutation(count)
    parts = np.array_split(order, cv)
    return Folds([Split(np.setdiff1d(order, part), part) for part in parts], f"{cv}-fold cross-validation")


def _wanted(cv: Any, count: int) -> str:
    return (
        f"cv must be an integer from 2 to half of the {count} rows, a splitter of scikit-learn or a list of"
        f" (train, test) rows, not {cv!r:.100}."
    )


def _is_list(cv: Any) -> bool:
    return isinstance(cv, Iterable) and not isinstance(cv, str | bytes | np.ndarray)


def _name(cv: Any) -> str:
    return type(cv).__name__ if hasattr(cv, "split") else "given rows"


def _drawn(splitter: Any, y: NDArray[Any], groups: NDArray[Any] | None) -> list[tuple[Rows, Rows]]:
    """The splits of one of scikit-learn's; a class with fewer rows than folds is in some of them only."""
    strata = np.unique(y, return_inverse=True)[1] if y.ndim == 1 else np.zeros(len(y))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        try:
            return list(splitter.split(np.zeros((len(y), 1)), strata, groups))
        except ValueError as error:
            raise ConfigurationError(f"these folds cannot be made: {error} Take a smaller cv.") from error


def _groups(groups: Any, count: int) -> NDArray[Any]:
    values = to_rows(groups, "groups")
    if values.shape != (count,):
        raise InputError(f"groups must have the shape [{count}], one for each row, not {list(values.shape)}.")
    texts = [str(value) for value in values.tolist() if value is not None and value == value]
    if len(texts) < count:
        raise InputError(f"groups has {count - len(texts)} gaps: give each row a group, or drop it.")
    return np.unique(texts, return_inverse=True)[1]


def _checked(pairs: Iterable[Any], count: int) -> list[Split]:
    """Splits whose rows exist, of which each is judged once at most and never trained on in the same fold."""
    found, judged = [], np.zeros(count, dtype=np.int64)
    for pair in pairs:
        train, test = (np.asarray(rows, dtype=np.int64) for rows in pair)
        if not len(test) or len(train) < 2 or min(train.min(), test.min()) < 0 or max(train.max(), test.max()) >= count:
            raise ConfigurationError(f"a fold has too few rows, or rows that the {count} rows have not; change cv.")
        if len(np.intersect1d(train, test)):
            raise ConfigurationError("a fold trains on rows that it is judged by; give other rows.")
        np.add.at(judged, test, 1)
        found.append(Split(train, test))
    if not found:
        raise ConfigurationError("cv has no folds.")
    if judged.max() > 1:
        raise ConfigurationError(
            f"row {int(judged.argmax())} is in {judged.max()} test parts; scores need each row once, so take a splitter"
            " that does not repeat."
        )
    return found
