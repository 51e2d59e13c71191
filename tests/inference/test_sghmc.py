"""SGHMC: targets with known moments, the fit from end to end, and a sampler that runs away."""

import copy
import pickle

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError, SamplerDivergedError
from sodgp.inference.contract import Batch, TrainingSet, bound
from sodgp.inference.sghmc import SGHMC, flatten, start, transition, unflatten
from sodgp.linalg.draws import FreshDraws, SharedDraws
from sodgp.model.architecture import Architecture, Initialization, linear_weights
from sodgp.training.batches import Batcher
from sodgp.training.loop import train
from sodgp.training.run import Problem, Settings, fit
from sodgp.training.sampling.posterior import collect, fit_by_sampling, keep
from sodgp.training.sampling.step import SamplingStep
from sodgp.training.steps import Schedule


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(seed, *shape):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def run(gradient, dims, *, step_size, friction, n_chains=400, burn_in=1500, n_steps=3000, every=10, noise=0.0):
    """Draws [n, C, P] of the frozen sampler, and its last info."""
    source = generator(0)
    state, kept = start(0.1 * randn(1, n_chains, dims)), []
    for t in range(burn_in + n_steps):
        numbers = torch.randn(2, n_chains, dims, generator=source, dtype=torch.float64)
        grad = gradient(state.position) + noise * numbers[0]
        state, info = transition(state, grad, numbers[1], step_size, friction, adapt=t < burn_in)
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
    state = start(randn(0, 3, 2))
    for t in range(5):
        state, _ = transition(state, randn(t, 3, 2), randn(9 + t, 3, 2), 0.1, 0.1, adapt=True)
    after, _ = transition(state, randn(20, 3, 2), randn(21, 3, 2), 0.1, 0.1, adapt=False)
    assert all(torch.equal(old, new) for old, new in zip(state[2:], after[2:], strict=True))
    assert not torch.equal(state.position, after.position)


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
    method = SGHMC(step_size=step_size, friction=0.1, n_chains=200)
    step = step_for(method, data, batch_rows=batch_rows)
    step.model.requires_grad_(False)
    for _ in range(600):
        step.batcher.advance()
        step.sample(adapt=True)
    kept = []
    for t in range(1500):
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


@pytest.mark.parametrize("hidden", [[], [2], [2, 1]], ids=["1 layer", "2 layers", "3 layers"])
def test_terms_are_the_log_density_of_data_and_u(hidden):
    data = training_set(5, dims=2)
    method = SGHMC(n_chains=3)
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
        law = torch.distributions.Normal(mean, (variance + model.noise_variance).sqrt())
        torch.testing.assert_close(ours["log_density"][c], 2.0 * law.log_prob(data.y_r).sum())
    assert torch.isfinite(bound(method.terms(model, batch, FreshDraws(generator(2), 4))))
    for part, whole in zip(unflatten(model, flatten(u)), u, strict=True):
        assert torch.equal(part, whole)


def test_predictions_pair_posterior_draws_and_hidden_draws():
    data = training_set(5, dims=2)
    method = SGHMC(n_draws=4)
    model = method.build(architecture(data, [2]), data, generator(0)).requires_grad_(False)
    size = sum(layer.q_mean.numel() for layer in model.layers)
    keep(model, randn(3, 1, 4, size))
    X = data.X_r[None]

    def predict(T, rows=X):
        return predict(method, model, X[:, :0], X[:, :0], rows, SharedDraws(0, T, dtype=torch.float64))

    assert [predict(T)[0].shape[0] for T in (2, 4, 9)] == [2, 4, 9]
    # A row's prediction depends on that row alone.
    for ours, theirs in zip(predict(9, X[:, 3:5]), predict(9), strict=True):
        torch.testing.assert_close(ours, theirs[:, 3:5])
    for t, draw in enumerate([0, 0, 0, 1, 1, 2, 2, 3, 3]):
        alone = copy.deepcopy(model)
        for layer in alone.layers:
            layer.posterior_draws.copy_(layer.posterior_draws[draw].expand_as(layer.posterior_draws).clone())
        other = predict(method, alone, X[:, :0], X[:, :0], X, SharedDraws(0, 9, dtype=torch.float64))
        torch.testing.assert_close(other[0][t], predict(9)[0][t])
    mean, covariance = predict_joint(method, model, X[:, :0], X[:, :0], X[:, :5], FreshDraws(generator(0), 6))
    assert mean.shape == (6, 5, 1)
    assert covariance.shape == (6, 1, 5, 5)


def test_a_replicate_equals_the_single_run():
    method = SGHMC(n_chains=2, n_draws=4, thinning=2, window=5)
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
    history, _ = fit_by_sampling(SamplingStep(model, method, batcher, draws, constant(12)))
    for r, s in enumerate(singles):
        (alone,) = fit_by_sampling(SamplingStep(s.model, method, s.batcher, s.draws, constant(12)))
        assert alone.terms.keys() == history.terms.keys() == {"log_density", "log_prior_u"}
        for name, value in s.model.state_dict().items():
            if not name.endswith("bound") and "mean.weight" not in name:
                torch.testing.assert_close(
                    model.state_dict()[name][r].reshape(value.shape), value, rtol=1e-7, atol=1e-9
                )
        np.testing.assert_allclose(model.diagnostics.potential[r], s.model.diagnostics.potential, rtol=1e-7)


# --- a sampler that runs away


def test_a_sampler_that_runs_away_in_burn_in_is_reported():
    X = np.linspace(-1, 1, 30)[:, None]
    y = np.sin(3 * X[:, 0])
    model = regressor(1).fit(X, y).set_params(step_size=1e6)
    with pytest.raises(SamplerDivergedError, match=r"smaller step_size.*halved its step"):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_burn_in_first_tries_smaller_steps():
    method = SGHMC(step_size=8.0)
    step = step_for(method, training_set(3), max_iter=60)
    (history,) = train(step, step.model, constant(60))
    assert history.rollbacks > 0
    assert float(step.step_size) == pytest.approx(8.0 * 0.5**history.rollbacks)
    assert float(step.state.position.abs().max()) < 1e3


@pytest.mark.parametrize("factor", [300.0, 1e9])
def test_a_sampler_that_runs_away_after_burn_in(factor):
    method = SGHMC(n_draws=10, thinning=20)
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


# --- from end to end


def regressor(n_layers, **options):
    small = {
        "max_iter": 60,
        "learning_rate": 0.01,
        "n_posterior_samples": 16,
        "thinning": 3,
        "n_predict_samples": 8,
        "subset_size": 8,
    }
    return DeepGPRegressor(inference="sghmc", n_layers=n_layers, **{"random_state": 0, **small, **options})


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_fit_predict_seed_and_pickle(n_layers):
    X = randn(0, 60, 2).numpy()
    y = np.sin(X[:, 0]) + X[:, 1]
    model = regressor(n_layers, batch_size=40).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.corrcoef(mean, y)[0, 1] > 0.5
    assert "n_components=8" in repr(model.predict_distribution(X))
    assert set(model.history_.terms) == {"log_density", "log_prior_u"}
    assert np.array_equal(regressor(n_layers, batch_size=40).fit(X, y).predict(X), mean)
    assert not np.array_equal(regressor(n_layers, batch_size=40, random_state=1).fit(X, y).predict(X), mean)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), mean)
    np.testing.assert_allclose(model.predict(X[5:9]), mean[5:9])
    assert model.sample_y(X[:5], 3).shape == (5, 3)
    assert model.predict(X[:5], return_cov=True)[1].shape == (5, 5)


def test_a_saved_model_predicts_the_same(tmp_path):
    X = randn(0, 40, 2).numpy()
    model = regressor(2).fit(X, X[:, 0])
    model.save(tmp_path / "m.sodgp")
    assert np.array_equal(DeepGPRegressor.load(tmp_path / "m.sodgp").predict(X), model.predict(X))


def test_diagnostics_and_chains():
    X = randn(0, 40, 1).numpy()
    found = regressor(2, n_chains=2, n_posterior_samples=20, dtype="float32").fit(X, np.c_[X, X**2]).diagnostics_
    assert (found.n_draws, found.n_chains, found.thinning, found.step_size) == (20, 2, 3, pytest.approx(0.01))
    assert found.potential.shape == (2, 10)
    assert found.ess_potential.shape == found.r_hat_potential.shape == found.temperature.shape == ()
    assert found.ess_prediction.shape == found.r_hat_prediction.shape == (16,)
    assert np.isfinite(found.ess_prediction).all()
    assert 0.3 < found.temperature < 3.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 3}, "n_samples=3 has no meaning"),
        ({"inference": "dsvi", "thinning": 3}, "thinning=3 has no meaning"),
        ({"n_posterior_samples": 5, "n_chains": 2}, "multiple of n_chains"),
        ({"n_posterior_samples": 0}, "n_posterior_samples"),
        ({"step_size": -1.0}, "step_size"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ConfigurationError, match=message):
        DeepGPRegressor(**{"inference": "sghmc", **options}).fit(np.eye(4), np.arange(4.0))


def test_problems_fitted_together_get_their_own_draws_and_diagnostics():
    sets = [training_set(30 + r, dims=2) for r in range(2)]
    method = SGHMC(n_draws=10, thinning=2)
    problems = [Problem(architecture(data, [2]), data, seed) for seed, data in enumerate(sets)]
    settings = Settings(20, 30, 1, 0.01, "constant", torch.device("cpu"))
    together = [model for model, _ in fit(method, problems, settings)]
    for problem, ours in zip(problems, together, strict=True):
        ((alone, _),) = fit(method, [problem], settings)
        torch.testing.assert_close(ours.last.posterior_draws, alone.last.posterior_draws, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(ours.diagnostics.potential, alone.diagnostics.potential, rtol=1e-6)
        assert ours.diagnostics.ess_prediction.shape == (16,)
