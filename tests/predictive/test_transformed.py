"""Distributions of positive numbers by a transform, against integrals, scipy and draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from sodgp.errors import InputError, NumericalError
from sodgp.predictive.derived import Derived
from sodgp.predictive.mixture import GaussianMixture
from sodgp.predictive.power import PowerTransform
from sodgp.predictive.transformed import TransformedMixture

RNG = np.random.default_rng(0)
MEANS, VARIANCES = RNG.normal(size=(3, 4)), RNG.uniform(0.05, 1.5, size=(3, 4))
POWERS = [0.0, 1e-7, 0.3, 1.0, 2.0]


def made(power, centre=3.0):
    name = "box_cox" if power else "log"
    transform = PowerTransform(name, np.array([power]), np.array([centre]))
    return TransformedMixture(GaussianMixture(MEANS, VARIANCES), transform)


def integral(function, dist):
    """Over all y, from quantile to quantile, of every row."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = dist.quantile([0.0, 1e-9, 1e-4, 0.05, 0.3, 0.5, 0.7, 0.95, 1 - 1e-3, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12])
    total = np.zeros(len(dist))
    for low, high in itertools.pairwise(edges):
        for node, weight in zip(nodes, weights, strict=True):
            # The square makes the pole of a density at zero, and its root, smooth.
            place = 0.5 * (1.0 + node)
            total += weight * (high - low) * place * function(low + (high - low) * place**2)
    return total


@pytest.mark.parametrize("power", POWERS)
def test_the_transform_goes_there_and_back(power):
    transform = made(power).transform
    y = np.array([1e-3, 0.5, 3.0, 700.0])
    np.testing.assert_allclose(transform.inverse(transform.forward(y)), y, rtol=1e-9)
    step = 1e-6 * y
    slope = (transform.forward(y + step) - transform.forward(y - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(transform.log_slope(y)), slope, rtol=1e-3)
    assert transform.forward(np.zeros(1)) == transform.least
    assert transform.inverse(np.array([-1e12 if power else -np.inf])) == 0.0


@pytest.mark.parametrize("power", POWERS)
def test_the_density_integrates_to_one_and_has_these_moments(power):
    dist = made(power)

    def density(y):
        return np.exp(dist.log_prob(y))

    np.testing.assert_allclose(integral(density, dist), 1.0, rtol=1e-4)
    mean = integral(lambda y: y * density(y), dist)
    np.testing.assert_allclose(dist.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(dist.variance, integral(lambda y: (y - mean) ** 2 * density(y), dist), rtol=1e-4)


@pytest.mark.parametrize("power", POWERS)
def test_quantiles_invert_the_cdf(power):
    dist = made(power)
    for level in (1e-6, 0.05, 0.5, 0.95, 1 - 1e-6):
        y = dist.quantile(level)
        np.testing.assert_allclose(dist.cdf(y), level, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(dist.sf(y), 1.0 - level, rtol=1e-8, atol=1e-12)
    assert (dist.quantile(0.0) == 0.0).all()
    assert np.isinf(dist.quantile(1.0)).all()
    assert (dist.cdf(-1.0) == 0.0).all()
    assert (dist.cdf(0.0) == 0.0).all()
    assert np.isneginf(dist.log_prob(0.0)).all()
    scores = np.array([[-6.0, -1.0, 2.0, 9.0]])
    y = dist.quantile_at(scores)[0]
    tails = np.where(scores[0] > 0, dist.sf(y), dist.cdf(y))
    np.testing.assert_allclose(tails, stats.norm.cdf(-np.abs(scores[0])), rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("power", POWERS)
def test_draws_have_its_moments(power):
    dist = made(power)
    draws = dist.sample(100_000, random_state=0)
    assert (draws > 0).all()
    np.testing.assert_allclose(draws.mean(0), dist.mean, rtol=0.03)
    np.testing.assert_allclose((draws < 2.0).mean(0), dist.cdf(2.0), atol=0.01)


def test_draws_of_a_cut_that_hardly_any_component_passes():
    transform = PowerTransform("box_cox", np.ones(1), np.ones(1))
    dist = TransformedMixture(GaussianMixture([[-9.0]], [[4.0]]), transform)
    draws = dist.sample(2000, random_state=0)
    assert (draws > 0).all()
    assert draws.mean() == pytest.approx(dist.mean[0], rel=0.1)


@pytest.mark.parametrize("power", [0.0, 0.3])
def test_the_crps_is_the_integral(power):
    dist = made(power)
    y = np.array([0.5, 2.0, 5.0, 30.0])

    edges = np.linspace(0.0, 1.0, 401)[:, None] ** 2 * np.maximum(dist.quantile(1 - 1e-9), y)
    edges = np.sort(np.concatenate([edges, y[None]]), axis=0)
    x = 0.5 * (edges[1:] + edges[:-1])
    F = np.stack([dist.cdf(each) for each in x])
    expected = (np.diff(edges, axis=0) * np.square(F - (x >= y))).sum(0)
    np.testing.assert_allclose(dist.crps(y), expected, rtol=2e-2)
    np.testing.assert_allclose(Derived.crps(dist, y), dist.crps(y), rtol=1e-6)
    np.testing.assert_allclose(dist.crps(-1.0) - dist.crps(0.0), 1.0)


def test_one_component_is_scipys_lognormal():
    transform = PowerTransform("log", np.zeros(1), np.array([3.0]))
    dist = TransformedMixture(GaussianMixture(MEANS[:1], VARIANCES[:1]), transform)
    other = stats.lognorm(np.sqrt(VARIANCES[0]), scale=3.0 * np.exp(MEANS[0]))
    y = np.array([0.1, 1.0, 3.0, 50.0])
    np.testing.assert_allclose(dist.mean, other.mean())
    np.testing.assert_allclose(dist.variance, other.var())
    np.testing.assert_allclose(dist.log_prob(y), other.logpdf(y))
    np.testing.assert_allclose(dist.cdf(y), other.cdf(y))
    np.testing.assert_allclose(dist.sf(y), other.sf(y))
    np.testing.assert_allclose(dist.quantile(0.3), other.ppf(0.3))


def test_the_crps_against_draws():
    dist, y = made(0.0), np.array([0.5, 2.0, 5.0, 30.0])
    one, other = dist.sample(40_000, random_state=0), dist.sample(40_000, random_state=1)
    estimate = np.abs(one - y).mean(0) - 0.5 * np.abs(one - other).mean(0)
    np.testing.assert_allclose(dist.crps(y), estimate, rtol=0.05)


@pytest.mark.parametrize("power", [0.0, 0.4])
def test_units_do_not_matter(power):
    small, large, y = made(power), made(power, centre=3e9), np.array([0.5, 2.0, 5.0, 30.0])
    for name in ("mean", "std"):
        np.testing.assert_allclose(getattr(large, name), 1e9 * getattr(small, name), rtol=1e-9)
    np.testing.assert_allclose(large.crps(1e9 * y), 1e9 * small.crps(y), rtol=1e-9)
    np.testing.assert_allclose(large.log_prob(1e9 * y), small.log_prob(y) - np.log(1e9), rtol=1e-9)


def test_outputs_have_powers_of_their_own():
    base = GaussianMixture(MEANS.reshape(3, 2, 2), VARIANCES.reshape(3, 2, 2))
    powers, centres = np.array([0.0, 0.5]), np.array([3.0, 2.0])
    both = TransformedMixture(base, PowerTransform("box_cox", powers, centres))
    y = np.array([[1.0, 2.0], [3.0, 4.0]])
    for output in range(2):
        alone = TransformedMixture(
            GaussianMixture(MEANS.reshape(3, 2, 2)[..., output], VARIANCES.reshape(3, 2, 2)[..., output]),
            both.transform.of_output(output),
        )
        for name in ("mean", "variance"):
            np.testing.assert_allclose(getattr(both, name)[:, output], getattr(alone, name), rtol=1e-7)
        for name in ("log_prob", "cdf", "crps"):
            np.testing.assert_allclose(getattr(both, name)(y)[:, output], getattr(alone, name)(y[:, output]), rtol=1e-7)
    with pytest.raises(InputError, match="2 outputs"):
        TransformedMixture(GaussianMixture(MEANS, VARIANCES), both.transform)


@pytest.mark.parametrize("power", [0.0, 0.4])
def test_rows_members_and_spread(power):
    dist = made(power)
    joined = TransformedMixture.concatenate([dist[:1], dist[1:]])
    np.testing.assert_allclose(joined.mean, dist.mean)
    assert TransformedMixture.pool([dist, dist]).n_components == 6
    np.testing.assert_allclose(TransformedMixture.pool([dist, dist]).mean, dist.mean)
    narrow = dist.around_mean(0.5)
    assert (narrow.std < dist.std).all()
    assert dist.around_mean(1.0) is dist
    assert repr(dist[0]) == "TransformedMixture(n_components=3, n_rows=1, n_outputs=1)"
    with pytest.raises(InputError, match="at least one"):
        TransformedMixture.pool([])


def test_a_mean_that_overflows_is_an_error():
    transform = PowerTransform("log", np.zeros(1), np.ones(1))
    dist = TransformedMixture(GaussianMixture([[0.0, 0.0]], [[1.0, 2000.0]]), transform)
    assert np.isfinite(dist.quantile([0.05, 0.95])).all()
    with pytest.raises(NumericalError, match="mean in row 1"):
        _ = dist.mean
