"""Hidden layers of the mean-field deep GP: q(Z), its state, and expected squared errors."""

import math

import pytest
import torch
from protocols import keeps
from torch.distributions import Normal

from sodgp.kernels.make import make_kernel
from sodgp.layers.contract import Layer, Points
from sodgp.layers.inducing import Moments
from sodgp.layers.latent import LatentGaussian, LatentLayer, expected_squared_error
from sodgp.layers.prior import HiddenMean
from sodgp.linalg.draws import FreshDraws

N, M, D_IN, D = 9, 4, 2, 3


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fresh(seed, n_samples):
    return FreshDraws(torch.Generator().manual_seed(seed), n_samples)


def make(d_in=D_IN, width=D):
    layer = LatentLayer(
        make_kernel("rbf", d_in),
        HiddenMean(0.7 * randn(0, d_in, width)),
        1.2 * randn(1, M, d_in),
        width=width,
        latent_mean=randn(2, N, width),
        latent_variance=0.1,
        layer_noise_variance=0.05,
    )
    with torch.no_grad():
        layer.q_mean.copy_(0.7 * randn(3, M, width))
        layer.q_factor.add_(0.3 * randn(4, width, M, M).tril())
    return layer


def test_it_is_a_layer():
    layer = make()
    assert keeps(layer, Layer)
    hidden = M * D_IN + M * D + D * M * (M + 1) // 2 + (D_IN + 1) + 1 + 2 * N * D
    assert layer.n_parameters == hidden


def test_entropy_is_that_of_normal_distributions():
    q = LatentGaussian(randn(0, N, D), 0.3)
    with torch.no_grad():
        q.raw_variance.add_(randn(1, N, D))
    by_hand = Normal(q.moments.mean, q.moments.variance.sqrt()).entropy().sum()
    torch.testing.assert_close(q.entropy(), by_hand)
    assert math.isclose(LatentGaussian(randn(0, N, D), 0.3).moments.variance.mean().item(), 0.3, rel_tol=1e-5)


def test_a_state_has_rows_in_training_only():
    q = LatentGaussian(randn(0, N, D), 0.3)
    assert set(q.train().state_dict()) > {"mean", "raw_variance", "n_rows"}
    state = q.eval().state_dict()
    assert not any(N in values.shape for values in state.values())
    empty = LatentGaussian(randn(0, 0, D), 0.3)
    empty.load_state_dict(state)
    assert empty.n_parameters == q.n_parameters == 2 * N * D
    empty.load_state_dict(q.train().state_dict())
    assert torch.equal(empty.mean, q.mean)


@pytest.mark.parametrize("width", [2, 3])
def test_vanishing_variances_give_the_error_of_certain_inputs(width):
    layer, mu = make(width), randn(5, 1, N, width)
    y = randn(6, 1, N, D)
    target = Moments(y, torch.zeros_like(y))
    ours = expected_squared_error(layer, Moments(mu, torch.zeros_like(mu)), target)
    torch.testing.assert_close(ours, expected_squared_error(layer, mu, target), rtol=1e-9, atol=1e-9)


def test_expected_squared_error_by_sampling():
    """Inputs, targets and f are drawn: f from the marginals of q at the drawn inputs."""
    layer, count = make(), 200_000
    inputs = Moments(randn(5, 1, N, D_IN), 0.1 + 0.1 * randn(6, 1, N, D_IN).square())
    target = Moments(randn(7, 1, N, D), 0.2 * torch.ones(1, N, D).double())
    with torch.no_grad():
        ours = expected_squared_error(layer, inputs, target)
        z = inputs.mean + inputs.variance.sqrt() * randn(8, count, N, D_IN)
        f = layer.marginals(z)
        values = ((target.mean - f.mean).square() + f.variance + target.variance).sum(-2)
    error = values.std(0) / math.sqrt(count)
    assert bool(((ours[0] - values.mean(0)).abs() < 4.5 * error).all())


@pytest.mark.parametrize("coupling", ["marginal", "joint"])
def test_predictive_moments_match_the_distribution_of_z(coupling):
    layer, X, count = make(), randn(40, 1, 3, D_IN), 100_000
    mean, variance = layer.marginals(X)
    points, kl = layer.propagate(Points(X[..., :0, :], X), fresh(41, count), coupling)
    z = points.rest.detach()
    expected = (variance + layer.layer_noise_variance).squeeze(0).detach()
    assert z.shape == (count, 3, D)
    torch.testing.assert_close(kl, layer.kl())
    assert ((z.mean(0) - mean[0]).abs() < 5 * (expected / count).sqrt()).all()
    torch.testing.assert_close(z.var(0), expected, rtol=0.03, atol=0.0)
