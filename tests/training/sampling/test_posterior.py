"""Runs of a sampler: the posterior of a conjugate case, replicates, and a sampler that runs away."""

import numpy as np
import pytest
import torch

from sodgp.errors import SamplerDivergedError
from sodgp.inference.contract import TrainingSet
from sodgp.inference.sghmc import SGHMC
from sodgp.linalg.draws import FreshDraws
from sodgp.model.architecture import Architecture, Initialization, linear_weights
from sodgp.training.batches import Batcher
from sodgp.training.loop import train
from sodgp.training.run import Settings, fit
from sodgp.training.sampling.posterior import collect, fit_by_sampling
from sodgp.training.sampling.step import SamplingStep
from sodgp.training.stacking import Problem
from sodgp.training.steps import Schedule


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(seed, *shape):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def training_set(seed, n=30, dims=1):
    X = 2.0 * randn(seed, n, dims)
    y = torch.sin(X.sum(-1, keepdim=True)) + 0.2 * randn(seed + 1, n, 1)
    return TrainingSet(X[:0], y[:0], X, y)


def architecture(data, hidden=(), size=4, replicates=()):
    weights = linear_weights(data.X_r.reshape(-1, data.X_r.shape[-1]), list(hidden))
    start_at = Initialization(noise_variance=0.1)
    return Architecture(
        data.X_r.shape[-1], 1, size, weights, initialization=start_at, replicates=torch.Size(replicates)
    )


def step_for(method, data, *, hidden=(), seed=0, batch_rows=1000, max_iter=100):
    model = method.build(architecture(data, hidden), data, generator(seed))
    draws = FreshDraws(generator(seed + 1), method.n_chains)
    return SamplingStep(model, method, Batcher(data, batch_rows, [generator(seed + 2)]), draws, constant(max_iter))


def constant(max_iter):
    return Schedule(0.01, "constant", max_iter)


@pytest.mark.parametrize(("batch_rows", "step_size"), [(30, 0.08), (15, 0.03)], ids=["all rows", "half of the rows"])
def test_the_posterior_of_the_conjugate_case(batch_rows, step_size):
    """One layer: y ~ N(A'u, V + noise) independently, so p(u | y) is Gaussian in closed form."""
    data = training_set(3)
    method = SGHMC(step_size=step_size, friction=0.1, n_chains=800, n_posterior_samples=800)
    step = step_for(method, data, batch_rows=batch_rows)
    step.model.requires_grad_(False)
    for _ in range(600):
        step.batcher.advance()
        step.sample(adapt=True)
    kept = []
    for t in range(400):
        step.batcher.advance()
        step.sample(adapt=False)
        if t % 10 == 0:
            kept.append(step.state.position.clone())
    u = torch.cat(kept)
    cond = step.model.last.condition(data.X_r[None])
    weight = 1.0 / (cond.V[0] + step.model.noise_variance[0])
    covariance = torch.linalg.inv(torch.eye(4, dtype=torch.float64) + (cond.A[0] * weight) @ cond.A[0].mT)
    mean = covariance @ (cond.A[0] * weight) @ data.y_r[:, 0]
    std = covariance.diagonal().sqrt()
    torch.testing.assert_close((u.mean(0) - mean) / std, torch.zeros(4, dtype=torch.float64), rtol=0, atol=0.05)
    correlation, truth = torch.cov(u.mT) / torch.outer(std, std), covariance / torch.outer(std, std)
    torch.testing.assert_close(correlation, truth, rtol=0, atol=0.06)


def test_a_replicate_equals_the_single_run():
    method = SGHMC(n_chains=2, n_posterior_samples=4, thinning=2, window=5)
    sets = [training_set(20 + 2 * r, dims=2) for r in range(2)]
    singles = [step_for(method, data, hidden=[2], seed=10 * r, batch_rows=12) for r, data in enumerate(sets)]
    data = TrainingSet(*(torch.stack([getattr(s, k) for s in sets]) for k in ("X_s", "y_s", "X_r", "y_r")))
    model = method.build(architecture(data, [2], replicates=[2]), None, generator(0))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.stack([single.model.get_parameter(name) for single in singles])
            parameter.copy_(values.reshape(parameter.shape))
    for i, layer in enumerate(list(model.layers)[:-1]):
        layer.mean.weight = torch.stack([single.model.layers[i].mean.weight for single in singles])
    draws = FreshDraws([generator(10 * r + 1) for r in range(2)], 2)
    batcher = Batcher(data, 12, [generator(10 * r + 2) for r in range(2)])
    histories, found = fit_by_sampling(SamplingStep(model, method, batcher, draws, constant(12)), method)
    for r, s in enumerate(singles):
        (alone,), its = fit_by_sampling(SamplingStep(s.model, method, s.batcher, s.draws, constant(12)), method)
        assert alone.terms.keys() == histories[r].terms.keys() == {"log_density", "log_prior_u"}
        for name, value in s.model.state_dict().items():
            if not name.endswith("bound") and "mean.weight" not in name:
                torch.testing.assert_close(
                    model.state_dict()[name][r].reshape(value.shape), value, rtol=1e-7, atol=1e-9
                )
        np.testing.assert_allclose(found.potential[r], its.potential, rtol=1e-7)


def test_burn_in_first_tries_smaller_steps():
    method = SGHMC(step_size=8.0)
    step = step_for(method, training_set(3), max_iter=60)
    (history,) = train(step, step.model, constant(60))
    assert history.rollbacks > 0
    assert float(step.step_size) == pytest.approx(8.0 * 0.5**history.rollbacks)
    assert float(step.state.position.abs().max()) < 1e3


@pytest.mark.parametrize("factor", [300.0, 1e9])
def test_a_sampler_that_runs_away_after_burn_in(factor):
    method = SGHMC(n_posterior_samples=10, thinning=20)
    step = step_for(method, training_set(3))
    train(step, step.model, constant(100))
    step.model.requires_grad_(False)
    step.step_size.mul_(factor)
    if factor > 1e6:
        with pytest.raises(SamplerDivergedError, match="after burn-in"):
            collect(step)
    else:
        positions, potential, info = collect(step)
        assert positions.shape == (1, 10, 4)
        assert bool(torch.isfinite(potential).all())
        assert float(step.step_size) < 0.01 * factor
        assert float(info.temperature) < 10.0


def test_problems_fitted_together_get_their_own_draws_and_diagnostics():
    sets = [training_set(30 + r, dims=2) for r in range(2)]
    method = SGHMC(n_posterior_samples=10, thinning=2)
    problems = [Problem(architecture(data, [2]), data, seed) for seed, data in enumerate(sets)]
    settings = Settings(20, 30, 1, 0.01, "constant", torch.device("cpu"))
    together = fit(method, problems, settings)
    for problem, ours in zip(problems, together, strict=True):
        (alone,) = fit(method, [problem], settings)
        torch.testing.assert_close(
            ours.model.last.posterior_draws, alone.model.last.posterior_draws, rtol=1e-6, atol=1e-8
        )
        np.testing.assert_allclose(ours.diagnostics.potential, alone.diagnostics.potential, rtol=1e-6)
        assert ours.diagnostics.ess_prediction.shape == (16,)
