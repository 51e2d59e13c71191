"""Known noise of every row: against the exact GP, against algebra written with inverses."""

import pytest
import torch
from helpers import FAMILIES, NUGGET, fresh, predict, prior, randn, randomise, sites
from torch.distributions import MultivariateNormal, Normal

from sodgp.inference.contract import Batch, TrainingSet, bound
from sodgp.inference.sod import SoD
from sodgp.layers.contract import Points
from sodgp.likelihoods import Gaussian
from sodgp.likelihoods.known_noise import KnownNoise
from sodgp.model.architecture import Architecture

M, R, P = 5, 4, 2


def noisy(seed, rows):
    """Noise variances between 0.02 and 2, their mean, and what is stored of them."""
    variances = 10.0 ** (randn(seed, rows, P).clamp(-2, 2) / 2 - 0.7)
    return variances, variances.mean(0), variances.mean(0) / variances


def model_and_batch(family, n_rest, *, known=True, hidden=()):
    variances, mean, precision = noisy(3, M + n_rest)
    X, y = randn(1, M + n_rest, 2), randn(2, M + n_rest, P)
    weights = [torch.eye(2, dtype=torch.float64) for _ in hidden]
    architecture = Architecture(
        2,
        P,
        M,
        weights,
        kernel="rbf-iso",
        jitter=NUGGET,
        likelihood=KnownNoise(variance=mean, precision=precision[:M]) if known else Gaussian(),
    )
    method = SoD(parameterization=family)
    model = method.build(architecture, TrainingSet(X[:M], y[:M], X[M:], y[M:], precision[M:]), torch.Generator())
    parts = [t.unsqueeze(0) for t in (X[:M], y[:M], X[M:], y[M:])]
    return method, model, Batch(*parts, 1.0 if n_rest else 0.0, precision[M:].unsqueeze(0)), variances


def test_all_rows_in_the_subset_are_the_exact_gp():
    method, model, batch, variances = model_and_batch("whitened", 0)
    X, y = batch.X_s[0], batch.y_s[0]
    new = randn(9, 3, 2)
    K, _ = prior(model.last, torch.cat([X, new]), M)
    evidence = torch.stack(
        [
            MultivariateNormal(torch.zeros(M).double(), K[:M, :M] + variances[:, p].diag()).log_prob(y[:, p])
            for p in range(P)
        ]
    ).sum()
    torch.testing.assert_close(bound(method.terms(model, batch, fresh(0))), evidence, rtol=1e-10, atol=1e-10)
    mean, variance = predict(method, model, batch.X_s, batch.y_s, new.unsqueeze(0), fresh(0))
    for p in range(P):
        gain = K[M:, :M] @ torch.linalg.inv(K[:M, :M] + variances[:, p].diag())
        torch.testing.assert_close(mean[0, :, p], gain @ y[:, p], rtol=1e-9, atol=1e-9)
        exact = K[M:, M:] - gain @ K[:M, M:]
        torch.testing.assert_close(variance[0, :, p], exact.diagonal(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_term_against_inverses(family):
    method, model, batch, _ = model_and_batch(family, R)
    randomise(model, 5)
    terms = method.terms(model, batch, fresh(0))
    layer = model.last
    cond = layer.condition(Points(batch.X_s, batch.X_b))
    q = layer.family.in_f(*layer.variational_parameters(), cond, layer.mean(batch.X_s))
    K, _ = prior(layer, torch.cat([batch.X_s[0], batch.X_b[0]]), M)
    sigma = model.noise_variance[0] / noisy(3, M + R)[2]
    W = torch.linalg.solve(K[:M, :M], K[:M, M:])
    rest = subset = kl = 0.0
    for p in range(P):
        S = q.factor[0, p] @ q.factor[0, p].mT
        v = sigma[:M, p]
        S_hat = torch.linalg.inv(torch.linalg.inv(S) + (1 / v).diag())
        m_hat = S_hat @ (torch.linalg.solve(S, q.mean[0, :, p]) + batch.y_s[0, :, p] / v)
        subset += (Normal(m_hat, v.sqrt()).log_prob(batch.y_s[0, :, p]) - 0.5 * S_hat.diagonal() / v).sum()
        mean = W.mT @ m_hat
        variance = (K[M:, M:] - W.mT @ (K[:M, :M] - S_hat) @ W).diagonal()
        s_r = sigma[M:, p]
        rest += (Normal(mean, s_r.sqrt()).log_prob(batch.y_b[0, :, p]) - 0.5 * variance / s_r).sum()
        q_hat, p_s = MultivariateNormal(m_hat, S_hat), MultivariateNormal(torch.zeros(M).double(), K[:M, :M])
        kl -= torch.distributions.kl_divergence(q_hat, p_s)
    for name, expected in (("rest", rest), ("subset", subset), ("kl_last", kl)):
        torch.testing.assert_close(terms[name], expected, rtol=1e-7, atol=1e-7, msg=name)


@pytest.mark.parametrize("hidden", [(), (2,)])
def test_equal_noises_are_one_noise(hidden):
    method, plain, batch, _ = model_and_batch("whitened", R, known=False, hidden=hidden)
    _, known, _, _ = model_and_batch("whitened", R, hidden=hidden)
    known.likelihood.subset_precision = torch.ones(M, P, dtype=torch.float64)
    for model in (plain, known):
        model.likelihood.noise_variance = torch.full((1, P), 0.3, dtype=torch.float64)
    ours = method.terms(known, batch._replace(precision_b=torch.ones(1, R, P, dtype=torch.float64)), fresh(0, 3))
    theirs = method.terms(plain, batch._replace(precision_b=None), fresh(0, 3))
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-9, atol=1e-9)


def test_a_row_of_the_rest_counts_as_two_of_twice_its_variance():
    """But for the constants of their densities, which no parameter moves."""
    method, model, batch, variances = model_and_batch("whitened", R)
    twice = Batch(
        batch.X_s,
        batch.y_s,
        *(t.repeat(1, 2, 1) for t in (batch.X_b, batch.y_b)),
        1.0,
        batch.precision_b.repeat(1, 2, 1) / 2,
    )
    gap = method.terms(model, batch, fresh(0))["rest"] - method.terms(model, twice, fresh(0))["rest"]
    constant = Normal(0.0, variances[M:].sqrt()).log_prob(torch.zeros(())) - 2 * Normal(
        0.0, (2 * variances[M:]).sqrt()
    ).log_prob(torch.zeros(()))
    torch.testing.assert_close(gap, constant.sum(), rtol=1e-9, atol=1e-9)


def test_the_label_noise_is_that_of_the_likelihood():
    _, model, batch, variances = model_and_batch("whitened", R)
    torch.testing.assert_close(sites(model, batch.X_s, batch.y_s).variance[0], variances[:M])
    assert not model.likelihood.raw_noise.requires_grad
