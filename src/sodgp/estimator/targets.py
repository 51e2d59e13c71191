"""What y is: numbers, counts or labels of classes; checked, and turned into what a likelihood is trained on."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import column_or_1d

from sodgp.errors import InputError, InputTypeError, SodgpWarning
from sodgp.likelihoods.contract import ClassOptions, LikelihoodOptions
from sodgp.likelihoods.dirichlet import Dirichlet
from sodgp.predictive.classes import codes_of, shown
from sodgp.system.notice import warn_user
from sodgp.system.validation import FloatArray, without_tensors

__all__ = [
    "MAX_CLASSES",
    "Encoded",
    "check_classes",
    "check_counts",
    "checked_labels",
    "distinct_labels",
    "encoded",
    "labels_and_codes",
]

# More are the values of a number.
MAX_CLASSES = 100
# Largest whole number up to which float64 has every whole number.
_LARGEST = 2**53


class Encoded(NamedTuple):
    """What a likelihood is trained on.

    Attributes
    ----------
    y : ndarray of shape [N, P]
        P is the number of latent outputs.
    noise_variance : ndarray of shape [N, P], optional
        Known noise of `y`.
    is_scaled : bool
        Whether `y` is to be standardised.
    """

    y: FloatArray
    noise_variance: FloatArray | None
    is_scaled: bool


def encoded(likelihood: LikelihoodOptions, y: FloatArray, noise: FloatArray | None, n_classes: int) -> Encoded:
    """Targets y [N, P], for classes their numbers [N, 1], as the likelihood takes them.

    Raises
    ------
    InputError
        Where they do not suit the likelihood.
    """
    if likelihood.targets == "numbers":
        return Encoded(y, noise, is_scaled=True)
    if likelihood.targets == "counts":
        check_counts(y, likelihood.name)
        return Encoded(y, None, is_scaled=False)
    if n_latents(likelihood, n_classes) == 1:
        return Encoded(y, None, is_scaled=False)
    one_hot = np.eye(n_classes)[y[:, 0].astype(np.int64)]
    if isinstance(likelihood, Dirichlet):
        return Encoded(*likelihood.transformed(one_hot), is_scaled=True)
    return Encoded(one_hot, None, is_scaled=False)


def n_latents(likelihood: LikelihoodOptions, n_classes: int) -> int:
    """Latent outputs of a classifier; InputError where the likelihood is not for so many classes."""
    return cast(ClassOptions, likelihood).outputs(n_classes)


def check_counts(y: FloatArray, likelihood: str) -> None:
    """InputError that names the rows unless all are whole numbers from zero on."""
    bad = ~((y >= 0) & (y == np.floor(y)) & (y <= _LARGEST)).all(1)
    if bad.any():
        rows = np.flatnonzero(bad)
        first = y[rows[0]]
        what = "negative" if (first < 0).any() else "too large" if (first > _LARGEST).any() else "fractional"
        more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
        raise InputError(
            f"likelihood={likelihood!r} is of counts, 0, 1, 2, ..., and y is {what} in row {rows[0]}"
            f" ({', '.join(f'{value:g}' for value in first)}); rows that are no counts: {', '.join(map(str, rows[:5]))}"
            f"{more}. Correct them, or use likelihood='gaussian' for other numbers."
        )


def labels_and_codes(y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The labels of the classes in ascending order [K], and the class of every row as its place there [N].

    Raises
    ------
    InputError
        Missing labels, labels of mixed types, numbers with fractions, a single class or too many.

    Examples
    --------
    >>> labels_and_codes(["b", "a", "b", "a"])
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1, 0]))
    """
    labels = checked_labels(y)
    classes = distinct_labels(labels)
    check_classes(classes, len(labels))
    codes = codes_of(labels, classes)
    warn_of_single_rows(classes, np.bincount(codes))
    return classes, codes


def warn_of_single_rows(classes: NDArray[Any], rows: NDArray[Any]) -> None:
    """Warn of classes with one row."""
    single = classes[rows == 1]
    if len(single):
        warn_user(
            f"the class{'es' * (len(single) > 1)} {shown(single)} of y occur{'s' * (len(single) == 1)} only once:"
            " nothing can be learned about their spread. Pool rare classes, or collect more rows of them.",
            SodgpWarning,
        )


def checked_labels(y: Any) -> NDArray[Any]:
    """The labels as an array [N]; InputError where one is missing or they are of mixed types.

    Examples
    --------
    >>> checked_labels([True, False])
    array([ True, False])
    """
    labels = _one_column(y)
    _refuse_missing(labels)
    return labels


def check_classes(classes: NDArray[Any], n_rows: int) -> None:
    """InputError for a single class, or for more than `MAX_CLASSES`."""
    if len(classes) == 1:
        raise InputError(
            f"the classifier needs at least two classes; all {n_rows} rows of y have one class, {classes.tolist()[0]!r}"
            ". Check the target column, or how the rows were chosen."
        )
    if len(classes) > MAX_CLASSES:
        advice = (
            "Numbers with so many values are a regression: use DeepGPRegressor."
            if classes.dtype.kind in "iuf"
            else "Pool rare classes, or check that the column is the target and not a name or an identifier."
        )
        raise InputError(
            f"y has {len(classes):,} classes in {n_rows:,} rows, and a classifier takes at most {MAX_CLASSES}. {advice}"
        )


def _one_column(y: Any) -> NDArray[Any]:
    """The labels as an array [N]: text, whole numbers or booleans."""
    if y is None:
        raise InputError("DeepGPClassifier requires y to be passed, but the target y is None.")
    y = without_tensors(y, "y")
    if isinstance(y, list | tuple):
        # NumPy would turn 1 and "a" into text without a word.
        values = np.asarray(y, dtype=object)
    else:
        values = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
    if values.ndim == 2 and values.shape[1] != 1:
        raise InputError(
            f"y must have one column of labels, and has {values.shape[1]}. Turn indicator columns into labels (argmax),"
            " and fit one classifier for each of several targets."
        )
    if values.dtype.kind == "c":
        raise InputError("Complex data not supported: labels are text, whole numbers or booleans.")
    if values.dtype.kind == "O":
        values = _plain(values, keeps_text=not isinstance(y, list | tuple))
    with warnings.catch_warnings():
        # A column from a frame is as good as a series; scikit-learn asks for a warning about other ones.
        if hasattr(y, "columns"):
            warnings.simplefilter("ignore", DataConversionWarning)
        try:
            return column_or_1d(values, warn=True)
        except ValueError as error:
            raise InputError(str(error)) from error


def _plain(values: NDArray[Any], *, keeps_text: bool) -> NDArray[Any]:
    """An array of objects as one of text, booleans or numbers, where all are of one kind.

    With `keeps_text` text remains objects, as scikit-learn leaves it.
    """
    known = [value for value in values.ravel().tolist() if not _is_missing(value)]
    examples = {_kind(value): value for value in reversed(known)}
    if "" in examples:
        other = examples[""]
        raise InputTypeError(
            f"y holds {type(other).__name__} objects, such as {other!r:.60}: each argument must be a string or a"
            " number. Labels are text, whole numbers or booleans."
        )
    if len(examples) > 1:
        found = " and ".join(f"{kind} ({examples[kind]!r})" for kind in sorted(examples))
        raise InputTypeError(f"y has labels of mixed types: {found}. Turn all into text, for example with map(str).")
    if len(known) < values.size or (keeps_text and "text" in examples):
        return values
    plain = np.array(values.tolist())
    if plain.dtype.kind == "O":
        raise InputError("y has whole numbers of more than 64 bits as labels: turn them into text, with map(str).")
    return plain


def _kind(label: object) -> str:
    """What a label is, in words; empty for anything else."""
    kinds: dict[str, tuple[type, ...]] = {
        "text": (str,),
        "booleans": (bool, np.bool_),
        "numbers": (int, float, np.integer, np.floating),
    }
    return next((kind for kind, types in kinds.items() if isinstance(label, types)), "")


def _refuse_missing(labels: NDArray[Any]) -> None:
    if labels.dtype.kind == "f":
        missing = ~np.isfinite(labels)
    elif labels.dtype.kind == "O":
        missing = np.array([_is_missing(value) for value in labels.tolist()], dtype=bool)
    elif labels.dtype.kind in "mM":
        raise InputTypeError("y holds dates; labels are text, whole numbers or booleans.")
    else:
        return
    if missing.any():
        rows = np.flatnonzero(missing)
        more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
        raise InputError(
            f"Input y contains NaN or infinity, or a label is missing: rows {', '.join(map(str, rows[:5]))}{more}."
            " Drop those rows, or give the missing ones a label of their own."
        )


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not np.isfinite(value)) or type(value).__name__ == "NAType"


def distinct_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """The distinct labels in ascending order; InputError for numbers with fractions, which are no classes."""
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        row = int(np.flatnonzero(labels != np.floor(labels))[0])
        raise InputError(
            f"Unknown label type: y has the number {labels[row]:g} in row {row}, and classes are text, whole numbers or"
            " booleans. For numbers use DeepGPRegressor."
        )
    classes: NDArray[Any] = np.unique(labels)
    return classes


def described_classes(classes: NDArray[Any]) -> str:
    """The classes for people: ``3 classes: 'a', 'b', 'c'``."""
    return f"{len(classes)} classes: {shown(classes)}"
