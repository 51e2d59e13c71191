"""Effective sample size and R-hat where their values are known."""

import math

import numpy as np
import pytest

from sodgp.inference.diagnostics import effective_sample_size, over_chains, r_hat, rank_normalise


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def autoregressive(seed, phi, chains, n):
    """Stationary AR(1) chains of unit variance."""
    noise = normal(seed, chains, n)
    x = np.empty_like(noise)
    x[:, 0] = noise[:, 0]
    for t in range(1, n):
        x[:, t] = phi * x[:, t - 1] + math.sqrt(1.0 - phi**2) * noise[:, t]
    return x


@pytest.mark.parametrize("ranks", [True, False])
def test_independent_draws_count_in_full(ranks):
    x = normal(0, 4, 2500)
    assert effective_sample_size(x, ranks=ranks) == pytest.approx(10_000, rel=0.08)
    assert r_hat(x) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("phi", [0.9, 0.5, -0.5])
def test_autoregressive_chains(phi):
    x = autoregressive(1, phi, 4, 20_000)
    truth = x.size * (1.0 - phi) / (1.0 + phi)
    assert effective_sample_size(x, ranks=False) == pytest.approx(truth, rel=0.12)
    # Ranks of a Gaussian chain are, in the limit, the chain itself.
    assert effective_sample_size(x) == pytest.approx(truth, rel=0.12)


def test_the_size_is_the_variance_of_the_mean():
    x = autoregressive(2, 0.8, 400, 1000)
    sizes = [effective_sample_size(chain[None], ranks=False) for chain in x]
    assert np.median(sizes) == pytest.approx(1.0 / x.mean(1).var(), rel=0.2)


def test_alternating_chains_are_capped():
    x = autoregressive(3, -0.999, 1, 1000)
    assert effective_sample_size(x) == pytest.approx(1000 * math.log10(1000))


def test_shifted_chains_disagree():
    x = normal(4, 4, 1000)
    shifted = x + np.array([0.0, 0.0, 0.0, 1.0])[:, None]
    # Between-variance 1/4 over eight half-chains of unit within-variance: sqrt(1 + B/n / W), a little less by ranks.
    expected = math.sqrt(1.0 + np.array([0, 0, 0, 1] * 2).var(ddof=1))
    assert r_hat(shifted) == pytest.approx(expected, rel=0.03)
    assert effective_sample_size(shifted) < 60


def test_chains_of_another_spread_or_with_a_trend_disagree():
    x = normal(5, 4, 1000)
    assert r_hat(x * np.array([1.0, 1.0, 1.0, 3.0])[:, None]) > 1.05
    assert r_hat(x[:1] + np.linspace(-1.0, 1.0, 1000)) > 1.1


def test_heavy_tails_and_monotone_maps_change_nothing():
    x = autoregressive(6, 0.5, 2, 1000)
    assert r_hat(x) >= 1.0 - 1e-3
    assert effective_sample_size(np.exp(5.0 * x)) == effective_sample_size(x)


def test_ranks():
    z = rank_normalise(np.array([[3.0, 1.0], [2.0, 2.0]]))
    assert z[0, 0] == pytest.approx(-z[0, 1])
    assert z[1] == pytest.approx([0.0, 0.0])


@pytest.mark.parametrize("x", [np.zeros((2, 50)), np.full((1, 50), np.nan), normal(7, 2, 5)], ids=str)
def test_nothing_is_said_of_useless_chains(x):
    assert math.isnan(effective_sample_size(x))
    assert math.isnan(r_hat(x))


def test_two_valued_chains():
    x = np.random.default_rng(8).integers(0, 2, size=(2, 500)).astype(float)
    assert effective_sample_size(x) > 500
    assert r_hat(x) == pytest.approx(1.0, abs=0.02)


def test_many_quantities_at_once():
    x = normal(9, 3, 2, 100)
    sizes, r_hats = over_chains(x)
    assert sizes.shape == r_hats.shape == (3,)
    assert sizes[1] == effective_sample_size(x[1])
    assert r_hats[2] == r_hat(x[2])
