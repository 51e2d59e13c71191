"""Recorded steps on a GPU: every method gives what it gives operation by operation, and nothing falls back."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from sodgp import SGHMC, DeepGPRegressor
from sodgp.errors import NumericalWarning
from sodgp.estimator.many import fit_replicates

pytestmark = pytest.mark.gpu

METHODS = {
    "sod": {},
    "sod three layers": {"n_layers": 3},
    "sod one layer": {"n_layers": 1},
    "sod minibatch": {"batch_size": 40},
    "sod marginal": {"inference__coupling": "marginal"},
    "sod joint": {"inference__coupling": "joint"},
    "sod paper family": {
        "inference__parameterization": "paper", "inference__tie_label_noise": False, "tuning__jitter": "program",
    },
    "sod heteroscedastic": {"likelihood": "heteroscedastic"},
    "sod heteroscedastic predictive": {"likelihood": "heteroscedastic", "inference__objective": "predictive"},
    "sod separate kernels": {"inference__separate_kernels": True},
    "sod heavy tails": {"likelihood": "heavy_tailed"},
    "sod heavy tails predictive": {"likelihood": "heavy_tailed", "inference__objective": "predictive"},
    "dsvi": {"inference": "dsvi"},
    "dsvi fixed": {"inference": "dsvi", "inference__learn_inducing_inputs": False},
    "svgp": {"inference": "dsvi", "n_layers": 1},
    "mean field": {"inference": "mean_field"},
    "sghmc": {"inference": SGHMC(n_posterior_samples=6, thinning=3), "n_predict_samples": 6},
    "sghmc minibatch": {
        "inference": SGHMC(n_posterior_samples=6, thinning=3), "n_predict_samples": 6, "batch_size": 40,
    },
}  # fmt: skip


def table(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=90)


@pytest.mark.parametrize("name", METHODS)
def test_a_recorded_step_is_the_plain_one(name):
    options = {"max_iter": 40, "subset_size": 20, "device": "cuda", "random_state": 3, **METHODS[name]}
    X, y = table(0)
    (plain,) = fit_replicates([DeepGPRegressor().set_params(**options)], [(X, y)], capture=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumericalWarning)
        (recorded,) = fit_replicates([DeepGPRegressor().set_params(**options)], [(X, y)])
    np.testing.assert_allclose(recorded.history_.bound, plain.history_.bound, rtol=1e-8)
    mean, std = recorded.predict(X, return_std=True)
    plain_mean, plain_std = plain.predict(X, return_std=True)
    np.testing.assert_allclose(mean, plain_mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(std, plain_std, rtol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_recorded_replicates_are_the_single_fits(name):
    options = {"max_iter": 30, "subset_size": 20, "device": "cuda", **METHODS[name]}
    models = [DeepGPRegressor().set_params(**options, random_state=seed) for seed in range(3)]
    data = [table(seed) for seed in range(3)]
    alone = [clone(model).fit(*xy) for model, xy in zip(models, data, strict=True)]
    for single, among, (X, _) in zip(alone, fit_replicates(models, data), data, strict=True):
        np.testing.assert_allclose(among.predict(X), single.predict(X), rtol=1e-4, atol=1e-5)


def test_the_gpu_and_the_processor_agree():
    X, y = table(0)
    options = {"max_iter": 300, "random_state": 0}
    on = {device: DeepGPRegressor().set_params(device=device, **options).fit(X, y) for device in ("cpu", "cuda")}
    # Other random numbers: the same law, not the same fit.
    bounds = [np.mean(model.history_.bound[-3:]) for model in on.values()]
    assert abs(bounds[0] - bounds[1]) < 0.05 * abs(bounds[0]) + 3.0
