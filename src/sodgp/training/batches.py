"""Minibatches of the rest: no row of the subset is ever in one, so no row counts twice."""

from __future__ import annotations

import torch
from torch import Tensor

from sodgp.inference.base import Batch, TrainingSet


class Batcher:
    """Batches without replacement, reshuffled when a pass is over; the whole rest at once where it fits.

    Parameters
    ----------
    data : TrainingSet
    batch_rows : int
        Rows of the rest in a batch.
    generators : list of torch.Generator
        One for each replicate (one without replicates).
    """

    def __init__(self, data: TrainingSet, batch_rows: int, generators: list[torch.Generator]) -> None:
        self.data = data
        self.batch_rows = min(batch_rows, data.n_rest)
        self.generators = generators
        self.scale = data.n_rest / self.batch_rows if self.batch_rows else 0.0
        self._order: Tensor | None = None
        self._position = 0

    @property
    def is_full(self) -> bool:
        """Whether every batch is the whole rest."""
        return self.batch_rows == self.data.n_rest

    def rows(self) -> Tensor:
        """Indices of the next batch, [*replicates, B], on the CPU; a pass's last incomplete batch is dropped."""
        if self._order is None or self._position + self.batch_rows > self.data.n_rest:
            orders = [torch.randperm(self.data.n_rest, generator=generator) for generator in self.generators]
            self._order = torch.stack(orders) if self.data.X_r.dim() > 2 else orders[0]
            self._position = 0
        start, self._position = self._position, self._position + self.batch_rows
        return self._order[..., start : self._position]

    def batch(self, rows: Tensor | None) -> Batch:
        """The batch with those rows of the rest; all of it for None."""
        data = self.data
        X_r, y_r = data.X_r, data.y_r
        if rows is not None:
            index = rows.to(X_r.device).unsqueeze(-1)
            X_r, y_r = (t.gather(-2, index.expand(*index.shape[:-1], t.shape[-1])) for t in (X_r, y_r))
        return Batch(*(t.unsqueeze(-3) for t in (data.X_s, data.y_s, X_r, y_r)), scale=self.scale)

    def next(self) -> Batch:
        """The next batch."""
        return self.batch(None if self.is_full else self.rows())
