"""The data that a method trains on: subset and rest, a step's batch, and rows that stay in a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sodgp.system.mapped import MappedTable

__all__ = ["Batch", "MappedSet", "Rest", "Subset", "TrainingSet", "rest_of"]

# Rows that are looked at together, where all of them are looked at.
_BLOCK_ROWS = 50_000


@dataclass(frozen=True)
class TrainingSet:
    """The data of a fit in scaled units, split into subset and rest.

    Attributes
    ----------
    X_s, y_s : Tensor of shape [*replicates, M, D] and [*replicates, M, P]
    X_r, y_r : Tensor of shape [*replicates, N - M, D] and [*replicates, N - M, P]
    precision_r : Tensor of shape [*replicates, N - M, P], optional
        Where the noise of every row is known: the likelihood's noise variance over that of the row. Those of the
        subset are in the likelihood.
    weight_s, weight_r : Tensor of shape [*replicates, M, 1] and [*replicates, N - M, 1], optional
        How many observations each row stands for; both, or none for one each.

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> TrainingSet(X[:5], X[:5].sign(), X[5:], X[5:].sign()).n_rest
    15
    """

    X_s: Float[Tensor, "*replicates M D"]
    y_s: Float[Tensor, "*replicates M P"]
    X_r: Float[Tensor, "*replicates R D"]
    y_r: Float[Tensor, "*replicates R P"]
    precision_r: Float[Tensor, "*replicates R P"] | None = None
    weight_s: Float[Tensor, "*replicates M 1"] | None = None
    weight_r: Float[Tensor, "*replicates R 1"] | None = None

    @property
    def n_rest(self) -> int:
        """Rows outside the subset."""
        return self.X_r.shape[-2]

    @property
    def subset(self) -> Subset:
        """The rows of the subset."""
        return Subset(self.X_s, self.y_s, self.weight_s)

    @property
    def all_rows(self) -> Subset:
        """The subset, followed by the other rows."""
        X_r, y_r, _, weight_r = self.rest()
        weight = None if self.weight_s is None or weight_r is None else torch.cat([self.weight_s, weight_r], -2)
        return Subset(torch.cat([self.X_s, X_r], -2), torch.cat([self.y_s, y_r], -2), weight)

    def rest(self) -> Rest:
        """The rest."""
        return Rest(self.X_r, self.y_r, self.precision_r, self.weight_r)

    def rest_at(self, rows: Int[Tensor, "*replicates B"]) -> Rest:
        """Some rows of the rest, counted from 0."""
        index = rows.unsqueeze(-1)
        parts = TrainingSet.rest(self)
        X, y, *others = (None if t is None else _gathered(t, index) for t in parts)
        return Rest(cast(Tensor, X), cast(Tensor, y), *others)

    def batch(self, rest: Rest, scale: float, device: torch.device | None = None) -> Batch:
        """A step with these rows of the rest; with a device, there."""
        parts = self.X_s, self.y_s, rest.X, rest.y, rest.precision, self.weight_s, rest.weight
        X_s, y_s, X_b, y_b, *others = (None if t is None else t.to(device or t.device).unsqueeze(-3) for t in parts)
        return Batch(cast(Tensor, X_s), cast(Tensor, y_s), cast(Tensor, X_b), cast(Tensor, y_b), scale, *others)

    def in_order(self, chosen: Int[Tensor, " M"]) -> Iterator[tuple[Float[Tensor, "B D"], Float[Tensor, "B P"]]]:
        """X and y of all rows in their original order, in blocks, given the original row numbers of the subset."""
        ranked = chosen.sort()
        for numbers in torch.arange(len(chosen) + self.n_rest).split(_BLOCK_ROWS):
            before = torch.searchsorted(ranked.values, numbers)
            own = torch.searchsorted(ranked.values, numbers, right=True) > before
            X, y = (torch.zeros(len(numbers), t.shape[-1], dtype=t.dtype) for t in (self.X_s, self.y_s))
            X[~own], y[~own], *_ = self.rest_at((numbers - before)[~own])
            X[own], y[own] = (t[ranked.indices[before[own]]] for t in (self.X_s, self.y_s))
            yield X, y

    def to(self, device: torch.device | str) -> TrainingSet:
        """The same data on another device."""
        parts = (getattr(self, each.name) for each in fields(TrainingSet))
        return TrainingSet(*(None if part is None else part.to(device) for part in parts))  # type: ignore[arg-type]


class MappedSet(TrainingSet):
    """Rows of which those of a step are read from a file: `X_r` and `y_r` are all rows, those of the subset included.

    Parameters
    ----------
    X, y : MappedTable
        All rows in scaled units.
    n_rows : int
        The first of them are those of the fit.
    chosen : Tensor of shape [M]
        Which of them form the subset.
    """

    def __init__(self, X: MappedTable, y: MappedTable, n_rows: int, chosen: Int[Tensor, " M"]) -> None:
        X_all, y_all = X.tensor()[:n_rows], y.tensor()[:n_rows]
        super().__init__(X_all[chosen], y_all[chosen], X_all, y_all)
        # The class is frozen. Rows of the rest from the k-th of these numbers on have k + 1 rows of S in front of them.
        vars(self)["_skips"] = chosen.sort().values - torch.arange(len(chosen))
        vars(self)["_made_of"] = (X, y, n_rows, chosen)

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedSet, vars(self)["_made_of"]

    @property
    def n_rest(self) -> int:
        """Rows outside the subset."""
        return len(self.X_r) - len(self.X_s)

    def rest(self) -> Rest:
        """All rows of the rest, copied where there is a subset."""
        return self.rest_at(torch.arange(self.n_rest)) if len(self.X_s) else super().rest()

    def rest_at(self, rows: Int[Tensor, " B"]) -> Rest:
        """As in `TrainingSet`."""
        return super().rest_at(rows + torch.searchsorted(vars(self)["_skips"], rows, right=True))

    def to(self, device: torch.device | str) -> TrainingSet:
        """The rows of a processor stay in their file; a GPU has them all."""
        if torch.device(device).type == "cpu":
            return self
        X_r, y_r, *_ = self.rest()
        return TrainingSet(*(t.to(device) for t in (self.X_s, self.y_s, X_r, y_r)))


class Rest(NamedTuple):
    """Rows of the rest; relative precisions where the noise of every row is known, and weights where rows have some.

    Examples
    --------
    >>> Rest(torch.zeros(5, 2), torch.zeros(5, 1)).precision is None
    True
    """

    X: Float[Tensor, "*replicates B D"]
    y: Float[Tensor, "*replicates B P"]
    precision: Float[Tensor, "*replicates B P"] | None = None
    weight: Float[Tensor, "*replicates B 1"] | None = None


def _gathered(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(-2, index.expand(*index.shape[:-1], values.shape[-1]))


def rest_of(n_rows: int, chosen: Int[Tensor, " M"]) -> Int[Tensor, " R"]:
    """Numbers of the rows that are not chosen, in ascending order.

    Examples
    --------
    >>> rest_of(5, torch.tensor([3, 0]))
    tensor([1, 2, 4])
    """
    rest = torch.ones(n_rows, dtype=torch.bool)
    rest[chosen] = False
    return rest.nonzero().ravel()


class Batch(NamedTuple):
    """The data of one training step, every tensor with a sample axis of size 1.

    Attributes
    ----------
    X_s, y_s : Tensor of shape [*replicates, 1, M, D] and [*replicates, 1, M, P]
        The subset.
    X_b, y_b : Tensor of shape [*replicates, 1, B, D] and [*replicates, 1, B, P]
        Rows of the rest.
    scale : float
        (N - M) / B, by which sums over the batch are multiplied.
    precision_b : Tensor of shape [*replicates, 1, B, P], optional
        Relative precisions of the batch, where the noise of every row is known.
    weight_s, weight_b : Tensor of shape [*replicates, 1, M, 1] and [*replicates, 1, B, 1], optional
        How many observations each row stands for; both, or none for one each. They do not change `scale`: a batch's
        weighted sum times (N - M) / B is an unbiased estimate of that over the rest.

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> rows = X[None]  # the sample axis in front
    >>> Batch(rows[:, :5], rows[:, :5].sign(), rows[:, 5:], rows[:, 5:].sign(), scale=1.0).X_b.shape
    torch.Size([1, 15, 1])
    """

    X_s: Float[Tensor, "*replicates 1 M D"]
    y_s: Float[Tensor, "*replicates 1 M P"]
    X_b: Float[Tensor, "*replicates 1 B D"]
    y_b: Float[Tensor, "*replicates 1 B P"]
    scale: float
    precision_b: Float[Tensor, "*replicates 1 B P"] | None = None
    weight_s: Float[Tensor, "*replicates 1 M 1"] | None = None
    weight_b: Float[Tensor, "*replicates 1 B 1"] | None = None

    def of_rows(self, part: slice) -> Batch:
        """The same step with some rows of the rest; their sums have the scale that those of all rows have."""
        names = [name for name in ("X_b", "y_b", "precision_b", "weight_b") if getattr(self, name) is not None]
        return self._replace(**{name: getattr(self, name)[..., part, :] for name in names})


class Subset(NamedTuple):
    """Inputs [M, D], targets [M, P] and weights [M, 1] of rows that a model is conditioned on, in scaled units.

    Examples
    --------
    >>> Subset(torch.zeros(5, 2), torch.zeros(5, 1)).X.shape
    torch.Size([5, 2])
    """

    X: Float[Tensor, "M D"]
    y: Float[Tensor, "M P"]
    weight: Float[Tensor, "M 1"] | None = None
