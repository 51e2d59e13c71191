"""What the training loop asks the processes that train one model together, and the answers of one process alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar

from torch import Tensor

from sodgp.inference.contract import Batch, Terms

__all__ = ["ALONE", "Ranks", "Wishes"]

R = TypeVar("R")
Wishes = tuple[bool, bool]
"""Whether to end training because of Ctrl-C, and because of the time limit."""


class Ranks(Protocol):
    """The processes that train one model, seen from one of them: number `rank` of `count`."""

    rank: int
    count: int

    def part(self, n_rows: int) -> slice:
        """The rows of so many that are this process's."""

    def rows(self, batch: Batch) -> Batch:
        """The batch with this process's rows of the rest."""

    def share(self, terms: Terms, sums_over_rows: Sequence[str]) -> Terms:
        """The process's share of the objective, from the terms at its rows; the shares of all add up to it."""

    def summed(self, backward: Callable[[], Terms], parameters: Sequence[Tensor], names: Sequence[str]) -> Terms:
        """Run a backward pass in every process, and add up their gradients, in place, and their terms.

        An error in one process is an error in all: NumericalError where it was one.
        """

    def listen(self, wishes: Callable[[], Wishes]) -> Callable[[], Wishes]:
        """Ask every process in every step whether it wishes to end training; what a process wished in the last one."""

    def together(
        self, compute: Callable[[], R], same: Sequence[Tensor | str] = (), what: str = "parameters"
    ) -> list[R]:
        """The results of all processes; an error in one is an error in all.

        Raises
        ------
        RanksError
            `same` differs between the processes; `what` says what that is.
        """

    def in_step(self) -> AbstractContextManager[None]:
        """A block at whose end all processes wait for each other; an error in one is an error in all."""

    def first(self, compute: Callable[[], R]) -> R:
        """What the first process computes, in all of them."""


class Alone:
    """One process, which does everything itself.

    Examples
    --------
    >>> ALONE.count, ALONE.part(10), ALONE.together(lambda: 1)
    (1, slice(None, None, None), [1])
    """

    rank, count = 0, 1

    def part(self, n_rows: int) -> slice:
        """All rows."""
        return slice(None)

    def rows(self, batch: Batch) -> Batch:
        """The batch."""
        return batch

    def share(self, terms: Terms, sums_over_rows: Sequence[str]) -> Terms:
        """The terms."""
        return terms

    def summed(self, backward: Callable[[], Terms], parameters: Sequence[Tensor], names: Sequence[str]) -> Terms:
        """The terms of the backward pass."""
        return backward()

    def listen(self, wishes: Callable[[], Wishes]) -> Callable[[], Wishes]:
        """The wishes of the moment."""
        return wishes

    def together(
        self, compute: Callable[[], R], same: Sequence[Tensor | str] = (), what: str = "parameters"
    ) -> list[R]:
        """The one result."""
        return [compute()]

    def in_step(self) -> AbstractContextManager[None]:
        """A block of code."""
        return nullcontext()

    def first(self, compute: Callable[[], R]) -> R:
        """The result."""
        return compute()


ALONE = Alone()
