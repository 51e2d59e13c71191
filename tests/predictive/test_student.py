"""Mixtures of Student distributions, against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from sodgp.errors import InputError
from sodgp.predictive.contract import Predictive, Units
from sodgp.predictive.mixture import GaussianMixture
from sodgp.predictive.student import StudentMixture

WEIGHTS = np.array([0.2, 0.5, 0.3])
LOCATION = 3.0 * np.random.default_rng(0).normal(size=(3, 2, 1))


@pytest.mark.parametrize("df", [2.1, 3.0, 30.0])
def test_a_mixture_is_the_sum_of_scipys_distributions(df):
    dist = StudentMixture(np.log(WEIGHTS), LOCATION, 0.7, df)
    y = np.array([[1.3], [-20.0]])
    for row in range(2):
        theirs = [stats.t(df, LOCATION[c, row, 0], 0.7) for c in range(3)]

        def mixed(name, x, theirs=theirs):
            return sum(w * getattr(each, name)(x) for w, each in zip(WEIGHTS, theirs, strict=True))

        at = y[row, 0]

        def tails(u, at=at, mixed=mixed):
            return (mixed("cdf", at - np.sinh(u)) ** 2 + mixed("sf", at + np.sinh(u)) ** 2) * np.cosh(u)

        assert dist.log_prob(y)[row, 0] == pytest.approx(np.log(mixed("pdf", at)))
        assert dist.cdf(y)[row, 0] == pytest.approx(mixed("cdf", at))
        assert dist.crps(y)[row, 0] == pytest.approx(quad(tails, 0, 40, limit=500)[0], rel=1e-4)
        for q in (0.01, 0.5, 0.95):
            assert mixed("cdf", dist.quantile(q)[row, 0]) == pytest.approx(q, rel=1e-9)
    mean = np.tensordot(WEIGHTS, LOCATION, 1)
    np.testing.assert_allclose(dist.mean, mean)
    between = np.tensordot(WEIGHTS, (LOCATION - mean) ** 2, 1)
    np.testing.assert_allclose(dist.variance, 0.7**2 * df / (df - 2) + between)


def test_many_degrees_of_freedom_are_gaussian():
    dist = StudentMixture(np.zeros(3), LOCATION, 0.7, 1e7)
    gaussian = GaussianMixture(LOCATION, np.full(LOCATION.shape, 0.49))
    y = [[0.4], [1.0]]
    for name in ("log_prob", "cdf", "crps"):
        np.testing.assert_allclose(getattr(dist, name)(y), getattr(gaussian, name)(y), rtol=1e-5)
    np.testing.assert_allclose(dist.quantile([0.05, 0.9]), gaussian.quantile([0.05, 0.9]), rtol=1e-5)


def test_units_spread_and_members():
    dist = StudentMixture(np.log(WEIGHTS), LOCATION, 0.7, 5.0)
    moved = dist.in_units(Units(np.array([10.0]), np.array([100.0]), is_vector=True))
    np.testing.assert_allclose(moved.mean, 10.0 * dist.mean[:, 0] + 100.0)
    np.testing.assert_allclose(moved.std, 10.0 * dist.std[:, 0])
    assert isinstance(dist, Predictive)
    narrow = moved.around_mean(0.8)
    np.testing.assert_allclose(narrow.mean, moved.mean)
    np.testing.assert_allclose(narrow.std, 0.8 * moved.std)
    other = StudentMixture([0.0], np.zeros((1, 2, 1)), 2.0, 3.0)
    pooled = StudentMixture.pool([dist, other])
    np.testing.assert_allclose(pooled.cdf(0.5), (dist.cdf(0.5) + other.cdf(0.5)) / 2)
    one, two = (each.crps(0.5) for each in (dist, other))
    assert (pooled.crps(0.5) <= (one + two) / 2).all()  # the score is convex
    np.testing.assert_array_equal(StudentMixture.concatenate([dist[:1], dist[1:]]).mean, dist.mean)
    draws = dist.sample(20_000, random_state=0)
    np.testing.assert_allclose(draws.mean(0), dist.mean, atol=0.1)
    assert np.isneginf(dist.quantile(0.0)).all()


def test_bad_input():
    with pytest.raises(InputError, match="df must be above 2"):
        StudentMixture([0.0], [[[1.0]]], 1.0, 2.0)
    with pytest.raises(InputError, match="scale has 1 value"):
        StudentMixture([0.0], [[[1.0]]], -1.0, 3.0)
    with pytest.raises(InputError, match="not finite"):
        StudentMixture([0.0], [[[np.inf]]], 1.0, 3.0)
    with pytest.raises(InputError, match="factor"):
        StudentMixture([0.0], [[[1.0]]], 1.0, 3.0).around_mean(0.0)
    with pytest.raises(InputError, match="no vectors"):
        StudentMixture([0.0], [[[1.0, 2.0]]], 1.0, 3.0).in_units(Units(np.ones(2), np.zeros(2), is_vector=True))
