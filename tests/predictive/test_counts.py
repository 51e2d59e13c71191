"""Mixtures of Poisson and negative binomial distributions, against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sodgp.errors import InputError
from sodgp.predictive.contract import Predictive, Units
from sodgp.predictive.counts import CountMixture

WEIGHTS = np.array([0.2, 0.5, 0.3])
RATE = np.random.default_rng(0).gamma(2.0, 5.0, size=(3, 4, 2))
Y = np.random.default_rng(1).integers(0, 30, size=(4, 2)).astype(float)
CASES = [None, np.array([0.5, 0.1])]


def scipys(dispersion, component, row, output):
    rate = RATE[component, row, output]
    if dispersion is None:
        return stats.poisson(rate)
    return stats.nbinom(1 / dispersion[output], 1 / (1 + dispersion[output] * rate))


def mixed(dispersion, row, output, function):
    return sum(w * function(scipys(dispersion, c, row, output)) for c, w in enumerate(WEIGHTS))


@pytest.mark.parametrize("dispersion", CASES, ids=["poisson", "negative binomial"])
def test_a_mixture_is_the_sum_of_scipys_distributions(dispersion):
    dist = CountMixture(np.log(WEIGHTS), RATE, dispersion)
    k = np.arange(2000)
    for row, output in np.ndindex(4, 2):
        y, place = Y[row, output], (row, output)
        cdf = mixed(dispersion, row, output, lambda d: d.cdf(k))
        assert np.exp(dist.log_prob(Y)[place]) == pytest.approx(
            mixed(dispersion, row, output, lambda d, y=y: d.pmf(y)), rel=1e-10
        )
        assert dist.cdf(Y)[place] == pytest.approx(cdf[int(y)], rel=1e-10)
        mean = mixed(dispersion, row, output, lambda d: d.mean())
        second = mixed(dispersion, row, output, lambda d: d.var() + d.mean() ** 2)
        assert dist.mean[place] == pytest.approx(mean)
        assert dist.variance[place] == pytest.approx(second - mean**2)
        assert dist.crps(Y)[place] == pytest.approx(((cdf - (k >= y)) ** 2).sum(), rel=1e-9)
        for q in (0.01, 0.5, 0.99):
            assert dist.quantile(q)[place] == np.searchsorted(cdf, q)


@pytest.mark.parametrize("rate", [0.0, 1e-9, 5e4])
def test_extreme_rates(rate):
    dist = CountMixture([0.0], np.full((1, 1, 1), rate))
    theirs = stats.poisson(rate)
    y = np.floor([[rate * 1.003]])
    k = np.arange(max(0, int(rate) - 5000), int(rate) + 5000)
    np.testing.assert_allclose(dist.cdf(y), theirs.cdf(y))
    np.testing.assert_allclose(dist.quantile([0.05, 0.9])[:, 0, 0], theirs.ppf([0.05, 0.9]))
    np.testing.assert_allclose(dist.crps(y), ((theirs.cdf(k) - (k >= y[0, 0])) ** 2).sum(), rtol=2e-4, atol=1e-12)


def test_a_wide_range_is_scored_by_quadrature():
    rates = np.array([100.0, 3000.0, 20_000.0])
    dist = CountMixture(np.log(WEIGHTS), rates[:, None, None], 0.5)
    k = np.arange(600_000)
    cdf = sum(w * stats.nbinom(2, 1 / (1 + 0.5 * rate)).cdf(k) for w, rate in zip(WEIGHTS, rates, strict=True))
    np.testing.assert_allclose(dist.crps([[500.0]])[0, 0], ((cdf - (k >= 500)) ** 2).sum(), rtol=1e-3)


@pytest.mark.parametrize("dispersion", CASES, ids=["poisson", "negative binomial"])
def test_draws_and_the_randomised_pit(dispersion):
    dist = CountMixture(np.log(WEIGHTS), RATE, dispersion)
    draws = dist.sample(20_000, random_state=0)
    assert draws.shape == (20_000, 4, 2)
    np.testing.assert_allclose(draws.mean(0), dist.mean, rtol=0.03)
    np.testing.assert_allclose(draws.var(0), dist.variance, rtol=0.06)
    # One row of it many times: the PIT of its own draws is uniform.
    many = CountMixture(np.log(WEIGHTS), np.repeat(RATE[:, :1], 4000, axis=1), dispersion)
    pit = many.pit(draws[:4000, 0], random_state=1)
    assert stats.kstest(pit[:, 0], "uniform").pvalue > 0.01


def test_vectors_rows_and_members():
    units = Units(np.ones(1), np.zeros(1), is_vector=True)
    dist = CountMixture(np.log(WEIGHTS), RATE[:, :, :1]).in_units(units)
    assert isinstance(dist, Predictive)
    assert dist.mean.shape == dist.crps([1.0, 2.0, 3.0, 4.0]).shape == (4,)
    assert dist.quantile([0.1, 0.9]).shape == dist.sample(2).shape == (2, 4)
    assert dist.quantile([]).shape == (0, 4)
    np.testing.assert_array_equal(CountMixture.concatenate([dist[:1], dist[1:]]).mean, dist.mean)
    assert dist[2].mean.shape == (1,)
    one, other = (CountMixture([0.0], np.full((1, 1, 1), r), d) for r, d in ((2.0, 0.1), (6.0, 0.5)))
    pooled = CountMixture.pool([one, other])
    np.testing.assert_allclose(pooled.cdf(3.0), (one.cdf(3.0) + other.cdf(3.0)) / 2)
    assert dist.around_mean(1.0) is dist
    assert dist.quantile(0.0).tolist() == [0.0] * 4
    assert np.isinf(dist.quantile(1.0)).all()


def test_what_is_no_count_has_no_probability():
    dist = CountMixture([0.0], [[[2.0]]])
    assert dist.log_prob(1.5)[0, 0] == dist.log_prob(-1.0)[0, 0] == -np.inf
    assert dist.cdf(-0.5)[0, 0] == 0.0
    assert dist.cdf(1.5) == dist.cdf(1.0)


def test_bad_input():
    with pytest.raises(InputError, match="no rates"):
        CountMixture([0.0], [[[-1.0]]])
    with pytest.raises(InputError, match="dispersion has 1 value"):
        CountMixture([0.0], [[[1.0]]], 0.0)
    with pytest.raises(InputError, match="one for each output"):
        CountMixture([0.0], [[[1.0]]], [0.1, 0.2])
    with pytest.raises(InputError, match=r"shape \[C, N, P\]"):
        CountMixture([0.0, 0.0], [[[1.0]]])
    dist = CountMixture([0.0], [[[1.0]]])
    with pytest.raises(InputError, match="no spread"):
        dist.around_mean(2.0)
    with pytest.raises(InputError, match="distribution's shape"):
        dist.log_prob([1.0, 2.0])
    with pytest.raises(InputError, match="missing"):
        dist.log_prob([np.nan])
    with pytest.raises(InputError, match="between 0 and 1"):
        dist.quantile(2.0)
    with pytest.raises(InputError, match="n_samples"):
        dist.sample(-1)
    with pytest.raises(InputError, match="distribution of its kind"):
        CountMixture.pool([])
