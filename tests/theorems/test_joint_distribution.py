"""The distribution of a hidden layer's draws is that of Appendix B.2: blocks A, B, C, D."""

import math

import pytest
import torch
from helpers import FAMILIES, build, data, everything, fresh, prior, q_of_subset, randomise

from sodgp.layers.contract import Points

M, R, T = 3, 3, 60_000


def appendix(layer, batch):
    """Mean [D, M + R], Cov [D, M + R, M + R] of Z, and the residual covariance V of the rest."""
    K, mean = prior(layer, everything(batch)[0], M)
    K_ss, K_sr, K_rr = K[:M, :M], K[:M, M:], K[M:, M:]
    m, Sigma = q_of_subset(layer, K_ss, mean[:M])
    G = torch.linalg.inv(K_ss) @ K_sr
    V = K_rr - K_sr.mT @ G
    A, B, D = Sigma, Sigma @ G, V + G.mT @ Sigma @ G
    covariance = torch.cat([torch.cat([A, B], -1), torch.cat([B.mT, D], -1)], -2)
    mean_rest = mean[M:].mT + (m - mean[:M].mT) @ G
    noise = layer.noise_variance.detach() * torch.eye(M + R, dtype=torch.float64)
    return torch.cat([m, mean_rest], -1), covariance + noise, V


@torch.no_grad()
def draws_of(family, coupling):
    batch = data(60, M, R)
    model = randomise(build([2], 2, size=M, family=family, linear=True), 61)
    layer = model.layers[0]
    points, _ = layer.propagate(Points(batch.X_s, batch.X_b), fresh(62, T), coupling)
    return torch.cat(points, -2).permute(2, 1, 0), *appendix(layer, batch)


def deviations(Z, mean, covariance):
    """Sample mean and covariance against the claimed ones, in standard errors."""
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    mean_error = (Z.mean(-1) - mean) / (variance / T).sqrt()
    centred = Z - mean.unsqueeze(-1)
    sample = centred @ centred.mT / T
    error = ((variance.unsqueeze(-1) * variance.unsqueeze(-2) + covariance.square()) / T).sqrt()
    return mean_error.abs(), ((sample - covariance) / error).abs()


@pytest.mark.parametrize("family", FAMILIES)
def test_joint_draws_follow_all_blocks(family):
    Z, mean, covariance, _ = draws_of(family, "joint")
    mean_error, error = deviations(Z, mean, covariance)
    assert mean_error.max() < 4.5
    assert error.max() < 4.5


@pytest.mark.parametrize("family", FAMILIES)
def test_ancestral_draws_follow_the_blocks_that_the_bound_sees(family):
    Z, mean, covariance, V = draws_of(family, "ancestral")
    # Rows of the rest are independent given F_S: their residuals do not covary.
    covariance[:, M:, M:] -= V - torch.diag(V.diagonal())
    mean_error, error = deviations(Z, mean, covariance)
    assert mean_error.max() < 4.5
    assert error.max() < 4.5
    assert float((V - torch.diag(V.diagonal())).abs().max()) > 30 * float(covariance.max()) / math.sqrt(T)


@pytest.mark.parametrize("family", FAMILIES)
def test_marginal_draws_keep_only_the_diagonal(family):
    Z, mean, covariance, _ = draws_of(family, "marginal")
    mean_error, error = deviations(Z, mean, torch.diag_embed(covariance.diagonal(dim1=-2, dim2=-1)))
    assert mean_error.max() < 4.5
    assert error.max() < 4.5


@pytest.mark.parametrize("coupling", ["ancestral", "marginal", "joint"])
@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_of_a_layer_are_drawn_independently(family, coupling):
    Z, mean, covariance, _ = draws_of(family, coupling)
    scaled = (Z - mean.unsqueeze(-1)) / covariance.diagonal(dim1=-2, dim2=-1).sqrt().unsqueeze(-1)
    across = scaled[0] @ scaled[1].mT / math.sqrt(T)
    assert across.abs().max() < 4.5


@torch.no_grad()
def test_both_families_make_the_same_draws_after_conversion():
    batch = data(60, M, R)
    whitened = randomise(build([2], 2, size=M, linear=True), 61)
    paper = build([2], 2, size=M, family="paper", linear=True)
    paper.load_state_dict(whitened.state_dict())
    K, mean = prior(whitened.layers[0], batch.X_s[0])
    L = torch.linalg.cholesky(K)
    first = paper.layers[0]
    first.q_mean.copy_(mean + L @ whitened.layers[0].q_mean)
    first.q_factor.copy_(L @ whitened.layers[0].q_factor.tril())
    for coupling in ("ancestral", "marginal", "joint"):
        ours, theirs = (
            m.layers[0].propagate(Points(batch.X_s, batch.X_b), fresh(62, 5), coupling) for m in (whitened, paper)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
