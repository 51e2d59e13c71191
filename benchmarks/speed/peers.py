"""GPyTorch's own deep GP (`benchmarks.paper.tutorial`), trained as its tutorial does.

Only the data type (float64) and the way to a batch differ: rows
are looked up in one tensor, which is faster than the tutorial's ``DataLoader``.
"""

from __future__ import annotations

from collections.abc import Callable

import gpytorch
import torch
from gpytorch.mlls import DeepApproximateMLL, VariationalELBO
from torch import Tensor

from benchmarks.paper.tutorial import TutorialDeepGP
from benchmarks.speed.ours import LEARNING_RATE
from benchmarks.speed.shapes import DTYPE, Shape
from sodgp.inference.contract import TrainingSet
from sodgp.training.batches import Batcher


def gpytorch_step(shape: Shape, data: TrainingSet, device: torch.device) -> Callable[[], Tensor]:
    """The whole step of GPyTorch's deep GP: batch, forward, backward, Adam; returns the loss, detached.

    Parameters
    ----------
    shape : Shape
    data : TrainingSet
        Its rest is the data, B rows of it a batch, as for our own DSVI.
    device : torch.device
    """
    with torch.random.fork_rng(devices=[]):
        # GPyTorch draws its initial values from the global generator.
        torch.manual_seed(0)
        model = TutorialDeepGP(list(shape.input_dims), shape.size).to(device, DTYPE)
    model.train()
    optimizer = torch.optim.Adam([{"params": model.parameters()}], lr=LEARNING_RATE)
    mll = DeepApproximateMLL(VariationalELBO(model.likelihood, model, shape.n_rest))
    batcher = Batcher(data, shape.batch, [torch.Generator().manual_seed(2)])

    def step() -> Tensor:
        batch = batcher.next()
        with gpytorch.settings.num_likelihood_samples(shape.n_samples):
            optimizer.zero_grad()
            loss = -mll(model(batch.X_b[0]), batch.y_b[0, :, 0])
            loss.backward()
            optimizer.step()
        return loss.detach()

    return step
