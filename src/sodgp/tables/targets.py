"""The target of a table as numbers, with nan where a row has none."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import InputError
from sodgp.system.validation import FloatArray
from sodgp.tables.encoder import complaint
from sodgp.tables.fitting import Unreadable
from sodgp.tables.frames import DATE, TEXT, Cells, without_marks
from sodgp.tables.words import MISSING, number_of, number_style, parsed

__all__ = ["labelled", "target_of"]

_STYLES = ("plain", "thousands", "comma")


def target_of(cells: Cells, missing: Iterable[str] = ()) -> FloatArray:
    """A target [N] of a regression; nan where it is missing, or is one of these texts or of the usual ones.

    Raises
    ------
    InputError
        It is a date or a text, some cells are no numbers, or some are infinite.

    Examples
    --------
    >>> target_of(Cells("y", "text", np.array(["1,5", "?", "2"], dtype=object))).tolist()
    [1.5, nan, 2.0]
    """
    name, marks = cells.name, _marks(missing)
    if cells.kind == DATE:
        raise InputError(f"the target {name!r} holds dates. A regression needs numbers, such as days since a date.")
    if cells.kind != TEXT:
        values = without_marks(cells, missing).values
        bad = [(int(row), f"{values[row]:g}") for row in np.flatnonzero(np.isinf(values))]
    else:
        texts = cells.texts(marks)
        known = [text for text in texts if text is not None]
        style = number_style(known) or max(
            _STYLES, key=lambda style: sum(not math.isnan(number_of(text, style)) for text in known)
        )
        values = parsed(texts, lambda text: number_of(text, style))
        bad = [(row, text) for row, text in enumerate(texts) if text is not None and math.isnan(values[row])]
        if known and 2 * len(bad) > len(known):
            raise InputError(
                f"the target {name!r} holds text instead of numbers, such as {bad[0][1]!r:.40} in row {bad[0][0] + 1}"
                " below the header. Classes need DeepGPClassifier; a regression needs numbers."
            )
    if bad:
        raise InputError(complaint([Unreadable(name, bad, "a number")]))
    return values


def labelled(cells: Cells, missing: Iterable[str] = ()) -> NDArray[np.bool_]:
    """Which rows have a label, [N]: neither missing, nor one of these texts or of the usual ones.

    Examples
    --------
    >>> labelled(Cells("y", "text", np.array(["a", "?", None, "lost"], dtype=object)), ["lost"]).tolist()
    [True, False, False, False]
    """
    return np.array([text is not None for text in without_marks(cells, missing).texts(_marks(missing))], dtype=bool)


def _marks(missing: Iterable[str]) -> frozenset[str]:
    return MISSING | {mark.strip().casefold() for mark in missing}
