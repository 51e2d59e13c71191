"""Noise that varies, over the inputs or from row to row, and training on the predictive density."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal, Normal

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError
from sodgp.estimator.describe import noise_std
from sodgp.estimator.many import fit_replicates
from sodgp.inference.contract import bound, expected_log_density, mixture_log_density
from sodgp.linalg.draws import FreshDraws
from sodgp.training.batches import Batcher


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def problem(rows=24, **options):
    """An estimator's model, method and batch on noisy rows, untrained."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(rows, 2))
    y = np.sin(X[:, 0]) + 0.2 * np.exp(X[:, 1]) * rng.normal(size=rows)
    estimator = DeepGPRegressor(random_state=0, **{"subset_size": 10, **options})
    prepared, _ = estimator._prepare(X, y)
    model = estimator._method.build(prepared.architecture, prepared.data, torch.Generator().manual_seed(0))
    return estimator._method, model, Batcher(prepared.data, 10**6, [torch.Generator()]).next()


def shake(model, scale=0.3):
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.add_(scale * randn(index, *parameter.shape))


def draws(n_samples=4):
    return FreshDraws(torch.Generator().manual_seed(5), n_samples)


# --- the predictive density


def test_the_mixture_density():
    y, mean, variance = randn(0, 1, 5, 2), randn(1, 7, 5, 2), randn(2, 7, 5, 2).square() + 0.1
    by_hand = Normal(mean, variance.sqrt()).log_prob(y).exp().mean(0).log().sum()
    torch.testing.assert_close(mixture_log_density(y, mean, variance), by_hand)


@pytest.mark.parametrize("inference", ["sod", "dsvi"])
@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("weight", [1e-12, 0.3, 1.0])
def test_the_rest_is_between_expected_and_predictive_density(inference, n_layers, weight):
    options = {"inference": inference, "n_layers": n_layers}
    method, model, batch = problem(**options, predictive_weight=weight)
    plain, _, _ = problem(**options)
    shake(model)
    ours, theirs = method.terms(model, batch, draws()), plain.terms(model, batch, draws())
    mean, variance = predict(method, model, batch.X_s, batch.y_s, batch.X_b, draws())
    sigma2 = model.noise_variance[..., None, :]
    expected = expected_log_density(batch.y_b, mean, variance, sigma2).mean(0).sum()
    predictive = mixture_log_density(batch.y_b, mean, variance + sigma2)
    torch.testing.assert_close(theirs["rest"], expected)
    torch.testing.assert_close(ours["rest"], (1 - weight) * expected + weight * predictive)
    # Jensen's inequality, twice: over f and over the samples.
    assert predictive.item() >= expected.item()
    for name in set(theirs) - {"rest"}:
        torch.testing.assert_close(ours[name], theirs[name])


def test_an_own_label_noise_keeps_its_place():
    options = {"tie_label_noise": False, "n_layers": 1}
    method, model, batch = problem(**options, predictive_weight=1e-12)
    plain, _, _ = problem(**options)
    shake(model, 0.1)
    ours, theirs = (m.terms(model, batch, draws()) for m in (method, plain))
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name])


# --- noise that varies


def set_noise(model, mean, factor):
    with torch.no_grad():
        model.noise_process.q_mean.copy_(mean)
        model.noise_process.q_factor.copy_(factor * torch.eye(len(mean), dtype=torch.float64))


def test_noise_without_variance_is_constant():
    method, model, batch = problem(noise="heteroscedastic")
    plain, reference, _ = problem()
    shake(model)
    set_noise(model, torch.zeros(10, 1, dtype=torch.float64), 1.0)
    model.noise_process.kernel.outputscale = torch.tensor(1e-12, dtype=torch.float64)
    reference.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("noise_process")})
    ours, theirs = method.terms(model, batch, draws()), plain.terms(reference, batch, draws())
    assert ours.pop("kl_noise").abs() < 1e-9
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-5, atol=1e-5)


def test_all_rows_in_the_subset_give_the_evidence_of_that_noise():
    """One layer, q(F_S) = the prior, g known: q_hat is the exact posterior, and the bound the exact log evidence."""
    method, model, batch = problem(rows=12, n_layers=1, subset_size=12, noise="heteroscedastic", jitter=1e-9)
    set_noise(model, randn(3, 12, 1), 1e-5)
    terms = method.terms(model, batch, draws(1))
    kl = terms.pop("kl_noise")
    g, _ = model.noise_process.at(batch.X_s, batch.X_s)
    noise = model.noise_variance.squeeze() * g.mean.squeeze().exp()
    K = model.last.kernel(batch.X_s[0]).to_dense() + 1e-9 * torch.eye(12, dtype=torch.float64)
    evidence = MultivariateNormal(torch.zeros(12, dtype=torch.float64), K + noise.diag()).log_prob(batch.y_s[0, :, 0])
    torch.testing.assert_close(bound(terms), evidence, rtol=1e-6, atol=1e-6)
    # KL(N(m, s^2 I) || N(0, I)) by hand.
    m, s = model.noise_process.q_mean, 1e-5
    by_hand = 0.5 * (12 * s**2 + m.square().sum() - 12) - 12 * math.log(s)
    torch.testing.assert_close(-kl, by_hand)


def test_moments_of_the_log_noise_by_hand():
    _, model, batch = problem(noise="heteroscedastic")
    shake(model)
    process = model.noise_process
    subset, rest = process.at(batch.X_s, batch.X_b)
    kernel = process.kernel
    jitter = process.jitter.amount * kernel(batch.X_s[0]).to_dense().diagonal().mean()
    K = kernel(batch.X_s[0]).to_dense() + jitter * torch.eye(10, dtype=torch.float64)
    L = torch.linalg.cholesky(K)
    C = process.q_factor[0].tril()
    K_sb = kernel(batch.X_s[0], batch.X_b[0]).to_dense()
    A = torch.linalg.solve_triangular(L, K_sb, upper=False)
    torch.testing.assert_close(subset.mean[0], L @ process.q_mean)
    torch.testing.assert_close(subset.variance[0, :, 0], (L @ C @ C.mT @ L.mT).diagonal())
    torch.testing.assert_close(rest.mean[0], A.mT @ process.q_mean)
    variance = kernel(batch.X_b[0]).to_dense().diagonal() - A.square().sum(0) + (C.mT @ A).square().sum(0)
    torch.testing.assert_close(rest.variance[0, :, 0], variance)
    normal = randn(9, 200_000, 1, 1)
    drawn = rest.draw(normal)
    torch.testing.assert_close(drawn.reciprocal().mean(0), rest.precision[0], rtol=0.05, atol=0.0)


def test_noise_that_grows_is_found():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(300, 1))
    size = 0.05 + 0.5 * (X[:, 0] > 0)
    y = np.sin(3 * X[:, 0]) + size * rng.normal(size=300)
    grid = np.array([[-0.7], [-0.4], [0.4], [0.7]])
    options = {"n_layers": 1, "max_iter": 250, "subset_size": 40, "random_state": 0}
    model = DeepGPRegressor(noise="heteroscedastic", **options).fit(X, y)
    dist, latent = model.predict_distribution(grid), model.predict_distribution(grid, latent=True)
    noise = np.sqrt(dist.variance - latent.variance)
    assert (noise[:2] < 0.12).all()
    assert (noise[2:] > 0.35).all()
    plain = DeepGPRegressor(**options).fit(X, y)
    held_out = rng.uniform(-1, 1, size=(300, 1))
    truth = np.sin(3 * held_out[:, 0]) + (0.05 + 0.5 * (held_out[:, 0] > 0)) * rng.normal(size=300)
    scores = [-m.predict_distribution(held_out).log_prob(truth).mean() for m in (model, plain)]
    assert scores[0] < scores[1] - 0.2


# --- noise with heavy tails


def test_tails_without_spread_are_constant_noise():
    for weight in (0.0, 0.5, 1.0):
        method, model, batch = problem(noise="heavy_tailed", predictive_weight=weight)
        plain, reference, _ = problem(predictive_weight=weight)
        shake(model)
        with torch.no_grad():
            model.noise_process.raw_spread.fill_(-30.0)
            model.noise_process.q_logits.zero_()
        reference.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("noise_process")})
        ours, theirs = method.terms(model, batch, draws()), plain.terms(reference, batch, draws())
        assert ours.pop("kl_noise").abs() < 1e-12
        for name, value in theirs.items():
            torch.testing.assert_close(ours[name], value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_density_over_the_levels_by_hand(n_layers):
    method, model, batch = problem(noise="heavy_tailed", predictive_weight=1.0, n_layers=n_layers)
    shake(model)
    mean, variance = predict(method, model, batch.X_s, batch.y_s, batch.X_b, draws())
    levels = model.noise_variance.squeeze() * model.noise_process.levels().flatten()
    spread = model.noise_process.spread.item()
    # Eight equally likely parts of a normal law: their middle quantiles.
    quantiles = [Normal(0.0, 1.0).icdf(torch.tensor((k + 0.5) / 8, dtype=torch.float64)).item() for k in range(8)]
    torch.testing.assert_close(
        levels.log(), model.noise_variance.squeeze().log() + spread * torch.tensor(quantiles, dtype=torch.float64)
    )
    density = torch.stack([Normal(mean, (variance + level).sqrt()).log_prob(batch.y_b).exp() for level in levels])
    predictive = density.mean((0, 1)).log().sum()
    torch.testing.assert_close(method.terms(model, batch, draws())["rest"], predictive)
    # The bound's term is below the expected log density of the mixture, which 2,000 draws of f give.
    plain, _, _ = problem(noise="heavy_tailed", n_layers=n_layers)
    ours = plain.terms(model, batch, draws())["rest"]
    f = mean + variance.sqrt() * randn(7, 2000, *mean.shape)
    exact = torch.stack([Normal(f, level.sqrt()).log_prob(batch.y_b).exp() for level in levels]).mean(0).log()
    expected = exact.mean(0).sum((-2, -1)).mean()
    assert ours < expected <= predictive + 1e-6
    # Close to it: better than the density at the middle level alone.
    assert (
        expected - ours
        < 0.2 * (expected - expected_log_density(batch.y_b, mean, variance, levels[3]).sum((-2, -1)).mean()).abs()
    )


def test_the_levels_of_the_subset_by_hand():
    _, model, _ = problem(noise="heavy_tailed", subset_size=10)
    shake(model, 1.0)
    process = model.noise_process
    q = torch.distributions.Categorical(logits=process.q_logits)
    prior = torch.distributions.Categorical(logits=torch.zeros_like(process.q_logits))
    torch.testing.assert_close(process.kl(), torch.distributions.kl_divergence(q, prior).sum().reshape(1))
    g = process.levels().flatten().log()
    subset = process.at_subset()
    torch.testing.assert_close(subset.mean[0], q.probs @ g)
    torch.testing.assert_close(subset.precision[0], q.probs @ (-g).exp())


def test_all_rows_in_the_subset_bound_the_evidence_of_heavy_tails():
    """Three rows and one layer: the evidence is a sum over 8^3 noises, and the bound is below it, also at its best."""
    method, model, batch = problem(rows=3, n_layers=1, subset_size=3, noise="heavy_tailed", jitter=1e-9)
    levels = (model.noise_variance.squeeze() * model.noise_process.levels().flatten()).detach()
    K = (model.last.kernel(batch.X_s[0]).to_dense() + 1e-9 * torch.eye(3, dtype=torch.float64)).detach()
    noises = torch.cartesian_prod(levels, levels, levels)
    zero = torch.zeros(3, dtype=torch.float64)
    each = MultivariateNormal(zero, K + torch.diag_embed(noises)).log_prob(batch.y_s[0, :, 0])
    evidence = each.logsumexp(0) - math.log(len(noises))
    logits = model.noise_process.q_logits
    values = []
    optimizer = torch.optim.Adam([logits], lr=0.1)
    for _ in range(300):
        value = bound(method.terms(model, batch, draws(1)))
        values.append(value.item())
        optimizer.zero_grad()
        (-value).backward()
        optimizer.step()
    assert values[0] < values[-1] < evidence.item()
    assert evidence.item() - values[-1] < 0.3


def test_predictions_have_the_law_of_training():
    """Every component of f with every level, however many samples: mean, variance and covariance belong together."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(60, 1))
    y = np.sin(3 * X[:, 0]) + np.where(rng.uniform(size=60) < 0.2, 1.0, 0.05) * rng.normal(size=60)
    options = {"noise": "heavy_tailed", "max_iter": 60, "subset_size": 15, "random_state": 0}
    model = DeepGPRegressor(n_layers=1, **options).fit(X, y)
    process = model.model_.noise_process
    scale = model._y_scaler.scale_[0] ** 2
    levels = scale * (model.model_.noise_variance.squeeze() * process.levels().flatten()).detach().numpy()
    latent = model.predict_distribution(X[:7], latent=True)
    expected = latent.variance + levels.mean()
    assert noise_std(model) == pytest.approx([levels.mean() ** 0.5])
    for count in (1, 5, 50):
        observed = model.set_params(n_predict_samples=count).predict_distribution(X[:7])
        assert observed.n_components == 8
        np.testing.assert_allclose(observed.variance, expected, rtol=1e-10)
    _, covariance = model.predict(X[:7], return_cov=True)
    np.testing.assert_allclose(np.diagonal(covariance), expected, rtol=1e-6)
    # Drawn observations: their noise has the same variance, and rows take their levels alone.
    spread = model.sample_y(X[:2], 4000).var(1)
    np.testing.assert_allclose(spread, expected[:2], rtol=0.25)
    deep = DeepGPRegressor(n_layers=2, n_predict_samples=6, **options).fit(X, y)
    assert deep.predict_distribution(X[:3]).n_components == 48
    assert deep.predict_distribution(X[:3], latent=True).n_components == 6


def test_a_draw_takes_every_level_equally_often():
    _, model, _ = problem(noise="heavy_tailed")
    process = model.noise_process
    values, counts = process.draw(randn(0, 8000, 1, 1)).unique(return_counts=True)
    torch.testing.assert_close(values, process.levels().flatten())
    assert (counts - 1000).abs().max() < 150


def test_outliers_do_less_harm():
    rng = np.random.default_rng(1)

    def rows(count):
        X = rng.uniform(-1, 1, size=(count, 1))
        far = rng.uniform(size=count) < 0.1
        return X, np.sin(3 * X[:, 0]) + np.where(far, 2.0, 0.05) * rng.normal(size=count)

    (X, y), (X_new, y_new) = rows(200), rows(500)
    options = {"n_layers": 1, "max_iter": 250, "subset_size": 40, "random_state": 0}
    heavy, plain = (DeepGPRegressor(noise=noise, **options).fit(X, y) for noise in ("heavy_tailed", "homoscedastic"))
    error, density = zip(
        *(
            (
                np.abs(model.predict(X_new) - np.sin(3 * X_new[:, 0])).max(),
                model.predict_distribution(X_new).log_prob(y_new).mean(),
            )
            for model in (heavy, plain)
        ),
        strict=True,
    )
    assert error[0] < 0.5 * error[1]
    assert density[0] > density[1] + 0.5


@pytest.mark.parametrize("noise", ["heteroscedastic", "heavy_tailed"])
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_the_whole_estimator(tmp_path, noise, weight):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    model = DeepGPRegressor(noise=noise, predictive_weight=weight, max_iter=30, random_state=0).fit(X, y)
    assert model.history_.terms["kl_noise"][-1] <= 0
    path = tmp_path / "m.sodgp"
    model.save(path)
    again = DeepGPRegressor.load(path)
    np.testing.assert_allclose(again.predict(X, return_std=True), model.predict(X, return_std=True), rtol=1e-12)
    # A row's prediction is its own affair.
    np.testing.assert_allclose(model.predict(X[3:4], return_std=True)[1][0], model.predict(X, return_std=True)[1][3])
    assert model.sample_y(X[:5], 3).shape == (5, 2, 3)
    _, covariance = model.predict(X[:5], return_cov=True)
    assert np.linalg.eigvalsh(covariance).min() > 0


@pytest.mark.parametrize("noise", ["heteroscedastic", "heavy_tailed"])
def test_replicates_are_the_single_fits(noise):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 2))
    data = [(X, rng.normal(size=30)) for _ in range(2)]
    options = {"noise": noise, "predictive_weight": 0.5, "max_iter": 15, "subset_size": 8}
    alone = [DeepGPRegressor(random_state=s, **options).fit(*xy) for s, xy in enumerate(data)]
    together = fit_replicates([DeepGPRegressor(random_state=s, **options) for s in range(2)], data)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(other.predict(X, return_std=True), one.predict(X, return_std=True), rtol=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": "loud"}, "noise='loud'"),
        ({"noise": "heteroscedastic", "tie_label_noise": False}, "tie_label_noise"),
        ({"noise": "heteroscedastic", "reselect_every": 5}, "reselect_every"),
        ({"noise": "heteroscedastic", "inference": "dsvi"}, "no meaning"),
        ({"noise": "heavy_tailed", "reselect_every": 5}, "noise='heavy_tailed' and reselect_every"),
        ({"predictive_weight": 1.5}, "from 0 to 1"),
        ({"predictive_weight": True}, "from 0 to 1"),
        ({"predictive_weight": 0.5, "inference": "sghmc"}, "no meaning"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ConfigurationError, match=message):
        DeepGPRegressor(max_iter=20, **options).fit(np.zeros((4, 1)), np.arange(4.0))
