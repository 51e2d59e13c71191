"""Calibrated distributions: one distribution in all its parts, smooth, and better where the model was wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sodgp.errors import InputError
from sodgp.predictive import metrics
from sodgp.predictive.calibrated import CalibratedDistribution
from sodgp.predictive.calibration import Calibration, calibration_of, temperature_of
from sodgp.predictive.classes import ClassDistribution
from sodgp.predictive.mixture import GaussianMixture
from sodgp.predictive.monotone import MonotoneMap
from sodgp.predictive.power import PowerTransform
from sodgp.predictive.scores import normal_scores
from sodgp.predictive.student import StudentMixture
from sodgp.predictive.transformed import TransformedMixture

RNG = np.random.default_rng(0)
N = 250
MEANS = RNG.normal(size=(4, N))
BASES = {
    "gaussian": GaussianMixture(MEANS, np.full((4, N), 0.09), outlier_probability=0.001),
    "student": StudentMixture(np.zeros(4), MEANS[..., None], 0.3, 5.0),
    "log": TransformedMixture(
        GaussianMixture(MEANS, np.full((4, N), 0.09)), PowerTransform("log", np.zeros(1), np.ones(1))
    ),
}


def observations(base, seed=1):
    """The model is too wide by a third, and its centre is off."""
    return base.quantile_at(0.3 + 0.6 * np.random.default_rng(seed).normal(size=base.shape))


@pytest.mark.parametrize("count", [2, 3, 9])
def test_a_monotone_map_and_its_inverse(count):
    rng = np.random.default_rng(count)
    x, y = np.sort(rng.normal(size=(2, count)))
    bent, at = MonotoneMap(x, y), np.linspace(-6, 6, 2001)
    values = bent(at)
    assert (np.diff(values) > 0).all()
    np.testing.assert_allclose(bent(x), y)
    np.testing.assert_allclose(bent.inverse(values), at, atol=1e-9)
    step = 1e-6
    inside = np.abs(at[:, None] - x).min(1) > 1e-3
    slope = (bent(at + step) - bent(at - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(bent.log_slope(at))[inside], slope[inside], rtol=1e-5)


@pytest.mark.parametrize("name", BASES)
def test_all_parts_are_of_one_distribution(name):
    base = BASES[name]
    dist = CalibratedDistribution(base, calibration_of(base, observations(base)))
    part = dist[:3]
    for level in (0.001, 0.05, 0.5, 0.95, 0.999):
        np.testing.assert_allclose(part.cdf(part.quantile(level)), level, rtol=1e-6)
        np.testing.assert_allclose(part.sf(part.quantile(level)), 1 - level, rtol=1e-6)
    y = part.quantile(0.7)
    step = 1e-5 * np.abs(y)
    np.testing.assert_allclose(
        np.exp(part.log_prob(y)), (part.cdf(y + step) - part.cdf(y - step)) / (2 * step), rtol=1e-4
    )
    assert type(dist).concatenate([part, part]).mean.shape == (6, *part.shape[1:])
    count = 300 if name == "student" else 2000
    draws = part.sample(count, random_state=0)
    if name == "student":  # draws say little of the moments of such tails
        np.testing.assert_allclose(np.median(draws, 0), part.quantile(0.5), atol=0.1)
        return
    np.testing.assert_allclose(draws.mean(0), part.mean, atol=4 * part.std.max() / 40)
    np.testing.assert_allclose(draws.std(0), part.std, rtol=0.2)
    other = part.sample(count, random_state=1)
    estimate = np.abs(draws - y).mean(0) - 0.5 * np.abs(draws - other).mean(0)
    np.testing.assert_allclose(part.crps(y), estimate, rtol=0.15)


@pytest.mark.parametrize("name", BASES)
def test_it_is_better_on_new_rows_where_the_model_was_wrong(name):
    base = BASES[name]
    dist, y = CalibratedDistribution(base, calibration_of(base, observations(base))), observations(base, seed=2)
    before, after = metrics.scores(y, base), metrics.scores(y, dist)
    assert after["nlpp"] < before["nlpp"] - 0.1
    assert after["crps"] < before["crps"]
    assert abs(after["coverage_90"] - 0.9) < 0.04
    assert np.isfinite(dist.log_prob(y)).all()


def test_what_is_calibrated_stays_as_it_is_but_for_chance():
    base = BASES["gaussian"]
    calibration = calibration_of(base, base.sample(1, random_state=3)[0])
    dist, y = CalibratedDistribution(base, calibration), base.sample(1, random_state=4)[0]
    assert metrics.nlpp(y, dist) == pytest.approx(metrics.nlpp(y, base), abs=0.05)
    assert metrics.crps(y, dist) == pytest.approx(metrics.crps(y, base), rel=0.02)
    np.testing.assert_allclose(dist.mean, base.mean, atol=0.3)


def test_the_right_scale_is_found_far_into_the_tails():
    base = GaussianMixture(np.zeros((1, N)), np.ones((1, N)))
    y = 3.0 * stats.norm.ppf((np.arange(N) + 0.5) / N)
    dist = CalibratedDistribution(base, calibration_of(base, y))[:1]
    right = stats.norm(scale=3.0)
    for at in (-30.0, -3.0, 0.0, 9.0, 30.0):
        assert dist.log_prob([at])[0] == pytest.approx(right.logpdf(at), rel=0.3)
    assert dist.std[0] == pytest.approx(3.0, rel=0.1)
    # Beyond what float64 can tell the density falls as that of the model.
    assert np.isfinite(dist.log_prob([1e3])).all()


def test_outputs_are_calibrated_apart():
    base = GaussianMixture(np.zeros((1, N, 2)), np.ones((1, N, 2)))
    y = np.random.default_rng(0).normal(size=(N, 2)) * [0.5, 2.0]
    calibration = calibration_of(base, y)
    assert calibration.coverage_90[0] > 0.98 > 0.7 > calibration.coverage_90[1]
    dist = CalibratedDistribution(base, calibration)
    np.testing.assert_allclose(dist.std[0], [0.5, 2.0], rtol=0.15)
    assert dist.sample(3, 0).shape == (3, N, 2)
    with pytest.raises(InputError, match="2 outputs"):
        CalibratedDistribution(BASES["gaussian"], calibration)


def test_few_rows_have_few_knots():
    base = BASES["gaussian"]
    counts = [calibration_of(base[:n], observations(base)[:n]).knots[0].shape[1] for n in (19, 60, 120, 250)]
    assert counts[0] == 5
    assert counts == sorted(counts)
    assert counts[-1] == 11


def test_what_cannot_be_calibrated():
    base = BASES["gaussian"]
    with pytest.raises(InputError, match="at least 19 rows"):
        calibration_of(base[:18], observations(base)[:18])
    with pytest.raises(InputError, match="same at the observations"):
        calibration_of(base, base.mean + 1e9)
    dist = CalibratedDistribution(base, calibration_of(base, observations(base)))
    assert dist.around_mean(1.0) is dist
    with pytest.raises(InputError, match="not scaled"):
        dist.around_mean(0.9)
    with pytest.raises(InputError, match="pool the distributions"):
        CalibratedDistribution.pool([dist, dist])


def test_scores_are_accurate_in_both_tails():
    base = StudentMixture([0.0], np.zeros((1, 3, 1)), 1.0, 3.0)
    scores = np.array([[-8.0], [0.5], [8.0]])
    np.testing.assert_allclose(normal_scores(base, base.quantile_at(scores)), scores, rtol=1e-6)


def test_temperature_of_classes():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=3000)
    labels = (rng.random((3000, 1)) > p.cumsum(1)[:, :-1]).sum(1)
    sharp = p**2 / (p**2).sum(1, keepdims=True)
    dist = ClassDistribution(sharp, sharp[None])
    found = temperature_of(dist, labels)
    assert found.power == pytest.approx(0.5, abs=0.03)
    np.testing.assert_allclose(dist.tempered(found.power).mean, p, atol=0.02)
    sure = ClassDistribution([[1.0, 0.0]], [[[1.0, 0.0]]]).tempered(0.5)
    assert sure.mean.tolist() == [[1.0, 0.0]]


def test_a_calibration_says_what_it_is():
    assert repr(Calibration((np.eye(2),), 5, np.array([0.8]))) == "Calibration(n_rows=5, coverage_90=[0.8])"
