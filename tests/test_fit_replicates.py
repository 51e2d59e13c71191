"""Estimators trained in one program have the results that each would have had alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError
from sodgp.replicates import fit_replicates

SETS = []
for seed in range(3):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((30, 3)) * (1 + seed)
    SETS.append((rows, np.sin(rows[:, 0]) + seed))

OPTIONS = {
    "sod-1": {"n_layers": 1},
    "sod-2": {"n_layers": 2},
    "sod-3-paper": {"n_layers": 3, "parameterization": "paper", "tie_label_noise": False},
    "sod-2-marginal-rq": {"coupling": "marginal", "kernel": "rq"},
    "sod-2-joint": {"coupling": "joint"},
    "sod-2-narrow": {"hidden_width": 1},
    "dsvi-2": {"inference": "dsvi"},
    "mean_field-2": {"inference": "mean_field", "n_samples": 10, "batch_size": 2000},
    "sghmc-2": {"inference": "sghmc", "n_samples": 10, "n_posterior_samples": 4, "thinning": 2},
}


def models(options, seeds=(5, 6, 7)):
    common = {"subset_size": 8, "n_samples": 2, "n_predict_samples": 4, "max_iter": 20, "batch_size": 20, **options}
    return [DeepGPRegressor(**common, random_state=seed) for seed in seeds]


@pytest.mark.parametrize("name", OPTIONS)
def test_every_replicate_has_the_result_that_it_has_alone(name):
    together = fit_replicates(models(OPTIONS[name]), SETS)
    for replicate, (X, y) in zip(together, SETS, strict=True):
        alone = clone(replicate).fit(X, y)
        if hasattr(alone, "subset_indices_"):
            assert_array_equal(replicate.subset_indices_, alone.subset_indices_)
        assert replicate.n_parameters_ == alone.n_parameters_
        assert replicate.history_.iteration == alone.history_.iteration
        assert_allclose(replicate.history_.bound, alone.history_.bound, rtol=1e-6)
        assert_allclose(replicate.predict(X), alone.predict(X), rtol=1e-5, atol=1e-6)


def test_one_replicate_is_an_ordinary_fit():
    (together,) = fit_replicates(models({}, seeds=(5,)), SETS[:1])
    assert_array_equal(together.predict(SETS[0][0]), clone(together).fit(*SETS[0]).predict(SETS[0][0]))


def test_different_options_are_named():
    first, second = models({}, seeds=(1, 2))
    second.set_params(kernel="rq", max_iter=7)
    with pytest.raises(ConfigurationError, match="these differ: kernel, max_iter"):
        fit_replicates([first, second], SETS[:2])


def test_different_shapes_and_numbers_are_refused():
    with pytest.raises(ConfigurationError, match="equal numbers of rows"):
        fit_replicates(models({}, seeds=(1, 2)), [SETS[0], (SETS[1][0][:20], SETS[1][1][:20])])
    with pytest.raises(ConfigurationError, match="as many data sets"):
        fit_replicates(models({}), SETS[:2])
    with pytest.raises(ConfigurationError):
        fit_replicates([], [])
