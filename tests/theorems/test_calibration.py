"""Intervals of a calibrated model hold at least their share of new rows, whatever the model, in finite samples."""

from __future__ import annotations

import numpy as np
import pytest

from sodgp.predictive.calibrated import CalibratedDistribution
from sodgp.predictive.calibration import calibration_of
from sodgp.predictive.mixture import GaussianMixture

REPEATS, NEW = 120, 60


def draw(rng, n):
    """Rows whose noise is skewed and depends on x, and a model that knows neither."""
    x = rng.normal(size=n)
    y = x + (0.3 + 0.7 * (x > 0)) * rng.exponential(size=n)
    return GaussianMixture(np.stack([x, x + 0.3]), np.full((2, n), 0.04)), y


@pytest.mark.parametrize("n", [19, 50, 199])
def test_coverage_of_exchangeable_rows(n):
    rng = np.random.default_rng(0)
    levels = {19: [0.9], 50: [0.5, 0.9], 199: [0.5, 0.8, 0.9, 0.95, 0.99]}[n]
    shares = []
    for _ in range(REPEATS):
        calibration = calibration_of(*draw(rng, n))
        dist, y = draw(rng, NEW)
        ends = [CalibratedDistribution(dist, calibration).interval(level) for level in levels]
        shares.append([((y >= low) & (y <= high)).mean() for low, high in ends])
    mean, error = np.mean(shares, axis=0), np.std(shares, axis=0) / np.sqrt(REPEATS)
    assert (mean >= np.array(levels) - 3.0 * error).all(), mean
    # And no more than two steps above.
    assert (mean <= np.array(levels) + 2.0 / (n + 1) + 3.0 * error).all(), mean


def test_it_is_exact_in_expectation_at_whole_places():
    # (n + 1) q is whole: the share of a uniform cdf below the k-th of n is k / (n + 1) on average.
    rng = np.random.default_rng(1)
    base = GaussianMixture(np.zeros((1, 99)), np.ones((1, 99)))
    shares = []
    for _ in range(200):
        calibration = calibration_of(base, rng.normal(size=99))
        low, high = CalibratedDistribution(base[:1], calibration).interval(0.9)
        shares.append(base[:1].cdf(high) - base[:1].cdf(low))
    assert np.mean(shares) == pytest.approx(0.9, abs=3 * np.std(shares) / np.sqrt(200))
