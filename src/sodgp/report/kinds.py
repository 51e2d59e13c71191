"""What a report says of numbers, of counts and of classes: one value for each, and the function that picks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from sodgp.system.validation import FloatArray

if TYPE_CHECKING:
    from sodgp.estimator.base import DeepGPEstimator
    from sodgp.estimator.columns import EncodedRows
    from sodgp.report.content import Report
    from sodgp.report.figures import Picture
    from sodgp.report.findings import Finding
    from sodgp.report.tables import Table

__all__ = ["Kind", "Section", "kind_of"]

Rule: TypeAlias = Callable[["Report"], Iterator["Finding"]]


@dataclass(frozen=True)
class Section:
    """A part of the page: a heading, pictures, and a table above or nothing."""

    title: str
    pictures: Sequence[Picture] = ()
    table: Table | None = None
    note: str = ""


@dataclass(frozen=True)
class Kind:
    """How reports judge one kind of target.

    Attributes
    ----------
    labels : mapping
        Of the scores, as in `sodgp.evaluation.format`, in the order of the page.
    headlines : tuple of str
        Scores at a glance.
    note, reading : str
        Below the scores, and at the foot of the page.
    loss : str
        What rises when a column is shuffled, in words; `losses` computes it for rows, [P].
    rules : tuple of functions
        Warnings of this kind.
    sections : function of a report and a target
        Its pictures.
    worst : function of a report and a target
        The table of its worst rows.
    sentence : function of a report and a target
        What was found, in one sentence.
    """

    labels: Mapping[str, tuple[str, bool, str]]
    headlines: tuple[str, ...]
    note: str
    reading: str
    loss: str
    losses: Callable[[Any, EncodedRows, NDArray[Any], NDArray[Any] | None], FloatArray]
    rules: tuple[Rule, ...]
    sections: Callable[[Report, int], list[Section]]
    worst: Callable[[Report, int], Table]
    sentence: Callable[[Report, int], str]


def kind_of(model: DeepGPEstimator) -> Kind:
    """The kind of a fitted model's targets."""
    from sodgp.report.classes import CLASSES
    from sodgp.report.counts import COUNTS
    from sodgp.report.regression import NUMBERS

    return {"numbers": NUMBERS, "counts": COUNTS, "classes": CLASSES}[model.likelihood_.targets]
