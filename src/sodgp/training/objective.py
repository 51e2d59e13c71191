"""The objective of a step as a function of nothing: it looks at the present batch and takes fresh numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from sodgp.draws import TapeDraws
from sodgp.inference.base import Inference, Terms
from sodgp.model import DeepGP
from sodgp.training.batches import Batcher


class Objective:
    """Named terms of an inference method at the present parameters, batch and a fresh tape of random numbers.

    Parameters
    ----------
    inference : Inference
    model : DeepGP
    batcher : Batcher
    draws : TapeDraws
        New; it is rehearsed here.
    compile : bool
        Let PyTorch's compiler fuse the operations between the matrix products. It takes 10 to 60 seconds once, and
        pays in long runs.
    """

    def __init__(
        self, inference: Inference, model: DeepGP, batcher: Batcher, draws: TapeDraws, *, compile: bool = False
    ) -> None:
        self.inference, self.model, self.batcher, self.draws = inference, model, batcher, draws
        with torch.no_grad():
            inference.terms(model, batcher.batch(), draws)
        draws.finish_rehearsal()
        self._terms = torch.compile(self._plain, dynamic=False, fullgraph=True) if compile else self._plain

    def __call__(self) -> Terms:
        """The terms, each of shape [*replicates]."""
        return self._terms(*self.draws.refill())

    def fall_back(self) -> bool:
        """Give up the compiler; whether there was one."""
        was_compiled = self._terms != self._plain
        self._terms = self._plain
        return was_compiled

    def _plain(self, *numbers: Tensor) -> Terms:
        self.draws.load(numbers)
        return self.inference.terms(self.model, self.batcher.batch(), self.draws)
