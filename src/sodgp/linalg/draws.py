"""Where standard normal numbers come from: fresh ones in training, fixed and shared ones in prediction.

Every random number of a fit passes through one of these objects. No global seed is read or set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["Draws", "FreshDraws", "PartOfDraws", "SharedDraws", "place_among_all"]

Numbers = Float[Tensor, "*replicates T rows width"]


@runtime_checkable
class Draws(Protocol):
    """A source of standard normal numbers for `n_samples` Monte Carlo samples.

    Examples
    --------
    >>> draws: Draws = FreshDraws(torch.Generator().manual_seed(0), n_samples=10)
    >>> draws.rest(rows=3, width=1).shape
    torch.Size([10, 3, 1])
    """

    n_samples: int

    def subset(self, rows: int, width: int) -> Numbers:
        """Numbers of shape [*replicates, T, rows, width] for the rows of the subset."""

    def rest(self, rows: int, width: int) -> Numbers:
        """Numbers that broadcast to [*replicates, T, rows, width], for the other rows."""


class FreshDraws:
    """Independent numbers at every call: training.

    Parameters
    ----------
    generators : torch.Generator or sequence of them
        A sequence adds a leading axis of replicates, each with its own generator: a model gets the same numbers alone
        and among others.
    n_samples : int
        Monte Carlo samples T.
    dtype, device
        Of the numbers.

    Examples
    --------
    >>> draws = FreshDraws(torch.Generator().manual_seed(0), n_samples=10)
    >>> draws.subset(rows=5, width=2).shape
    torch.Size([10, 5, 2])
    """

    def __init__(
        self,
        generators: torch.Generator | Sequence[torch.Generator],
        n_samples: int,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> None:
        self.generators, self.n_samples = generators, n_samples
        self.dtype, self.device = dtype, torch.device(device)

    def subset(self, rows: int, width: int) -> Numbers:
        """Fresh numbers of shape [*replicates, T, rows, width]."""
        shape = (self.n_samples, rows, width)
        if isinstance(self.generators, torch.Generator):
            return self._normal(shape, self.generators)
        return torch.stack([self._normal(shape, generator) for generator in self.generators])

    rest = subset

    def _normal(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        # In single precision first: enough for Monte Carlo noise, and five times faster.
        return torch.randn(shape, generator=generator, dtype=torch.float32, device=self.device).to(self.dtype)


class TapeDraws:
    """All numbers of a training step, drawn at once and handed out in the order in which the step asks for them.

    One call per replicate fills the tape for all layers, and the step itself holds no generator, so that it can be
    compiled. The first round is a rehearsal: it hands out zeros and notes the requests. Parameters as of `FreshDraws`.

    Where the rows of a step are divided among processes, each rehearses with all of them and draws the numbers of all.
    A request for fewer rows than at the rehearsal is then for those of `part`.
    """

    def __init__(
        self,
        generators: torch.Generator | Sequence[torch.Generator],
        n_samples: int,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> None:
        self.is_single = isinstance(generators, torch.Generator)
        self.generators = [generators] if isinstance(generators, torch.Generator) else list(generators)
        self.n_samples, self.dtype, self.device = n_samples, dtype, torch.device(device)
        self.plan: list[tuple[int, int]] | None = None
        self.part = slice(None)
        self._asked: list[tuple[int, int]] = []
        self._numbers: tuple[Tensor, ...] = ()
        self._next = 0

    def refill(self) -> tuple[Tensor, ...]:
        """Fresh numbers for one step, one tensor of shape [*replicates, T, rows, width] for each request."""
        return self.refill_from(self.generators)

    def refill_from(self, generators: Sequence[torch.Generator]) -> tuple[Tensor, ...]:
        """The same from as many other generators."""
        if self.plan is None:
            raise RuntimeError("a tape is refilled after its rehearsal: call finish_rehearsal first.")
        if not self.plan:
            return ()
        sizes = [self.n_samples * rows * width for rows, width in self.plan]
        # In single precision first, as in `FreshDraws`.
        parts = [torch.randn(sum(sizes), generator=g, dtype=torch.float32, device=self.device) for g in generators]
        flat = parts[0] if self.is_single else torch.stack(parts)
        pieces = zip(flat.to(self.dtype).split(sizes, -1), self.plan, strict=True)
        return tuple(piece.unflatten(-1, (self.n_samples, *shape)) for piece, shape in pieces)

    def load(self, numbers: tuple[Tensor, ...]) -> None:
        """Hand out these numbers from now on."""
        self._numbers, self._next = numbers, 0

    def finish_rehearsal(self) -> None:
        """Keep the requests made so far as the plan of every step."""
        self.plan = self._asked

    def subset(self, rows: int, width: int) -> Numbers:
        """The next numbers of the tape, [*replicates, T, rows, width]; zeros in the rehearsal."""
        if self.plan is None:
            self._asked.append((rows, width))
            leading = () if self.is_single else (len(self.generators),)
            return torch.zeros(*leading, self.n_samples, rows, width, dtype=self.dtype, device=self.device)
        self._next += 1
        numbers = self._numbers[self._next - 1]
        return numbers if numbers.shape[-2] == rows else numbers[..., self.part, :]

    rest = subset


class SharedDraws:
    """Numbers fixed by a seed, those of the rest shared by all rows: prediction.

    A row's prediction depends on that row alone, not on order, chunks or number of rows, and every sample is a smooth
    function of the input. Drawn on the CPU, so that all devices predict with the same numbers.

    Examples
    --------
    >>> draws = SharedDraws(seed=0, n_samples=10, dtype=torch.float64)
    >>> draws.rest(rows=1000, width=2).shape  # one number for all rows
    torch.Size([10, 1, 2])
    """

    def __init__(self, seed: int, n_samples: int, *, dtype: torch.dtype, device: torch.device | str = "cpu") -> None:
        self.seed, self.n_samples, self.dtype, self.device = seed, n_samples, dtype, torch.device(device)
        self._subset = torch.Generator().manual_seed(seed)
        # Two streams: the residual numbers do not move when the subset asks for more or fewer.
        self._rest = torch.Generator().manual_seed(seed ^ 0x5EED5EED)

    def subset(self, rows: int, width: int) -> Numbers:
        """Fixed numbers of shape [T, rows, width]."""
        return self._normal(rows, width, self._subset)

    def rest(self, rows: int, width: int) -> Numbers:
        """Fixed numbers of shape [T, 1, width], one for all rows."""
        return self._normal(1, width, self._rest)

    def _normal(self, rows: int, width: int, generator: torch.Generator) -> Tensor:
        numbers = torch.randn(self.n_samples, rows, width, generator=generator, dtype=torch.float64)
        return numbers.to(self.device, self.dtype)


class PartOfDraws:
    """Some of the samples of shared draws, with the numbers that they have among all: predictions in parts of samples.

    Parameters
    ----------
    whole : SharedDraws
        For this part alone, as each part asks for all numbers anew.
    first, last : int
        The samples from `first` to before `last`.

    Examples
    --------
    >>> part = PartOfDraws(SharedDraws(0, 10, dtype=torch.float64), 4, 6)
    >>> whole = SharedDraws(0, 10, dtype=torch.float64)
    >>> torch.equal(part.subset(3, 2), whole.subset(3, 2)[4:6])
    True
    """

    def __init__(self, whole: SharedDraws, first: int, last: int) -> None:
        self.whole, self.first, self.n_samples = whole, first, last - first
        self._asked: list[tuple[str, int, int]] = []

    def subset(self, rows: int, width: int) -> Numbers:
        """As of the whole."""
        self._asked.append(("subset", rows, width))
        return self._part(self.whole.subset(rows, width))

    def rest(self, rows: int, width: int) -> Numbers:
        """As of the whole."""
        self._asked.append(("rest", rows, width))
        return self._part(self.whole.rest(rows, width))

    def repeat_on(self, draws: SharedDraws) -> None:
        """Ask other draws for everything that this part was asked for, so that they go on where it stands."""
        for stream, rows, width in self._asked:
            getattr(draws, stream)(rows, width)

    def _part(self, numbers: Tensor) -> Tensor:
        # A view would keep all of them in memory.
        return numbers[self.first : self.first + self.n_samples].clone()


def place_among_all(draws: Draws) -> tuple[int, int]:
    """The number of the first sample of these draws, and that of all samples.

    Examples
    --------
    >>> whole = SharedDraws(0, 10, dtype=torch.float64)
    >>> place_among_all(whole), place_among_all(PartOfDraws(whole, 4, 6))
    ((0, 10), (4, 10))
    """
    return (draws.first, draws.whole.n_samples) if isinstance(draws, PartOfDraws) else (0, draws.n_samples)


class PositionDraws:
    """Numbers fixed by a seed, different for every position of a row: joint predictions that are smooth in the rows.

    The j-th row gets the same numbers whatever its value and however many rows follow, so that a joint draw over a few
    rows moves smoothly with each of them: common random numbers for an optimiser of the rows.

    Examples
    --------
    >>> one, two = (PositionDraws(0, 5, dtype=torch.float64).rest(rows, 3) for rows in (1, 2))
    >>> two.shape, torch.equal(two[:, :1], one)
    (torch.Size([5, 2, 3]), True)
    """

    def __init__(self, seed: int, n_samples: int, *, dtype: torch.dtype, device: torch.device | str = "cpu") -> None:
        self.seed, self.n_samples, self.dtype, self.device = seed, n_samples, dtype, torch.device(device)
        self._asked = [0, 0]

    def subset(self, rows: int, width: int) -> Numbers:
        """Fixed numbers of shape [T, rows, width]."""
        return self._normal(0, rows, width)

    def rest(self, rows: int, width: int) -> Numbers:
        """Fixed numbers of shape [T, rows, width], different for every row."""
        return self._normal(1, rows, width)

    def _normal(self, stream: int, rows: int, width: int) -> Tensor:
        # NumPy's generators fill an array from front to back: with rows first, more rows leave the first as they were.
        generator = np.random.default_rng([self.seed, stream, self._asked[stream]])
        self._asked[stream] += 1
        numbers = generator.standard_normal((rows, self.n_samples, width))
        return torch.from_numpy(numbers).to(self.device, self.dtype).transpose(0, 1)
