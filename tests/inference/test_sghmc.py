"""SGHMC: targets with known moments, the log density of a deep GP, and predictions with posterior draws."""

import copy

import pytest
import torch
from helpers import predict, predict_joint

from sodgp.inference.contract import Batch, TrainingSet, bound
from sodgp.inference.sampler import Sampler, flatten, unflatten
from sodgp.inference.sghmc import SGHMC
from sodgp.linalg.draws import FreshDraws, SharedDraws
from sodgp.model.architecture import Architecture, Initialization, linear_weights


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(seed, *shape):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def run(gradient, dims, *, step_size, friction, n_chains=400, burn_in=1500, n_steps=3000, every=10, noise=0.0):
    """Draws [n, C, P] of the frozen sampler, and its last info."""
    source = generator(0)
    sampler = SGHMC(friction=friction)
    state, kept = sampler.start(0.1 * randn(1, n_chains, dims)), []
    for t in range(burn_in + n_steps):
        numbers = torch.randn(2, n_chains, dims, generator=source, dtype=torch.float64)
        grad = gradient(state.position) + noise * numbers[0]
        state, info = sampler.transition(state, grad, numbers[1], step_size, adapt=t < burn_in)
        if t >= burn_in and t % every == 0:
            kept.append(state.position)
    return torch.stack(kept), info


# --- the kernel on targets of its own


def test_a_banana():
    # x ~ N(0, 1), z | x ~ N((x^2 - 1)/2, 1/4): every moment is known.
    def gradient(position):
        x, z = position.unbind(-1)
        residual = (z - 0.5 * (x.square() - 1.0)) / 0.25
        return torch.stack([x - residual * x, residual], -1)

    draws, info = run(gradient, 2, step_size=0.1, friction=0.1)
    x, z = draws.unbind(-1)
    assert float(x.mean()) == pytest.approx(0.0, abs=0.04)
    assert float(x.var()) == pytest.approx(1.0, rel=0.04)
    assert float(z.mean()) == pytest.approx(0.0, abs=0.04)
    assert float(z.var()) == pytest.approx(0.75, rel=0.08)
    assert float((x.square() * z).mean()) == pytest.approx(1.0, rel=0.12)
    assert float(info.temperature.mean()) == pytest.approx(1.0, abs=0.15)


def test_a_double_well_against_quadrature():
    # U = (x^2 - 1)^2 + x/3: two wells of unequal weight, a barrier of one.
    draws, _ = run(lambda x: 4.0 * x * (x.square() - 1.0) + 1.0 / 3.0, 1, step_size=0.1, friction=0.1)
    grid = torch.linspace(-5.0, 5.0, 20001, dtype=torch.float64)
    weight = torch.softmax(-((grid.square() - 1.0).square() + grid / 3.0), 0)
    for power in (1, 2, 3, 4):
        truth = float((weight * grid**power).sum())
        assert float((draws**power).mean()) == pytest.approx(truth, abs=0.03)
    assert float((draws < 0).double().mean()) == pytest.approx(float(weight[grid < 0].sum()), abs=0.02)


@pytest.mark.parametrize("noise", [0.0, 4.0])
def test_noisy_gradients_do_not_heat_the_sampler(noise):
    # By itself this noise would raise the variances by half: noise_share says so.
    scales = torch.tensor([0.3, 1.0], dtype=torch.float64)
    draws, info = run(lambda x: x / scales.square(), 2, step_size=0.1, friction=0.05, noise=noise)
    torch.testing.assert_close(draws.flatten(0, 1).var(0) / scales.square(), torch.ones_like(scales), rtol=0, atol=0.05)
    share = float(info.noise_share.mean())
    assert 0.2 < share < 1.0 if noise else share < 0.1


def test_a_frozen_sampler_adapts_nothing():
    sampler = SGHMC(friction=0.1)
    state = sampler.start(randn(0, 3, 2))
    for t in range(5):
        state, _ = sampler.transition(state, randn(t, 3, 2), randn(9 + t, 3, 2), 0.1, adapt=True)
    after, _ = sampler.transition(state, randn(20, 3, 2), randn(21, 3, 2), 0.1, adapt=False)
    assert all(torch.equal(old, new) for old, new in zip(state[2:], after[2:], strict=True))
    assert not torch.equal(state.position, after.position)


def test_it_is_a_sampler():
    assert isinstance(SGHMC().sampler, Sampler)


# --- the deep GP


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


@pytest.mark.parametrize("hidden", [[], [2], [2, 1]], ids=["1 layer", "2 layers", "3 layers"])
def test_terms_are_the_log_density_of_data_and_u(hidden):
    data = training_set(5, dims=2)
    method = SGHMC(n_chains=3, n_posterior_samples=3)
    model = method.build(architecture(data, hidden), data, generator(0))
    u = [0.3 * randn(7 + i, 3, *layer.q_mean.shape) for i, layer in enumerate(model.layers)]
    batch = Batch(*(t.unsqueeze(0) for t in (data.X_s, data.y_s, data.X_r, data.y_r)), scale=2.0)
    ours = method.log_joint(model, u, batch, FreshDraws(generator(1), 3))
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(flatten(u)).sum(-1)
    torch.testing.assert_close(ours["log_prior_u"], prior)
    # Chain by chain, with u in the model: the layer's own marginals at a point.
    noise = FreshDraws(generator(1), 3)
    numbers = [noise.rest(30, width) for width in hidden]
    for c in range(3):
        rows = data.X_r[None]
        for layer, u_l in zip(model.layers, u, strict=True):
            layer.q_mean.copy_(u_l[c])
        for layer, z in zip(list(model.layers)[:-1], numbers, strict=True):
            moments = layer.marginals(rows)
            rows = moments.mean + moments.variance.sqrt() * z[c]
        mean, variance = model.last.marginals(rows)
        density = torch.distributions.Normal(mean, (variance + model.noise_variance).sqrt())
        torch.testing.assert_close(ours["log_density"][c], 2.0 * density.log_prob(data.y_r).sum())
    assert torch.isfinite(bound(method.terms(model, batch, FreshDraws(generator(2), 4))))
    for part, whole in zip(unflatten(model, flatten(u)), u, strict=True):
        assert torch.equal(part, whole)


def test_predictions_pair_posterior_draws_and_hidden_draws():
    data = training_set(5, dims=2)
    method = SGHMC(n_posterior_samples=4)
    model = method.build(architecture(data, [2]), data, generator(0)).requires_grad_(False)
    size = sum(layer.q_mean.numel() for layer in model.layers)
    method.keep(model, randn(3, 1, 4, size))
    X = data.X_r[None]

    def of(model, T, rows=X):
        return predict(method, model, X[:, :0], X[:, :0], rows, SharedDraws(0, T, dtype=torch.float64))

    assert [of(model, T)[0].shape[0] for T in (2, 4, 9)] == [2, 4, 9]
    # A row's prediction depends on that row alone.
    for ours, theirs in zip(of(model, 9, X[:, 3:5]), of(model, 9), strict=True):
        torch.testing.assert_close(ours, theirs[:, 3:5])
    for t, draw in enumerate([0, 0, 0, 1, 1, 2, 2, 3, 3]):
        alone = copy.deepcopy(model)
        for layer in alone.layers:
            layer.posterior_draws.copy_(layer.posterior_draws[draw].expand_as(layer.posterior_draws).clone())
        torch.testing.assert_close(of(alone, 9)[0][t], of(model, 9)[0][t])
    mean, covariance = predict_joint(method, model, X[:, :0], X[:, :0], X[:, :5], FreshDraws(generator(0), 6))
    assert mean.shape == (6, 5, 1)
    assert covariance.shape == (6, 1, 5, 5)
