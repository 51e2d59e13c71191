"""The contract of a subset selector, and the code that the selectors share.

A selector picks the rows of the training data that become the subset S. It is a small frozen dataclass of its options,
without state, and takes every random number from the generator that it is given.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Protocol, runtime_checkable

import torch
from gpytorch.kernels import Kernel, RBFKernel
from jaxtyping import Float, Int64
from torch import Generator, Tensor

from sodgp.errors import ConfigurationError, InputError

Rows = Float[Tensor, "N D"]
Targets = Float[Tensor, "N P"]
Weights = Float[Tensor, " N"]
Chosen = Int64[Tensor, " M"]

CHUNK_ELEMENTS = 1_000_000
"""Numbers in the widest temporary array of one chunk of rows (8 MB in float64)."""


@runtime_checkable
class Selector(Protocol):
    """Anything that picks a subset of the rows of X.

    Examples
    --------
    >>> from sodgp.selectors import KMeans
    >>> selector: Selector = KMeans()
    >>> X = torch.tensor([[0.0], [0.1], [5.0]], dtype=torch.float64)
    >>> selector.select(X, None, 2, None, torch.Generator().manual_seed(0)).shape
    torch.Size([2])
    """

    def select(self, X: Rows, y: Targets | None, size: int, kernel: Kernel | None, generator: Generator) -> Chosen:
        """Pick ``size`` different rows of ``X``; their numbers, on its device.

        Parameters
        ----------
        X, y : Tensor, shape [N, D] and [N, P]
            Standardised, float64. A selector may ignore the targets, which may be None.
        size : int
            Rows wanted, M. With ``size >= N`` the answer is every row in its own order.
        kernel : gpytorch.kernels.Kernel or None
            Kernel over the rows of ``X``; None: a unit-variance RBF with lengthscale sqrt(D). A selector may ignore it.
        generator : torch.Generator
            On the CPU; the only source of randomness.

        Raises
        ------
        InputError
            If ``X`` is empty, not finite or not two-dimensional.
        ConfigurationError
            If ``size`` is below one.
        """


@runtime_checkable
class WeightedSelector(Selector, Protocol):
    """A selector whose choice depends on how often rows count. Others choose among rows that count once."""

    def select_weighted(
        self, X: Rows, y: Targets | None, size: int, kernel: Kernel | None, generator: Generator, weight: Weights
    ) -> Chosen:
        """As `select`, for rows that count as often as their positive weights, [N], say."""


def selected(
    selector: Selector, X: Rows, y: Targets | None, size: int, generator: Generator, weight: Tensor | None = None
) -> Chosen:
    """The choice of a selector with its default kernel; by `weight` [N, 1] where there is one and it can be used."""
    if weight is None or not isinstance(selector, WeightedSelector):
        return selector.select(X, y, size, None, generator)
    return selector.select_weighted(X, y, size, None, generator, weight[:, 0].to(X))


class RowSelector(ABC):
    """Base of the library's selectors: the checks of the arguments, and all rows where no choice is left.

    `takes_any_number` says whether time and memory allow many millions of rows; others get a random part of them.
    """

    takes_any_number: ClassVar[bool] = False

    def select(self, X: Rows, y: Targets | None, size: int, kernel: Kernel | None, generator: Generator) -> Chosen:
        """As in `Selector`."""
        check_request(X, y, size)
        return all_rows(X) if size >= len(X) else self.pick(X, size, kernel, generator)

    @abstractmethod
    def pick(self, X: Rows, size: int, kernel: Kernel | None, generator: Generator) -> Chosen:
        """The choice of `select`, whose arguments are checked: fewer rows than X has."""


def check_request(X: Tensor, y: Tensor | None, size: int) -> None:
    """Raise InputError for rows that `check_rows` refuses or too few targets, ConfigurationError for a size below 1."""
    check_rows(X)
    if y is not None and y.shape[0] != X.shape[0]:
        raise InputError(f"X has {X.shape[0]} rows but y has {y.shape[0]}; give one target row per input row.")
    if size < 1:
        raise ConfigurationError(f"The subset size is {size}; ask for at least one row.")


def check_rows(X: Tensor) -> None:
    """Raise InputError unless ``X`` is a finite [N, D] tensor with at least one row."""
    if X.ndim != 2 or X.shape[0] == 0:
        raise InputError(f"A subset is selected from X of shape [N, D] with N >= 1, got {list(X.shape)}.")
    # A sum is not finite as soon as one entry is not, and needs no second array of the size of X.
    if not bool(torch.isfinite(X.sum())) and not bool(torch.isfinite(X).all()):
        row = int((~torch.isfinite(X)).any(1).nonzero()[0])
        raise InputError(f"Row {row} of X holds NaN or infinity; remove or impute such rows before selecting a subset.")


def check_at_least(selector: Selector, minimum: int, *names: str) -> None:
    """Raise ConfigurationError unless these options of a selector are at least `minimum`."""
    for name in names:
        value = getattr(selector, name)
        if value < minimum:
            raise ConfigurationError(f"{type(selector).__name__}: {name} is {value}; it must be at least {minimum}.")


def all_rows(X: Rows) -> Int64[Tensor, " N"]:
    """Every row number in order: the answer when the subset is as large as the data."""
    return torch.arange(X.shape[0], device=X.device)


def kernel_or_default(kernel: Kernel | None, X: Rows) -> Kernel:
    """Return ``kernel``, or for None a unit-variance RBF with lengthscale sqrt(D) on the device of ``X``."""
    if kernel is not None:
        return kernel
    default = RBFKernel().to(device=X.device, dtype=torch.float64)
    default.lengthscale = math.sqrt(max(1, X.shape[1]))
    return default


def row_chunks(n_rows: int, width: int) -> Iterator[slice]:
    """Slices that cover all rows, of about ``CHUNK_ELEMENTS`` numbers each when a row makes ``width`` numbers."""
    step = max(64, CHUNK_ELEMENTS // max(1, width))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def take_distinct(X: Rows, order: Int64[Tensor, " K"], size: int) -> Chosen:
    """The first ``size`` of the row numbers in ``order`` whose rows differ in value.

    A row that repeats the values of an earlier one would make the kernel matrix of the subset singular, so repeats are
    taken (in their order) only when nothing else is left. Cost: O(size D) where repeats are few, O(K D) at most.
    """
    seen: set[bytes] = set()
    chosen: list[int] = []
    repeats: list[int] = []
    for block in order.split(max(size, 1024)):
        rows = (X[block].detach() + 0.0).cpu().numpy()  # + 0.0 makes -0.0 and 0.0 the same bytes
        for index, row in zip(block.tolist(), rows, strict=True):
            key = row.tobytes()
            (repeats if key in seen else chosen).append(index)
            seen.add(key)
            if len(chosen) == size:
                return torch.tensor(chosen, device=X.device)
    return torch.tensor((chosen + repeats)[:size], device=X.device)
