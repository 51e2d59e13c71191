"""Scores against their definitions, scipy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from sklearn.metrics import root_mean_squared_error

from sodgp.errors import InputError
from sodgp.predictive import metrics
from sodgp.predictive.counts import CountMixture
from sodgp.predictive.mixture import GaussianMixture
from sodgp.predictive.student import StudentMixture

T, N = 5, 400


@pytest.fixture
def dist():
    rng = np.random.default_rng(0)
    return GaussianMixture(rng.normal(size=(T, N)), np.exp(rng.normal(size=(T, N))))


@pytest.fixture
def y(dist):
    """Observations that follow the distribution, each row from its own draw."""
    return np.diagonal(dist.sample(N, random_state=1)).copy()


def test_scores_are_means_over_rows(dist, y):
    np.testing.assert_allclose(metrics.nlpp(y, dist), -dist.log_prob(y).mean(), rtol=1e-14)
    np.testing.assert_allclose(metrics.crps(y, dist), dist.crps(y).mean(), rtol=1e-14)
    np.testing.assert_allclose(metrics.rmse(y, dist), root_mean_squared_error(y, dist.mean), rtol=1e-12)
    np.testing.assert_array_equal(metrics.pit(y, dist), dist.cdf(y))


def test_nlpp_of_one_gaussian_is_scipys():
    y = np.array([0.3, -2.0])
    dist = GaussianMixture(torch.ones(1, 2), torch.full((1, 2), 4.0))
    np.testing.assert_allclose(metrics.nlpp(y, dist), -stats.norm.logpdf(y, 1, 2).mean(), rtol=1e-14)


def test_nlpp_is_not_the_mean_of_component_scores(dist, y):
    single = [GaussianMixture(dist._mu[t : t + 1], dist._var[t : t + 1]) for t in range(T)]
    assert metrics.nlpp(y, dist) < np.mean([metrics.nlpp(y, component) for component in single]) - 0.1


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_coverage_counts_the_rows_inside_the_interval(dist, y, level):
    lower, upper = dist.interval(level)
    inside = np.mean((lower <= y) & (y <= upper))
    assert metrics.coverage(y, dist, level) == inside
    assert abs(inside - level) < 4 * np.sqrt(level * (1 - level) / N)


def test_pit_of_the_true_distribution_is_uniform(dist, y):
    assert stats.kstest(metrics.pit(y, dist), "uniform").pvalue > 0.01
    assert stats.kstest(metrics.pit(y, dist.affine(0.5, 0.0)), "uniform").pvalue < 0.01


def test_scores_holds_every_score(dist, y):
    assert metrics.scores(y, dist) == {
        "nlpp": metrics.nlpp(y, dist),
        "rmse": metrics.rmse(y, dist),
        "crps": metrics.crps(y, dist),
        "coverage_50": metrics.coverage(y, dist, 0.5),
        "coverage_80": metrics.coverage(y, dist, 0.8),
        "coverage_90": metrics.coverage(y, dist),
        "coverage_95": metrics.coverage(y, dist, 0.95),
    }
    assert all(type(value) is float for value in metrics.scores(y, dist).values())


def test_scores_change_with_the_units_as_they_should(dist, y):
    score, scaled = metrics.scores(y, dist), metrics.scores(10 * y + 3, dist.affine(10.0, 3.0))
    np.testing.assert_allclose(scaled["nlpp"], score["nlpp"] + np.log(10), rtol=1e-10)
    np.testing.assert_allclose([scaled["rmse"], scaled["crps"]], [10 * score["rmse"], 10 * score["crps"]], rtol=1e-10)
    assert scaled["coverage_90"] == score["coverage_90"]


def test_several_outputs_are_averaged(dist, y):
    both = GaussianMixture(torch.stack([dist._mu, 2 * dist._mu], 2), torch.stack([dist._var, dist._var], 2))
    pair = np.stack([y, y], 1)
    second = GaussianMixture(2 * dist._mu, dist._var)
    np.testing.assert_allclose(metrics.nlpp(pair, both), (metrics.nlpp(y, dist) + metrics.nlpp(y, second)) / 2)
    assert metrics.pit(pair, both).shape == (N, 2)
    np.testing.assert_allclose(metrics.rmse(pair, both), metrics.rmse(pair, both.mean))


def test_a_column_never_broadcasts_against_a_row(dist, y):
    """(N, 1) minus (N,) would be (N, N): the classic silent error."""
    for values in (y[:, None], pd.DataFrame({"y": y}), pd.Series(y), list(y), torch.tensor(y)):
        assert metrics.rmse(values, dist) == metrics.rmse(y, dist)
        assert metrics.rmse(values, dist.mean) == metrics.rmse(y, dist)
    assert metrics.rmse(y, dist.mean[:, None]) == metrics.rmse(y, dist)
    assert metrics.rmse(y, torch.tensor(dist.mean)) == metrics.rmse(y, dist)
    assert metrics.rmse(y, pd.Series(dist.mean)) == metrics.rmse(y, dist)


@pytest.mark.parametrize(
    "score", [metrics.nlpp, metrics.rmse, metrics.crps, metrics.pit, metrics.coverage, metrics.scores]
)
def test_bad_input(dist, y, score):
    with pytest.raises(InputError, match="shape"):
        score(y[:-1], dist)
    with pytest.raises(InputError, match="each row"):
        score(0.0, dist)
    with pytest.raises(InputError, match="at least one"):
        score([], dist[:0])
    with pytest.raises(InputError, match=r"NaN.* at index \[7\]"):
        score(np.where(np.arange(N) == 7, np.nan, y), dist)


def test_bad_level_or_mean(dist, y):
    with pytest.raises(InputError, match="level"):
        metrics.coverage(y, dist, 1.0)
    for mean in (0.0, y[1:], np.zeros((N, 2)), np.zeros((2, N, 2)), np.full(N, np.nan), ["a"] * N):
        with pytest.raises(InputError):
            metrics.rmse(y, mean)


def test_counts_and_students_have_the_same_scores():
    y = np.random.default_rng(0).poisson(3.0, size=2000)
    dist = CountMixture([0.0], np.full((1, 2000, 1), 3.0))
    found = metrics.scores(y, dist)
    assert found["nlpp"] == pytest.approx(-dist.log_prob(y).mean())
    assert found["crps"] == pytest.approx(dist.crps(y).mean())
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y - 3.0) ** 2)))
    # Randomised: of a discrete variable the shares would be too large.
    assert found["coverage_50"] == pytest.approx(0.5, abs=0.04)
    assert found["coverage_90"] == pytest.approx(0.9, abs=0.02)
    student = StudentMixture([0.0], np.zeros((1, 3, 1)), 1.0, 5.0)
    assert metrics.nlpp([0.0, 1.0, 2.0], student) == pytest.approx(-student.log_prob([0.0, 1.0, 2.0]).mean())
