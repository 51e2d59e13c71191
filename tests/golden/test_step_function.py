"""The step function, with default arguments and five seeds: the classic failure of a shallow GP.

Forty noisy rows on [-1, 1], 0.051 apart, so nothing in the data says where between two rows the jump is. Measured over
five seeds with the defaults (2 layers, 2,000 steps): NLPP -0.37 to -0.62 (the noise alone would give -0.88), jump 0.06
to 0.09 wide; with one layer NLPP -0.14 to 0.04, jump 0.13 to 0.22 wide. The marks leave room for other machines.
"""

import numpy as np

from sodgp import DeepGPRegressor
from sodgp.data import step
from sodgp.estimator.many import fit_replicates

SEEDS = range(5)
GRID = np.linspace(-1.0, 1.0, 2001)[:, None]
NLPP_OF_EVERY_SEED, NLPP_ON_AVERAGE = -0.25, -0.35
WIDTH_OF_EVERY_SEED = 0.12


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


def error_away_from_the_jump(model):
    away = GRID[np.abs(GRID[:, 0]) > 0.15]
    return np.sqrt(np.mean((model.predict(away) - np.sign(away[:, 0])) ** 2))


def test_defaults_fit_the_step_at_the_first_try_and_one_layer_is_measurably_worse():
    """One test, so that the five fits are made once and not by every worker."""
    deep, shallow = fitted(), fitted(n_layers=1)
    widths = np.array([jump_width(model) for model in deep])
    assert ((widths > 0.0) & (widths < WIDTH_OF_EVERY_SEED)).all()
    assert max(error_away_from_the_jump(model) for model in deep) < 0.15
    scores = nlpp(deep)
    assert scores.max() < NLPP_OF_EVERY_SEED
    assert scores.mean() < NLPP_ON_AVERAGE

    lost = nlpp(shallow) - scores
    assert (lost > 0.0).all()
    assert lost.mean() > 0.2
    assert np.mean([jump_width(model) for model in shallow]) > 1.5 * widths.mean()
