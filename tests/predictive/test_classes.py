"""Class probabilities and their uncertainty."""

from __future__ import annotations

import numpy as np
import pytest

from sodgp.errors import InputError
from sodgp.predictive.classes import ClassDistribution, codes_of
from sodgp.predictive.contract import Predictive, Units


@pytest.fixture
def dist():
    logits = np.random.default_rng(0).normal(size=(200, 6, 3))
    draws = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return ClassDistribution(draws.mean(0), draws, ["a", "b", "c"])


def test_moments_are_those_of_the_draws(dist):
    np.testing.assert_allclose(dist.mean, dist.draws.mean(0))
    np.testing.assert_allclose(dist.variance, dist.draws.var(0))
    np.testing.assert_allclose(dist.std**2, dist.variance)
    np.testing.assert_allclose(dist.quantile([0.1, 0.5]), np.quantile(dist.draws, [0.1, 0.5], axis=0))
    low, high = dist.interval(0.8)
    inside = (dist.draws >= low) & (dist.draws <= high)
    np.testing.assert_allclose(inside.mean(0), 0.8, atol=0.01)
    assert isinstance(dist, Predictive)


def test_labels(dist):
    np.testing.assert_array_equal(dist.mode, np.array(["a", "b", "c"])[dist.mean.argmax(1)])
    np.testing.assert_allclose(dist.log_prob(list("abcabc")), np.log(dist.mean[np.arange(6), [0, 1, 2, 0, 1, 2]]))
    np.testing.assert_allclose(dist.log_prob("b"), np.log(dist.mean[:, 1]))
    shares = (dist.sample(40_000, random_state=0)[..., None] == dist.classes).mean(0)
    np.testing.assert_allclose(shares, dist.mean, atol=0.01)


def test_uncertainty_that_data_reduce_is_apart_from_the_rest(dist):
    # Draws that agree: all of the entropy is noise. Draws that are sure but differ: all of it is ignorance.
    noisy = ClassDistribution([[0.5, 0.5]], np.full((10, 1, 2), 0.5))
    ignorant = ClassDistribution([[0.5, 0.5]], [[[1.0, 0.0]], [[0.0, 1.0]]])
    assert noisy.mutual_information[0] == pytest.approx(0.0, abs=1e-12)
    assert ignorant.mutual_information[0] == pytest.approx(np.log(2))
    assert noisy.entropy[0] == ignorant.entropy[0] == pytest.approx(np.log(2))
    assert (dist.mutual_information < dist.entropy).all()


def test_rows_are_taken_joined_and_pooled(dist):
    joined = ClassDistribution.concatenate([dist[:2], dist[2:]])
    np.testing.assert_array_equal(joined.draws, dist.draws)
    assert len(dist[3]) == 1
    assert len(dist[np.array([True, False] * 3)]) == 3
    other = ClassDistribution(dist.mean[:, ::-1], dist.draws[..., ::-1], dist.classes)
    pooled = ClassDistribution.pool([dist, other])
    np.testing.assert_allclose(pooled.mean, (dist.mean + dist.mean[:, ::-1]) / 2)
    assert len(pooled.draws) == 400
    with pytest.raises(InputError, match="concatenate needs equal shapes"):
        ClassDistribution.concatenate([dist, pooled])
    with pytest.raises(InputError, match="pool needs equal shapes"):
        ClassDistribution.pool([dist, dist[:2]])
    with pytest.raises(InputError, match="at least one"):
        ClassDistribution.pool([])


def test_units_and_spread(dist):
    units = Units(np.ones(3), np.zeros(3), is_vector=True, classes=np.array([1, 2, 3]))
    assert dist.in_units(units).mode.tolist() == (dist.mean.argmax(1) + 1).tolist()
    assert dist.around_mean(1.0) is dist
    with pytest.raises(InputError, match="no spread"):
        dist.around_mean(0.9)


@pytest.mark.parametrize(
    ("mean", "draws", "message"),
    [
        ([[0.5, 0.5]], [[0.5, 0.5]], "the shape"),
        ([[1.0]], [[[1.0]]], "K >= 2"),
        ([[0.5, 0.6]], [[[0.5, 0.5]]], "sum of mean over classes"),
        ([[0.5, 0.5]], [[[1.5, -0.5]]], "no probabilities"),
        ([[np.nan, 0.5]], [[[0.5, 0.5]]], "no probabilities"),
    ],
)
def test_what_is_no_distribution(mean, draws, message):
    with pytest.raises(InputError, match=message):
        ClassDistribution(mean, draws)


def test_bad_requests(dist):
    with pytest.raises(InputError, match="'d' in row 1 is none of the 3 classes"):
        dist.log_prob(list("adabca"))
    with pytest.raises(InputError, match=r"shape \[6\]"):
        dist.log_prob(["a", "b"])
    with pytest.raises(InputError, match="between 0 and 1"):
        dist.quantile(1.5)
    with pytest.raises(InputError, match="n_samples"):
        dist.sample(0)
    with pytest.raises(InputError, match="must name the 2 classes"):
        ClassDistribution([[0.5, 0.5]], [[[0.5, 0.5]]], ["a"])
    with pytest.raises(InputError, match="none of the 11 classes"):
        codes_of(np.array([99]), np.arange(11))
