"""The step of a fit by sampling, and draws after its burn-in."""

import pytest
import torch

from sodgp.errors import SamplerDivergedError
from sodgp.inference.contract import TrainingSet
from sodgp.inference.sghmc import SGHMC
from sodgp.linalg.draws import FreshDraws
from sodgp.model.architecture import Architecture
from sodgp.training.batches import Batcher
from sodgp.training.loop import train
from sodgp.training.sampling.posterior import collect
from sodgp.training.sampling.step import SamplingStep
from sodgp.training.steps import Schedule


def step_for(max_iter, **options):
    X = torch.linspace(-1, 1, 24, dtype=torch.float64)[:, None]
    data = TrainingSet(X[::6], X[::6].sin(), X[1::2], X[1::2].sin())
    method = SGHMC(**options)
    model = method.build(Architecture(1, 1, 4, []), data, torch.Generator().manual_seed(0))
    draws = FreshDraws(torch.Generator().manual_seed(1), method.n_chains, dtype=torch.float64)
    batcher = Batcher(data, 100, [torch.Generator()])
    return SamplingStep(model, method, batcher, draws, Schedule(0.01, "constant", max_iter))


def test_the_step_size_is_halved_as_often_as_the_learning_rate():
    step = step_for(10, step_size=0.02)
    step.set_learning_rate(0.01 / 4)
    assert float(step.step_size) == pytest.approx(0.005)


def test_burn_in_first_tries_smaller_steps():
    step = step_for(60, step_size=8.0)
    (history,) = train(step, step.model, step.schedule)
    assert history.rollbacks > 0
    assert float(step.step_size) == pytest.approx(8.0 * 0.5**history.rollbacks)


def test_a_sampler_that_diverges_after_burn_in_is_reported():
    step = step_for(40, n_posterior_samples=10, thinning=5)
    train(step, step.model, step.schedule)
    step.model.requires_grad_(False)
    step.step_size.mul_(1e9)
    with pytest.raises(SamplerDivergedError, match="after burn-in"):
        collect(step)
