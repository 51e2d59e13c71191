"""Minibatches of the rest: no row of the subset is ever in one, so no row counts twice."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sodgp.inference.contract import Batch, TrainingSet


class Batcher:
    """Batches without replacement, reshuffled when a pass is over; the whole rest at once where it fits.

    `advance` chooses the next rows, `batch` looks them up. Their numbers are kept in one fixed tensor on the device, so
    that a recorded step sees new rows at every replay. `generators` are on the CPU, one for each replicate. `order` has
    the rows of the present pass [*replicates, N - M], None before the first batch; the first `position` were used.
    """

    def __init__(self, data: TrainingSet, batch_rows: int, generators: Sequence[torch.Generator]) -> None:
        self.data = data
        self.n_rest = data.n_rest
        self.batch_rows = min(batch_rows, self.n_rest)
        self.generators = generators
        self.scale = self.n_rest / self.batch_rows if self.batch_rows else 0.0
        self.is_full = self.batch_rows == self.n_rest
        shape = (*data.X_r.shape[:-2], self.batch_rows)
        self._rows = torch.zeros(shape, dtype=torch.int64, device=data.X_r.device)
        self.order: Tensor | None = None
        self.position = 0

    def advance(self) -> None:
        """Choose the rows of the next batch; a pass's last, incomplete batch is dropped."""
        if self.is_full:
            return
        if self.order is None or self.position + self.batch_rows > self.n_rest:
            orders = [torch.randperm(self.n_rest, generator=generator) for generator in self.generators]
            order = torch.stack(orders) if self.data.X_r.dim() > 2 else orders[0]
            self.order, self.position = order.to(self._rows.device), 0
        start, self.position = self.position, self.position + self.batch_rows
        self._rows.copy_(self.order[..., start : self.position])

    def batch(self) -> Batch:
        """Look up the rows of the present batch, every tensor with the sample axis in place."""
        data = self.data
        return data.batch(data.rest() if self.is_full else data.rest_at(self._rows), self.scale)

    def resume(self, order: Tensor | None, position: int) -> None:
        """Continue a pass through the rows in this order after `position` of them; None begins a new pass."""
        self.order, self.position = None if order is None else order.to(self._rows.device), position

    def next(self) -> Batch:
        """Choose the next rows and look them up."""
        self.advance()
        return self.batch()
