"""Noise that varies over the inputs."""

import math

import torch
from noisy import draws, problem, shake
from problems import randn
from torch.distributions import MultivariateNormal

from sodgp.inference.contract import bound
from sodgp.inference.sod import SoD
from sodgp.likelihoods import Heteroscedastic
from sodgp.likelihoods.contract import Likelihood, LikelihoodOptions, RowLikelihood
from sodgp.linalg.cholesky import Jitter


def set_noise(model, mean, factor):
    process = model.likelihood.process
    with torch.no_grad():
        process.q_mean.copy_(mean)
        process.q_factor.copy_(factor * torch.eye(len(mean), dtype=torch.float64))


def test_it_keeps_the_protocols():
    model, batch = problem(SoD(), Heteroscedastic())
    assert isinstance(Heteroscedastic(), LikelihoodOptions)
    assert isinstance(model.likelihood, Likelihood)
    for rows in model.likelihood.at(batch.X_s, batch.X_b, draws()):
        assert isinstance(rows, RowLikelihood)
    assert not model.likelihood.continues(model.likelihood)


def test_noise_without_variance_is_constant():
    method = SoD()
    model, batch = problem(method, Heteroscedastic())
    reference, _ = problem(method)
    shake(model)
    set_noise(model, torch.zeros(10, 1, dtype=torch.float64), 1.0)
    model.likelihood.process.kernel.outputscale = torch.tensor(1e-12, dtype=torch.float64)
    reference.load_state_dict({k: v for k, v in model.state_dict().items() if "process" not in k})
    ours, theirs = method.terms(model, batch, draws()), method.terms(reference, batch, draws())
    assert ours.pop("kl_noise").abs() < 1e-9
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-5, atol=1e-5)


def test_all_rows_in_the_subset_give_the_evidence_of_that_noise():
    """One layer, q(F_S) = the prior, g known: q_hat is the exact posterior, and the bound the exact log evidence."""
    method = SoD()
    model, batch = problem(method, Heteroscedastic(), rows=12, size=12, n_layers=1, jitter=Jitter(1e-9))
    set_noise(model, randn(3, 12, 1), 1e-5)
    # Without rows outside the subset their term is zero.
    terms = method.terms(model, batch, draws(1))
    kl = terms.pop("kl_noise")
    process = model.likelihood.process
    g, _ = process.at(batch.X_s, batch.X_s)
    noise = model.noise_variance.squeeze() * g.mean.squeeze().exp()
    K = model.last.kernel(batch.X_s[0]).to_dense() + 1e-9 * torch.eye(12, dtype=torch.float64)
    evidence = MultivariateNormal(torch.zeros(12, dtype=torch.float64), K + noise.diag()).log_prob(batch.y_s[0, :, 0])
    torch.testing.assert_close(bound(terms), evidence, rtol=1e-6, atol=1e-6)
    # KL(N(m, s^2 I) || N(0, I)) by hand.
    m, s = process.q_mean, 1e-5
    by_hand = 0.5 * (12 * s**2 + m.square().sum() - 12) - 12 * math.log(s)
    torch.testing.assert_close(-kl, by_hand)


def test_moments_of_the_log_noise_by_hand():
    model, batch = problem(SoD(), Heteroscedastic())
    shake(model)
    process = model.likelihood.process
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


def test_labels_have_the_expected_precision():
    model, batch = problem(SoD(), Heteroscedastic())
    shake(model)
    subset, _ = model.likelihood.at(batch.X_s, batch.X_b, draws())
    g, _ = model.likelihood.process.at(batch.X_s, batch.X_b)
    sites = subset.sites(batch.y_s)
    assert torch.equal(sites.label, batch.y_s)
    by_hand = model.noise_variance * (g.mean - 0.5 * g.variance).exp()
    torch.testing.assert_close(sites.variance, by_hand)
