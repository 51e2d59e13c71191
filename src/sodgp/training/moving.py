"""What a step changes beside the parameters: buffers that move to a fixed point."""

from __future__ import annotations

import torch
from torch import Tensor

from sodgp.inference.contract import Inference
from sodgp.linalg.draws import TapeDraws
from sodgp.model.deep_gp import DeepGP
from sodgp.training.batches import Batcher

__all__ = ["Moving"]


class Moving:
    """The buffers of a model that its method moves after every step of the optimiser; often none.

    Random numbers come from a tape of their own, `draws`, which is rehearsed here: without buffers it stays empty, and
    a fit has the same random numbers as if there were no such thing.
    """

    def __init__(self, inference: Inference, model: DeepGP, batcher: Batcher, draws: TapeDraws) -> None:
        self.inference, self.model, self.batcher, self.draws = inference, model, batcher, draws
        self.buffers = [buffer for buffer, _ in self._moves(0.0)]
        draws.finish_rehearsal()

    @torch.no_grad()
    def __call__(self, pace: Tensor | float) -> None:
        """Move the buffers, in place."""
        if self.buffers:
            self.draws.load(self.draws.refill())
            for buffer, value in self._moves(pace):
                buffer.copy_(value)

    def _moves(self, pace: Tensor | float) -> list[tuple[Tensor, Tensor]]:
        return self.inference.moves(self.model, self.batcher.batch(), self.draws, pace)
