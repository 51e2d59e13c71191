"""Noise with heavy tails."""

import math

import pytest
import torch
from noisy import draws, problem, rest_moments, shake
from problems import randn
from torch.distributions import Categorical, MultivariateNormal, Normal, kl_divergence

from sodgp.inference.contract import bound
from sodgp.inference.sod import SoD
from sodgp.likelihoods import HeavyTailed
from sodgp.likelihoods.contract import Likelihood, LikelihoodOptions, RowLikelihood
from sodgp.likelihoods.gaussian import expected_log_density
from sodgp.linalg.cholesky import Jitter


def test_it_keeps_the_protocols():
    model, batch = problem(SoD(), HeavyTailed())
    assert isinstance(HeavyTailed(), LikelihoodOptions)
    assert isinstance(model.likelihood, Likelihood)
    for rows in model.likelihood.at(batch.X_s, batch.X_b, draws()):
        assert isinstance(rows, RowLikelihood)
    assert not model.likelihood.continues(model.likelihood)


@pytest.mark.parametrize("objective", ["bound", "predictive"])
def test_tails_without_spread_are_constant_noise(objective):
    method = SoD(objective=objective)
    model, batch = problem(method, HeavyTailed())
    reference, _ = problem(method)
    shake(model)
    with torch.no_grad():
        model.likelihood.raw_spread.fill_(-30.0)
        model.likelihood.q_logits.zero_()
    state = {k: v for k, v in model.state_dict().items() if k.split(".")[-1] not in {"raw_spread", "q_logits"}}
    reference.load_state_dict({k: v for k, v in state.items() if "raw_spread_constraint" not in k})
    ours, theirs = method.terms(model, batch, draws()), method.terms(reference, batch, draws())
    assert ours.pop("kl_noise").abs() < 1e-12
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_density_over_the_levels_by_hand(n_layers):
    method = SoD(objective="predictive")
    model, batch = problem(method, HeavyTailed(), n_layers=n_layers)
    shake(model)
    mean, variance = rest_moments(method, model, batch)
    levels = model.noise_variance.squeeze() * model.likelihood.levels().flatten()
    spread = model.likelihood.spread.item()
    # Eight equally likely parts of a normal distribution: their middle quantiles.
    quantiles = [Normal(0.0, 1.0).icdf(torch.tensor((k + 0.5) / 8, dtype=torch.float64)).item() for k in range(8)]
    torch.testing.assert_close(
        levels.log(), model.noise_variance.squeeze().log() + spread * torch.tensor(quantiles, dtype=torch.float64)
    )
    density = torch.stack([Normal(mean, (variance + level).sqrt()).log_prob(batch.y_b).exp() for level in levels])
    predictive = density.mean((0, 1)).log().sum()
    torch.testing.assert_close(method.terms(model, batch, draws())["rest"], predictive)
    # The bound's term is below the expected log density of the mixture, which 2,000 draws of f give.
    ours = SoD(objective="bound").terms(model, batch, draws())["rest"]
    f = mean + variance.sqrt() * randn(7, 2000, *mean.shape)
    exact = torch.stack([Normal(f, level.sqrt()).log_prob(batch.y_b).exp() for level in levels]).mean(0).log()
    expected = exact.mean(0).sum((-2, -1)).mean()
    assert ours < expected <= predictive + 1e-6
    # Close to it: better than the density at the middle level alone.
    middle = expected_log_density(batch.y_b, mean, variance, levels[3]).sum((-2, -1)).mean()
    assert expected - ours < 0.2 * (expected - middle).abs()


def test_the_levels_of_the_subset_by_hand():
    model, _ = problem(SoD(), HeavyTailed())
    shake(model, 1.0)
    likelihood = model.likelihood
    q = Categorical(logits=likelihood.q_logits)
    prior = Categorical(logits=torch.zeros_like(likelihood.q_logits))
    torch.testing.assert_close(likelihood.kl(), kl_divergence(q, prior).sum().reshape(1))
    g = likelihood.levels().flatten().log()
    subset = likelihood.at_subset()
    torch.testing.assert_close(subset.mean[0], q.probs @ g)
    torch.testing.assert_close(subset.precision[0], q.probs @ (-g).exp())


def test_all_rows_in_the_subset_bound_the_evidence():
    """Three rows and one layer: the evidence is a sum over 8^3 noises, and the bound is below it, also at its best."""
    method = SoD()
    model, batch = problem(method, HeavyTailed(), rows=3, size=3, n_layers=1, jitter=Jitter(1e-9))
    levels = (model.noise_variance.squeeze() * model.likelihood.levels().flatten()).detach()
    K = (model.last.kernel(batch.X_s[0]).to_dense() + 1e-9 * torch.eye(3, dtype=torch.float64)).detach()
    noises = torch.cartesian_prod(levels, levels, levels)
    zero = torch.zeros(3, dtype=torch.float64)
    each = MultivariateNormal(zero, K + torch.diag_embed(noises)).log_prob(batch.y_s[0, :, 0])
    evidence = each.logsumexp(0) - math.log(len(noises))
    values = []
    optimizer = torch.optim.Adam([model.likelihood.q_logits], lr=0.1)
    for _ in range(300):
        value = bound(method.terms(model, batch, draws(1)))
        values.append(value.item())
        optimizer.zero_grad()
        (-value).backward()
        optimizer.step()
    assert values[0] < values[-1] < evidence.item()
    assert evidence.item() - values[-1] < 0.3


def test_a_draw_takes_every_level_equally_often():
    model, _ = problem(SoD(), HeavyTailed())
    values, counts = model.likelihood.draw(randn(0, 8000, 1, 1)).unique(return_counts=True)
    torch.testing.assert_close(values, model.likelihood.levels().flatten())
    assert (counts - 1000).abs().max() < 150


def test_predictions_have_a_component_for_every_level():
    """Mean and variance of the mixture are those of f and of the mean noise."""
    model, batch = problem(SoD(), HeavyTailed())
    shake(model)
    mean, variance = rest_moments(SoD(), model, batch)
    _, rest = model.likelihood.at(batch.X_s, batch.X_b, draws())
    means, variances = rest.predictive(mean, variance)
    assert means.shape == variances.shape == (8 * 4, *mean.shape[1:])
    torch.testing.assert_close(means.mean(0), mean.mean(0))
    noise = model.likelihood.mean_noise_variance
    torch.testing.assert_close(variances.mean(0), variance.mean(0) + noise)
    torch.testing.assert_close(noise, model.noise_variance * model.likelihood.levels().mean())


def test_labels_need_no_axis_for_the_samples():
    model, batch = problem(SoD(), HeavyTailed())
    _, rest = model.likelihood.at(batch.X_s, batch.X_b, draws())
    mean, variance = rest_moments(SoD(), model, batch)
    with_axis = rest.log_predictive_density(batch.y_b, mean, variance)
    assert torch.equal(rest.log_predictive_density(batch.y_b[0], mean, variance), with_axis)
    assert torch.equal(rest.log_density(batch.y_b[0], mean), rest.log_density(batch.y_b, mean))
