"""The processes of a process group of `torch.distributed`, which train one model.

Every process holds all rows and draws the same batches and the same Monte Carlo numbers. It computes the sums over its
own rows of a batch, and an equal share of every other term. One sum over processes carries the gradient, the terms and
all decisions: the parameters stay the same everywhere, and all processes end together.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from sodgp.errors import ConfigurationError, NumericalError, RanksError, SodgpError
from sodgp.inference.contract import Batch, Terms
from sodgp.training.distributed.contract import ALONE, Ranks, Wishes

__all__ = ["Group", "patience", "ranks_here"]

R = TypeVar("R")

PATIENCE = "SODGP_RANKS_TIMEOUT"
"""Environment variable: seconds to wait for a process that does not answer."""

_USUAL_PATIENCE = 120.0
# Within this time after one process has lost another, all that are left say that they are there.
_ROLL_CALL = 5.0
_LONG = "in the time-out of the process group"


class _Outcome(NamedTuple):
    """What a process tells the others: its result, or its error, and the digest of what must be the same."""

    result: Any = None
    error: str = ""
    kind: type[SodgpError] = RanksError
    is_interrupt: bool = False
    digest: str = ""


class Group:
    """The processes of a process group of `torch.distributed`.

    A process that has gone, or does not answer within `patience` seconds, is a RanksError that names it. Before
    training, where files are read, the time-out is that of the process group that was initialised.
    """

    def __init__(self, group: dist.ProcessGroup, patience: float) -> None:
        self._group, self._patience = group, patience
        self.rank, self.count = dist.get_rank(group), dist.get_world_size(group)
        self._wishes: Callable[[], Wishes] = lambda: (False, False)
        self._heard = (False, False)
        # The last error that all processes have raised.
        self._shared: BaseException | None = None

    def part(self, n_rows: int) -> slice:
        """As in `Ranks`: consecutive rows, at most one more than any other process has."""
        if n_rows < self.count:
            raise ConfigurationError(
                f"a step has {n_rows} rows outside the subset, too few for {self.count} processes, each of which needs"
                " one: use fewer processes, or a larger batch_size."
            )
        return slice(n_rows * self.rank // self.count, n_rows * (self.rank + 1) // self.count)

    def rows(self, batch: Batch) -> Batch:
        """As in `Ranks`."""
        return batch.of_rows(self.part(batch.X_b.shape[-2]))

    def share(self, terms: Terms, sums_over_rows: Sequence[str]) -> Terms:
        """As in `Ranks`: sums over its rows as they are, and of all else the same part as every other process."""
        return {name: value if name in sums_over_rows else value / self.count for name, value in terms.items()}

    def summed(self, backward: Callable[[], Terms], parameters: Sequence[Tensor], names: Sequence[str]) -> Terms:
        """As in `Ranks`, in one sum over processes."""
        terms, failure = None, None
        try:
            terms = backward()
        except BaseException as error:
            failure = error
        like = parameters[0]
        # Who has failed, what is wished, terms, gradients.
        head = torch.zeros(self.count + 2, dtype=like.dtype, device=like.device)
        head[self.rank] = float(failure is not None)
        head[self.count], head[self.count + 1] = self._wishes()
        values = head.new_zeros(len(names))
        if terms is not None:
            values = torch.stack([terms[name] for name in names]).to(head)
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([head, values, *(gradient.reshape(-1) for gradient in gradients)])
        with self._answered(self._group):
            dist.all_reduce(flat, group=self._group)
        head, values, *pieces = flat.split([len(head), len(values), *(g.numel() for g in gradients)])
        failed, *wishes = head.split([self.count, 1, 1])
        self._heard = bool(wishes[0] > 0), bool(wishes[1] > 0)
        if bool((failed > 0).any()):
            self._exchanged(_outcome_of(failure), failure, self._group)
        for parameter, piece in zip(parameters, pieces, strict=True):
            if parameter.grad is not None:
                parameter.grad.copy_(piece.view_as(parameter))
        return dict(zip(names, values.unbind(), strict=True))

    def listen(self, wishes: Callable[[], Wishes]) -> Callable[[], Wishes]:
        """As in `Ranks`."""
        self._wishes = wishes
        return lambda: self._heard

    def together(
        self, compute: Callable[[], R], same: Sequence[Tensor | str] = (), what: str = "parameters"
    ) -> list[R]:
        """As in `Ranks`."""
        return self._results(compute, self._group, same, what)

    @contextmanager
    def in_step(self) -> Iterator[None]:
        """As in `Ranks`."""
        failure: BaseException | None = None
        try:
            yield
        except BaseException as error:
            if error is self._shared:
                raise
            failure = error
        self._exchanged(_outcome_of(failure), failure, dist.group.WORLD)

    def first(self, compute: Callable[[], R]) -> R:
        """As in `Ranks`."""
        mine: Callable[[], Any] = compute if self.rank == 0 else lambda: None
        return self._results(mine, dist.group.WORLD)[0]

    def _results(
        self,
        compute: Callable[[], R],
        group: dist.ProcessGroup | None,
        same: Sequence[Tensor | str] = (),
        what: str = "",
    ) -> list[R]:
        """As `together`, in one of the two groups."""
        failure: BaseException | None = None
        try:
            mine = _Outcome(compute(), digest=_digest(same))
        except BaseException as error:
            if error is self._shared:
                raise
            failure, mine = error, _outcome_of(error)
        outcomes = self._exchanged(mine, failure, group)
        different = [str(i) for i, outcome in enumerate(outcomes) if outcome.digest != outcomes[0].digest]
        if different:
            self._shared = RanksError(
                f"the {what} of rank {', '.join(different)} differ from those of rank 0 of {self.count}: every process"
                " needs the same data, options, program and kind of machine. Continue from the last checkpoint, if"
                " there is one, or start anew."
            )
            raise self._shared
        return [outcome.result for outcome in outcomes]

    def _exchanged(
        self, mine: _Outcome, failure: BaseException | None, group: dist.ProcessGroup | None
    ) -> list[_Outcome]:
        """The outcomes of all; the process's own error if it has one, or that of the first process that has."""
        outcomes: list[Any] = [None] * self.count
        with self._answered(group):
            dist.all_gather_object(outcomes, mine, group=group)
        if failure is not None:
            self._shared = failure
            raise failure
        found = [(rank, outcome) for rank, outcome in enumerate(outcomes) if outcome.error]
        if not found:
            return outcomes
        rank, outcome = found[0]
        message = f"on rank {rank} of {self.count}: {outcome.error}"
        self._shared = KeyboardInterrupt() if outcome.is_interrupt else outcome.kind(message)
        raise self._shared

    @contextmanager
    def _answered(self, group: dist.ProcessGroup | None) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            within = f"for {self._patience:g} s ({PATIENCE})" if group is self._group else _LONG
            self._shared = _lost(self._group.group_name, self.rank, self.count, within)
            raise self._shared from error


@contextmanager
def ranks_here() -> Iterator[Ranks]:
    """The processes of the process group in which this one is; this one alone where there is no group.

    Examples
    --------
    >>> with ranks_here() as ranks:
    ...     ranks.count
    1
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        yield ALONE
        return
    seconds = patience()
    try:
        # Processes may arrive at different times, for which the group has a time-out of its own.
        dist.barrier()
        group = dist.new_group(timeout=timedelta(seconds=seconds))
    except RuntimeError as error:
        raise _lost("arriving", dist.get_rank(), dist.get_world_size(), _LONG) from error
    assert isinstance(group, dist.ProcessGroup)
    try:
        yield Group(group, seconds)
    finally:
        # A group that has lost a process may not close.
        with suppress(RuntimeError):
            dist.destroy_process_group(group)


def patience() -> float:
    """Seconds to wait for a process that does not answer."""
    given = os.environ.get(PATIENCE, "")
    try:
        seconds = float(given or _USUAL_PATIENCE)
    except ValueError:
        seconds = 0.0
    if not seconds > 0.0:
        raise ConfigurationError(f"{PATIENCE}={given!r} must be a number of seconds.")
    return seconds


def _lost(name: str, rank: int, count: int, within: str) -> RanksError:
    """The error that names the processes that have gone."""
    present: set[int] = set()
    # In a thread that may be left behind: where the network is cut, the store itself does not answer.
    roll = threading.Thread(target=_call_roll, args=(f"sodgp/{name}", rank, count, present), daemon=True)
    roll.start()
    roll.join(_ROLL_CALL)
    gone = [str(other) for other in range(count) if other not in present and other != rank]
    return RanksError(
        f"rank {', '.join(gone) or '?'} of {count} has gone, or did not answer {within}: what it printed itself says"
        " why. Training ends in all processes; start them again, and it goes on from a checkpoint (checkpoint=... and"
        " resume=True, or --checkpoint and --resume), if there is one."
    )


def _call_roll(name: str, rank: int, count: int, present: set[int]) -> None:
    """Say that this process is there, and note which others do until they all have, or the store fails."""
    with suppress(RuntimeError):
        store = dist.distributed_c10d._get_default_store()
        store.set(f"{name}/{rank}", "here")
        while len(present) < count:
            present |= {other for other in range(count) if store.check([f"{name}/{other}"])}
            time.sleep(0.05)


def _outcome_of(error: BaseException | None) -> _Outcome:
    if error is None:
        return _Outcome()
    text = str(error) if isinstance(error, NumericalError) else f"{type(error).__name__}: {error}"
    kind = NumericalError if isinstance(error, NumericalError) else RanksError
    return _Outcome(error=text, kind=kind, is_interrupt=isinstance(error, KeyboardInterrupt))


def _digest(values: Sequence[Tensor | str]) -> str:
    digest = hashlib.sha256()
    for value in values:
        # Without a copy: rows of a stream are in a file, and more than memory holds.
        bytes_of = value.encode() if isinstance(value, str) else value.detach().cpu().contiguous().numpy().data
        digest.update(bytes_of)
    return digest.hexdigest()
