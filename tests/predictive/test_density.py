"""The log density of mixtures, as training and prediction use it."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from sodgp.errors import InputError
from sodgp.predictive import density
from sodgp.predictive.density import log_mixture


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("dim", [-3, 0, 1])
def test_the_log_of_the_mean_density(dim):
    values = randn(0, 5, 4, 3)
    torch.testing.assert_close(log_mixture(values, dim=dim), values.exp().mean(dim).log())


def test_weights_are_relative():
    values, weights = randn(0, 5, 4), randn(1, 5, 4).exp()
    expected = ((weights * values.exp()).sum(0) / weights.sum(0)).log()
    torch.testing.assert_close(log_mixture(values, weights, dim=0), expected)
    torch.testing.assert_close(log_mixture(values, 7.0 * weights, dim=0), expected)
    torch.testing.assert_close(log_mixture(values, torch.ones_like(values), dim=0), log_mixture(values, dim=0))


def test_components_far_from_the_data_do_not_underflow():
    assert log_mixture(torch.tensor([-5000.0, -1e9]), dim=0).item() == pytest.approx(-5000.0 - math.log(2))


def test_gradients_share_a_row_among_its_components():
    values = randn(0, 5, 4, 3).requires_grad_()
    log_mixture(values).sum().backward()
    torch.testing.assert_close(values.grad, values.detach().softmax(-3))


def test_log_density_and_cdf_are_scipys():
    mu, sigma, y = randn(0, 6, 4), randn(1, 6, 4).exp(), randn(2, 4)
    weights = torch.ones_like(mu)
    expected = stats.norm.pdf(y, mu, sigma).mean(0)
    np.testing.assert_allclose(density.log_density(mu, sigma**2, weights, y).exp(), expected, rtol=1e-12)
    np.testing.assert_allclose(density.cdf(mu, sigma**2, weights, y), stats.norm.cdf(y, mu, sigma).mean(0), rtol=1e-12)


def test_blocks_cover_all_cells_once(monkeypatch):
    monkeypatch.setattr(density, "CHUNK_ELEMENTS", 20)
    slices = list(density.blocks(17, depth=6))
    assert [cell for block in slices for cell in range(block.start, block.stop)] == list(range(17))
    assert max(6 * (block.stop - block.start) for block in slices) <= 20
    assert len(list(density.blocks(3, depth=50))) == 3


def test_tails_of_an_interval():
    assert density.tail_probability(0.9) == pytest.approx(0.05)
    for level in (0.0, 1.0, -0.5, np.nan):
        with pytest.raises(InputError, match="level must"):
            density.tail_probability(level)
    with pytest.raises(InputError, match=r"write 0\.9"):
        density.tail_probability(90.0)
