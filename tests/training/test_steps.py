"""A step is Adam on minus the bound, and a snapshot brings back everything that it changed."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from sodgp import DeepGPRegressor
from sodgp.errors import NumericalError, NumericalWarning
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.prepare import checked_data, prepare
from sodgp.linalg.draws import TapeDraws
from sodgp.training import run
from sodgp.training.steps import EagerStep, Snapshot


class Parabola(nn.Module):
    def __init__(self, start=3.0):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([start, -start]))
        self.frozen = nn.Parameter(torch.tensor(7.0), requires_grad=False)

    def terms(self):
        return {"fit": -self.w.square().sum(), "penalty": -self.w.abs().sum()}


def step_of(model, rate=0.1):
    return EagerStep(model, model.terms, rate)


def test_a_step_is_that_of_adam_on_minus_the_sum_of_the_terms():
    model, reference = Parabola(), Parabola()
    adam = torch.optim.Adam([reference.w], lr=0.1)
    step = step_of(model)
    for _ in range(5):
        step()
        adam.zero_grad()
        (-sum(reference.terms().values())).backward()
        adam.step()
    torch.testing.assert_close(model.w, reference.w)


def test_the_terms_are_those_before_the_step_without_a_gradient():
    terms = step_of(Parabola())()
    assert {name: value.item() for name, value in terms.items()} == {"fit": -18.0, "penalty": -6.0}
    assert not any(value.requires_grad for value in terms.values())


def test_only_what_needs_a_gradient_moves():
    model = Parabola()
    step = step_of(model)
    step()
    assert model.frozen == 7.0
    assert len(step.parameters) == 1


def test_the_rate_can_be_changed():
    model = Parabola()
    step = step_of(model)
    step.set_learning_rate(0.0)
    step()
    assert model.w.tolist() == [3.0, -3.0]


def test_a_bound_that_is_not_finite_leaves_the_parameters_alone():
    model = Parabola()
    step = EagerStep(model, lambda: {"fit": model.w.sum() * torch.nan}, 0.1)
    with pytest.raises(NumericalError, match="not finite"):
        step()
    assert model.w.tolist() == [3.0, -3.0]


@pytest.mark.parametrize("steps_before", [0, 3])
def test_a_snapshot_brings_back_parameters_and_optimiser(steps_before):
    model, reference = Parabola(), Parabola()
    step, undisturbed = step_of(model), step_of(reference)
    for _ in range(steps_before):
        step()
        undisturbed()
    good = Snapshot(step.parameters, step.optimizer)
    for _ in range(4):
        step()
    good.restore(step.parameters, step.optimizer)
    assert torch.equal(model.w, reference.w)
    for _ in range(4):
        step()
        undisturbed()
    torch.testing.assert_close(model.w, reference.w)


def test_every_step_advances_the_batch_first():
    calls = []
    model = Parabola()
    step = EagerStep(model, lambda: calls.append("objective") or model.terms(), 0.1, lambda: calls.append("advance"))
    step()
    assert calls == ["advance", "objective"]


def test_a_step_that_cannot_be_recorded_runs_plainly_with_a_warning(monkeypatch):
    class Device:
        """Only pretended: where there is no GPU a recording fails for certain."""

        type = "cuda"

    def refuse(*_):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(run, "CapturedStep", refuse)
    estimator = DeepGPRegressor().set_params(max_iter=1, subset_size=4, random_state=0)
    values = checked_data("estimator", np.linspace(0, 1, 12)[:, None], np.linspace(0, 1, 12))
    prepared = prepare(Configuration.from_estimator(estimator), values, seed=None, previous=None, plan=None)
    problem, settings, method = prepared.problem, prepared.settings, prepared.method
    model = method.build(problem.architecture, problem.data, torch.Generator())
    batcher = run.Batcher(problem.data, settings.batch_rows, [torch.Generator()])
    monkeypatch.setattr(run, "_generators", lambda seeds, device: [torch.Generator()])
    monkeypatch.setattr(run, "TapeDraws", lambda g, n, dtype, device: TapeDraws(g, n, dtype=dtype))
    with pytest.warns(NumericalWarning, match="not permitted when stream is capturing"):
        step = run.training_step(method, model, batcher, [0], dataclasses.replace(settings, device=Device()))
    assert isinstance(step, EagerStep)
