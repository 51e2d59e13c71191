"""Gradients that are not finite stay out of Adam, and every safeguard that acts is counted and shown."""

import numpy as np
import pytest
import torch
from torch import nn

from sodgp import DeepGPRegressor
from sodgp.errors import CholeskyError, GradientError, NumericalError
from sodgp.estimator.describe import describe
from sodgp.linalg.cholesky import Climbs, Jitter, cholesky, counting
from sodgp.training.history import History
from sodgp.training.loop import train
from sodgp.training.sampling.step import SamplingStep
from sodgp.training.steps import EagerStep, GuardedAdam, Schedule

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(30)


def two_steps(gradient, dtype=torch.float64, *, waits=True):
    """Adam after one good step, and the second's gradient in place."""
    parameters = [nn.Parameter(torch.ones(3, dtype=dtype)), nn.Parameter(torch.ones(2, dtype=dtype))]
    optimizer = GuardedAdam(parameters, 0.1)
    optimizer.waits = waits
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    parameters[1].grad[0] = gradient
    return parameters, optimizer


def content(parameters, optimizer):
    states = [value.clone() for p in parameters for value in optimizer.state[p].values()]
    return [*(p.detach().clone() for p in parameters), *states]


@pytest.mark.parametrize(
    ("gradient", "dtype"),
    [
        (np.nan, torch.float64),
        (np.inf, torch.float64),
        (-np.inf, torch.float32),
        (1e200, torch.float64),  # finite, but its square is not: Adam would never move again
        (1e25, torch.float32),
    ],
)
@pytest.mark.parametrize("waits", [True, False])
def test_a_bad_gradient_changes_nothing(gradient, dtype, waits):
    parameters, optimizer = two_steps(gradient, dtype, waits=waits)
    before = content(parameters, optimizer)
    if waits:
        with pytest.raises(GradientError, match="gradient is not finite"):
            optimizer.step()
    else:  # as on a GPU, where a recorded step cannot raise
        optimizer.step()
        optimizer.step()
        assert (optimizer.look(), optimizer.look()) == (2, 0)
    assert all(map(torch.equal, before, content(parameters, optimizer)))
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert all(bool((p < 0.9).all()) for p in parameters)


@pytest.mark.parametrize("waits", [True, False])
def test_good_gradients_make_the_steps_of_plain_adam(waits):
    ours, optimizer = two_steps(2.0, waits=waits)
    optimizer.step()
    theirs = [nn.Parameter(torch.ones_like(p)) for p in ours]
    plain = torch.optim.Adam(theirs, lr=0.1, fused=True)
    for step in range(2):
        for parameter in theirs:
            parameter.grad = torch.ones_like(parameter)
        if step:
            theirs[1].grad[0] = 2.0
        plain.step()
    assert all(map(torch.equal, ours, theirs))


def test_a_gradient_that_a_gpu_left_out_rolls_training_back():
    class Line(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.calls = nn.Parameter(torch.tensor(100.0, dtype=torch.float64)), 0

        def terms(self):
            self.calls += 1
            bad = torch.sqrt(0.0 * self.w) if self.calls == 60 else 0.0  # zero, with an infinite slope
            return {"fit": -self.w.abs() + bad}

    model = Line()
    step = EagerStep(model, model.terms, 1.0)
    step.optimizer.waits = False
    (history,) = train(step, model, Schedule(1.0, "constant", 100))
    assert (history.bad_gradients, history.rollbacks) == (1, 1)
    assert model.w.item() == pytest.approx(100.0 - 49.0 - 0.5 * 51, abs=0.1)


# ----- counts


def test_matrices_with_more_jitter_are_counted_by_whoever_counts():
    K = torch.stack([torch.eye(3, dtype=torch.float64), torch.ones(3, 3, dtype=torch.float64) - 1e-9 * torch.eye(3)])
    climbs, others = Climbs(), Climbs()
    with counting(others):
        with counting(climbs):
            cholesky(K, Jitter(1e-12))
            cholesky(K, Jitter(1e-6))
        assert (climbs.count, others.count) == (1, 0)
        cholesky(K, Jitter(1e-12))
    assert others.count == 1
    cholesky(K, Jitter(1e-12))
    assert (climbs.count, others.count) == (1, 1)


def test_a_fit_counts_its_climbs_and_the_summary_says_so():
    rows, targets = np.repeat(X[:5], 6, axis=0), np.repeat(Y[:5], 6)
    options = {"subset_size": 20, "n_samples": 2, "n_predict_samples": 4, "max_iter": 3, "random_state": 0}
    model = DeepGPRegressor().set_params(dtype="float32", tuning__jitter=1e-9, **options).fit(rows, targets)
    assert model.history_.jitter_climbs > 0
    about = describe(model)
    assert about["jitter_climbs"] == model.history_.jitter_climbs
    assert about["safeguards"].endswith("matrices with more jitter; dtype='float64' may need none")
    clean = DeepGPRegressor().set_params(**options).fit(X, Y)
    assert (clean.history_.jitter_climbs, clean.history_.bad_gradients) == (0, 0)
    assert describe(clean)["safeguards"] == "none needed"


def test_the_history_says_in_words_what_acted():
    history = History(rollbacks=2, jitter_climbs=3, bad_gradients=1)
    words = "2 roll-backs, each with half the step, 3 matrices with more jitter, 1 gradients that were not finite"
    assert history.safeguards() == words


def sampler(**options):
    small = {
        "max_iter": 20,
        "subset_size": 8,
        "inference__n_posterior_samples": 6,
        "inference__thinning": 2,
        "learning_rate": 0.01,
    }
    return DeepGPRegressor().set_params(inference="sghmc", random_state=0, n_predict_samples=4, **{**small, **options})


@pytest.mark.parametrize("error", [NumericalError("mine"), CholeskyError("mine", condition=1e17)])
def test_a_failure_after_burn_in_halves_the_samplers_step_and_counts(monkeypatch, error):
    honest, calls = SamplingStep.sample_frozen, []

    def sample_frozen(step):
        calls.append(float(step.step_size))
        if len(calls) == 5:
            raise error
        return honest(step)

    monkeypatch.setattr(SamplingStep, "sample_frozen", sample_frozen)
    model = sampler().fit(X, Y)
    assert model.history_.rollbacks == 1
    assert calls == [0.01] * 5 + [0.005] * 12
    assert np.isfinite(model.predict(X)).all()


def test_a_samplers_bad_gradient_is_kept_from_adam(monkeypatch):
    honest, calls = GuardedAdam.step, []

    def step(self, closure=None):
        calls.append(1)
        if len(calls) == 7:
            self.param_groups[0]["params"][0].grad.fill_(torch.nan)
        return honest(self, closure)

    monkeypatch.setattr(GuardedAdam, "step", step)
    model = sampler().fit(X, Y)
    assert (model.history_.bad_gradients, model.history_.rollbacks) == (1, 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_float32_fit_that_fails_offers_float64(monkeypatch, dtype):
    def failing(self):
        raise NumericalError("the bound is not finite.")

    monkeypatch.setattr(EagerStep, "__call__", failing)
    with pytest.raises(NumericalError, match="went back 6 times") as caught:
        DeepGPRegressor().set_params(dtype=dtype, max_iter=3, subset_size=8).fit(X, Y)
    assert ("dtype='float64'" in str(caught.value)) == (dtype == "float32")
