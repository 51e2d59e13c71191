"""The step function, with default arguments and five seeds: the classic failure of a shallow GP.

Forty noisy rows on [-1, 1], 0.051 apart, so nothing in the data says where between two rows the jump is. Measured over
five seeds with the defaults (2 layers, 2,000 steps): NLPP -0.37 to -0.62 (the noise alone would give -0.88), width of the
jump 0.06 to 0.09; with one layer NLPP -0.14 to 0.04, width 0.13 to 0.22. The marks leave room for other machines.
"""

from functools import cache

import numpy as np
import pytest

from sodgp import DeepGPRegressor
from sodgp.data import step
from sodgp.replicates import fit_replicates

SEEDS = range(5)
GRID = np.linspace(-1.0, 1.0, 2001)[:, None]
NLPP_OF_EVERY_SEED, NLPP_ON_AVERAGE = -0.25, -0.35
WIDTH_OF_EVERY_SEED = 0.12


@cache
def fitted(**options):
    """Five default fits, each to noise of its own; in one program, which gives what each would give alone."""
    data = [step(random_state=seed) for seed in SEEDS]
    models = [DeepGPRegressor(random_state=seed, **options) for seed in SEEDS]
    return fit_replicates(models, [(d.X, d.y) for d in data])


def nlpp(models):
    """Mean negative log predictive density of 400 fresh rows, for every model."""
    fresh = [step(400, random_state=100 + seed) for seed in SEEDS]
    return np.array([-m.predict_distribution(d.X).log_prob(d.y).mean() for m, d in zip(models, fresh, strict=True)])


def jump_width(model):
    """From the last place where the mean is below -0.8 to the first where it is above 0.8."""
    mean, x = model.predict(GRID), GRID[:, 0]
    return x[mean > 0.8].min() - x[mean < -0.8].max()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_jump_is_sharp_for_every_seed(seed):
    assert 0.0 < jump_width(fitted()[seed]) < WIDTH_OF_EVERY_SEED


def test_the_predictive_density_reaches_the_mark():
    scores = nlpp(fitted())
    assert scores.max() < NLPP_OF_EVERY_SEED
    assert scores.mean() < NLPP_ON_AVERAGE


def test_the_flat_parts_are_flat():
    for model in fitted():
        away = np.abs(GRID[:, 0]) > 0.15
        error = model.predict(GRID[away]) - np.sign(GRID[away, 0])
        assert np.sqrt(np.mean(error**2)) < 0.15


def test_one_layer_is_measurably_worse():
    deep, shallow = fitted(), fitted(n_layers=1)
    gain = nlpp(shallow) - nlpp(deep)
    assert gain.mean() > 0.2
    assert (gain > 0.0).all()
    assert np.mean([jump_width(m) for m in shallow]) > 1.5 * np.mean([jump_width(m) for m in deep])
