"""One Gaussian noise for all rows, and the terms of the objectives: expected and predictive log density."""

import math

import pytest
import torch
from noisy import draws, problem, rest_moments, shake
from problems import randn
from protocols import keeps
from torch.distributions import Normal

from sodgp.errors import ConfigurationError
from sodgp.inference.dsvi import DSVI
from sodgp.inference.sod import SoD
from sodgp.likelihoods import Gaussian, HeavyTailed
from sodgp.likelihoods.contract import Likelihood, LikelihoodOptions, RowLikelihood, Sizes
from sodgp.likelihoods.gaussian import (
    GaussianLikelihood,
    expected_log_density,
    normal_log_density,
    total_log_density,
)
from sodgp.predictive.density import log_mixture


def rows_of(likelihood):
    X = randn(3, 1, 4, 2)
    return likelihood.at(X, X, draws())[1]


def test_it_keeps_the_protocols():
    likelihood = Gaussian().build(Sizes(subset=4, input_dim=2, n_outputs=2))
    assert isinstance(Gaussian(), LikelihoodOptions)
    assert keeps(likelihood, Likelihood)
    assert isinstance(rows_of(likelihood), RowLikelihood)
    assert likelihood.kl() is None
    assert likelihood.n_parameters == 2
    assert likelihood.continues(GaussianLikelihood(2, 0.1))
    assert not likelihood.continues(HeavyTailed().build(Sizes(subset=4, input_dim=2, n_outputs=2)))


def test_densities_by_hand():
    y, f, variance = randn(0, 1, 5, 2), randn(1, 7, 5, 2), randn(2, 7, 5, 2).square() + 0.1
    likelihood = GaussianLikelihood(2, torch.tensor([0.3, 0.7], dtype=torch.float64))
    rows, sigma2 = rows_of(likelihood), torch.tensor([0.3, 0.7], dtype=torch.float64)
    torch.testing.assert_close(rows.log_density(y, f), Normal(f, sigma2.sqrt()).log_prob(y))
    predictive = Normal(f, (variance + sigma2).sqrt()).log_prob(y)
    torch.testing.assert_close(rows.log_predictive_density(y, f, variance), predictive)
    expected = Normal(f, sigma2.sqrt()).log_prob(y) - 0.5 * variance / sigma2
    torch.testing.assert_close(expected_log_density(y, f, variance, sigma2), expected)
    totals = total_log_density(y, f, variance.sum(-2, keepdim=True), sigma2.reshape(1, 1, 2))
    torch.testing.assert_close(totals, expected.sum((-2, -1)).mean(0))
    torch.testing.assert_close(torch.stack(rows.predictive(f, variance)), torch.stack([f, variance + sigma2]))
    sites = rows.sites(y)
    assert torch.equal(sites.label, y)
    torch.testing.assert_close(sites.variance, sigma2.reshape(1, 1, 2))


def test_the_mixture_density():
    y, mean, variance = randn(0, 1, 5, 2), randn(1, 7, 5, 2), randn(2, 7, 5, 2).square() + 0.1
    by_hand = Normal(mean, variance.sqrt()).log_prob(y).exp().mean(0).log().sum()
    torch.testing.assert_close(log_mixture(normal_log_density(y, mean, variance)).sum(), by_hand)


@pytest.mark.parametrize("method", [SoD(), SoD(tie_label_noise=False), DSVI()], ids=["SoD", "SoD, two noises", "DSVI"])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_rest_has_its_expected_or_its_predictive_density(method, n_layers):
    model, batch = problem(method, n_layers=n_layers)
    shake(model)
    ours, theirs = (
        method.set_params(objective=objective).terms(model, batch, draws()) for objective in ("predictive", "bound")
    )
    mean, variance = rest_moments(method, model, batch)
    sigma2 = model.noise_variance[..., None, :]
    expected = expected_log_density(batch.y_b, mean, variance, sigma2).mean(0).sum()
    predictive = log_mixture(normal_log_density(batch.y_b, mean, variance + sigma2)).sum()
    torch.testing.assert_close(theirs["rest"], expected)
    torch.testing.assert_close(ours["rest"], predictive)
    # Jensen's inequality, twice: over f and over the samples.
    assert predictive.item() >= expected.item()
    for name in set(theirs) - {"rest"}:
        torch.testing.assert_close(ours[name], theirs[name])


def test_the_noise_can_be_set():
    likelihood = GaussianLikelihood(2, 0.1)
    likelihood.noise_variance = torch.tensor([[0.2, 0.4]], dtype=torch.float64)
    torch.testing.assert_close(likelihood.noise_variance.detach(), torch.tensor([[0.2, 0.4]], dtype=torch.float64))
    assert torch.equal(likelihood.mean_noise_variance, likelihood.noise_variance)
    assert math.isclose(GaussianLikelihood(1, 0.0).noise_variance.item(), 1e-6, rel_tol=0.1)


@pytest.mark.parametrize(
    ("share", "message"), [(1.0, "every observation an outlier"), (1.5, "from 0 to 1"), (-0.1, "from 0")]
)
def test_bad_outlier_probabilities(share, message):
    with pytest.raises(ConfigurationError, match=message):
        Gaussian(outlier_probability=share)
