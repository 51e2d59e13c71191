"""The two families of q(F_S): draws, moments, q_hat."""

import math

import pytest
import torch
from gpytorch.kernels import RBFKernel
from torch.distributions import MultivariateNormal, kl_divergence

from sodgp.layers.families import FAMILIES, Family
from sodgp.layers.prior import condition
from sodgp.linalg.cholesky import Jitter

M, D, T = 4, 3, 5


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(params=FAMILIES)
def family(request):
    return FAMILIES[request.param]


@pytest.fixture
def setting():
    """(m, C, cond, mean_s), the layer inputs differing between samples."""
    Z = randn(0, T, M, 2)
    cond = condition(RBFKernel().double(), Z, randn(1, T, 2, 2), Jitter(0.05))
    return randn(2, 1, M, D), randn(3, 1, D, M, M).tril(), cond, Z @ randn(4, 2, D)


def covariance(q):
    return q.factor @ q.factor.mT


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_families_keep_the_protocol(family):
    assert isinstance(family, Family)


def test_draws_are_the_affine_images_of_the_noise(family, setting):
    m, C, cond, mean_s = setting
    noise = randn(5, T, M, D)
    f, w = family.draw(m, C, cond, mean_s, noise)
    q = family.in_f(m, C, cond, mean_s)
    for d in range(D):
        factor = q.factor.expand(T, D, M, M)[:, d]
        close(f[..., d], q.mean.expand(T, M, D)[..., d] + (factor @ noise[..., d, None])[..., 0])
    close(cond.L @ w, f - mean_s)


def test_moments_of_w_are_those_of_f_in_other_coordinates(family, setting):
    _, _, cond, mean_s = setting
    f, w = family.in_f(*setting), family.in_w(*setting)
    close(mean_s + cond.L @ w.mean, f.mean.expand(T, M, D))
    L = cond.L.unsqueeze(-3)
    close(L @ covariance(w) @ L.mT, covariance(f).expand(T, D, M, M))
    close(f.variance, covariance(f).diagonal(dim1=-2, dim2=-1).mT)


def test_paper_family_does_not_depend_on_the_inputs_and_the_whitened_one_does(setting):
    assert FAMILIES["paper"].in_f(*setting).mean.shape[0] == 1
    assert FAMILIES["whitened"].in_f(*setting).mean.shape[0] == T


def test_kl_of_every_sample(family, setting):
    _, _, cond, mean_s = setting
    q = family.in_f(*setting)
    K = (cond.L @ cond.L.mT).unsqueeze(-3)
    ours = family.kl(*setting)
    theirs = kl_divergence(
        MultivariateNormal(q.mean.mT.expand(T, D, M), covariance(q).expand(T, D, M, M)),
        MultivariateNormal(mean_s.mT, K.expand(T, D, M, M)),
    ).sum(-1)
    close(ours.expand(T), theirs)


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("v", [1e-5, 0.3, 1e4])
def test_q_hat_is_bayes_rule_for_each_sample(family, setting, v, by_row):
    m, C, cond, mean_s = setting
    y = randn(6, 1, M, D)
    noise = torch.tensor([[[1.0, 2.0, 0.5]]], dtype=torch.float64) * v
    if by_row:
        noise = noise * torch.linspace(0.3, 3.0, M, dtype=torch.float64)[:, None]
    q_hat = family.label_informed(m, C, cond, mean_s, y, noise)
    q = family.in_f(*setting)
    Sigma, mean = covariance(q), q.mean.mT.unsqueeze(-1)
    noisy = Sigma + torch.diag_embed(noise[0].expand(M, D).mT)
    gain = torch.linalg.solve(noisy, Sigma).mT
    posterior = Sigma - gain @ Sigma
    hat_mean = (mean + gain @ (y.mT.unsqueeze(-1) - mean)).squeeze(-1).mT
    torch.testing.assert_close(q_hat.f.mean, hat_mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(covariance(q_hat.f), posterior, rtol=1e-6, atol=1e-9)
    # The same in the coordinates w.
    close((mean_s + cond.L @ q_hat.w.mean), q_hat.f.mean.expand(T, M, D))
    L = cond.L.unsqueeze(-3)
    close(L @ covariance(q_hat.w) @ L.mT, covariance(q_hat.f).expand(T, D, M, M))
    assert q_hat.kl.shape == (T,)
    relative = covariance(q_hat.f).diagonal(dim1=-2, dim2=-1) / noise[0].expand(M, D).mT
    torch.testing.assert_close(q_hat.relative_variance, relative.sum(-1), rtol=1e-6, atol=1e-9)


def test_kl_of_q_hat(family, setting):
    m, C, cond, mean_s = setting
    noise = torch.full((1, 1, D), 0.3, dtype=torch.float64)
    q_hat = family.label_informed(m, C, cond, mean_s, randn(6, 1, M, D), noise)
    K = (cond.L @ cond.L.mT).unsqueeze(-3).expand(T, D, M, M)
    theirs = kl_divergence(
        MultivariateNormal(q_hat.f.mean.mT.expand(T, D, M), covariance(q_hat.f).expand(T, D, M, M)),
        MultivariateNormal(mean_s.mT, K),
    )
    close(q_hat.kl, theirs.sum(-1))


def test_a_huge_label_noise_leaves_q_as_it_is(family, setting):
    m, C, cond, mean_s = setting
    noise = torch.full((1, 1, D), 1e12, dtype=torch.float64)
    q_hat = family.label_informed(m, C, cond, mean_s, randn(6, 1, M, D), noise)
    close(q_hat.f.mean, family.in_f(*setting).mean)
    close(covariance(q_hat.f), covariance(family.in_f(*setting)))
    close(q_hat.kl, family.kl(*setting).expand(T))


def test_signs_of_the_factor_columns_do_not_matter(family, setting):
    m, C, cond, mean_s = setting
    flipped = C * torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64)
    noise = torch.full((1, 1, D), 0.3, dtype=torch.float64)
    y = randn(6, 1, M, D)
    close(family.kl(m, flipped, cond, mean_s), family.kl(m, C, cond, mean_s))
    ours, theirs = (family.label_informed(m, c, cond, mean_s, y, noise) for c in (flipped, C))
    close(ours.kl, theirs.kl)
    close(ours.f.mean, theirs.f.mean)
    close(covariance(ours.f), covariance(theirs.f))


def test_a_singular_q_is_conditioned_without_inverting_it(family, setting):
    m, C, cond, mean_s = setting
    C = 1e-9 * C
    noise = torch.full((1, 1, D), 0.3, dtype=torch.float64)
    q_hat = family.label_informed(m, C, cond, mean_s, randn(6, 1, M, D), noise)
    close(q_hat.f.mean, family.in_f(m, C, cond, mean_s).mean)
    assert bool(torch.isfinite(q_hat.kl).all())
    assert float(q_hat.kl.detach().min()) > -M * D * math.log(1e-9) * 0.5


def test_sites_by_natural_parameters_are_labels_with_noise(family, setting):
    m, C, cond, mean_s = setting
    y = randn(5, 1, M, D)
    for v in (torch.full((1, 1, D), 0.3).double(), randn(6, 1, M, D).square() + 0.05):
        by_labels = family.label_informed(m, C, cond, mean_s, y, v)
        by_sites = family.site_informed(m, C, cond, mean_s, y / v, v.reciprocal().expand_as(y))
        for ours, theirs in zip(
            (by_sites.mean, by_sites.f.variance, *by_sites.w, by_sites.kl),
            (by_labels.mean, by_labels.f.variance, *by_labels.w, by_labels.kl),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


def test_sites_of_zero_leave_q_as_it_is(family, setting):
    m, C, cond, mean_s = setting
    zero = torch.zeros(1, M, D).double()
    q_hat = family.site_informed(m, C, cond, mean_s, zero, zero)
    plain = family.in_f(m, C, cond, mean_s)
    torch.testing.assert_close(q_hat.mean, plain.mean.expand_as(q_hat.mean))
    torch.testing.assert_close(q_hat.f.variance, plain.variance.expand_as(q_hat.f.variance))
    torch.testing.assert_close(q_hat.kl, family.kl(m, C, cond, mean_s).expand_as(q_hat.kl), rtol=1e-9, atol=1e-9)
