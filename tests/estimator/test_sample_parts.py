"""Many samples are taken in parts: the same numbers, with memory that does not grow."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from sodgp import DeepGPRegressor
from sodgp.errors import ResourceError
from sodgp.estimator import sample_parts
from sodgp.estimator.memory_budget import prediction_bytes
from sodgp.system import memory

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = np.sin(X[:, 0]) + X[:, 1]
NEW = RNG.standard_normal((4, 3))
METHODS = {
    "sod": {"n_layers": 2},
    "sod-3": {"n_layers": 3},
    "sod-1": {"n_layers": 1},
    "separate-3": {"n_layers": 3, "inference__separate_kernels": True},
    "heavy tails": {"n_layers": 2, "likelihood": "heavy_tailed"},
    "heteroscedastic": {"n_layers": 3, "likelihood": "heteroscedastic"},
    "heteroscedastic-1": {"n_layers": 1, "likelihood": "heteroscedastic"},
    "marginal": {"inference__coupling": "marginal", "n_layers": 3},
    "joint": {"inference__coupling": "joint", "n_layers": 3},
    "dsvi": {"inference": "dsvi", "n_layers": 2},
    "svgp": {"inference": "dsvi", "n_layers": 1},
    "mean_field": {"inference": "mean_field"},
    "sghmc": {"inference": "sghmc", "inference__n_posterior_samples": 10, "inference__thinning": 1},
    "members": {"n_layers": 2, "n_members": 2},
}


def make(**options):
    return DeepGPRegressor().set_params(**{"max_iter": 1, "random_state": 0, **options})


def peak(action):
    """Bytes that PyTorch held at once."""
    gc.collect()
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        action()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = np.cumsum([event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())])
    return int((held - np.minimum.accumulate(held)).max())


@pytest.mark.parametrize("name", METHODS)
def test_samples_that_are_taken_in_parts_are_the_same(name, monkeypatch):
    model = make(**{**METHODS[name], "subset_size": 10, "n_predict_samples": 5}).fit(X, Y)
    few = NEW
    mean, whole = model.predict(few, return_std=True), model.predict_distribution(few)
    latent = model.predict_distribution(few, latent=True).std
    monkeypatch.setattr(sample_parts, "_SAMPLES_BYTES", 1)
    monkeypatch.setattr(sample_parts, "_BLOCK_BYTES", 2000)  # and a few rows at a time
    assert_allclose(model.predict(few), mean[0], rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(model.predict(few, return_std=True), mean, strict=True):
        assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    parts = model.predict_distribution(few)
    assert parts.n_components == whole.n_components
    assert_allclose(parts.log_prob(np.zeros(4)), whole.log_prob(np.zeros(4)), rtol=1e-9, atol=1e-9)
    assert_allclose(parts.sample(3, random_state=0), whole.sample(3, random_state=0), rtol=1e-8, atol=1e-8)
    assert_allclose(model.predict_distribution(few, latent=True).std, latent, rtol=1e-9, atol=1e-9)


def test_memory_does_not_grow_with_the_samples(monkeypatch):
    model = make(n_layers=3, subset_size=40, n_predict_samples=800).fit(X, Y)
    monkeypatch.setattr(sample_parts, "_SAMPLES_BYTES", 2**24)
    held = peak(lambda: model.predict(NEW[:2], return_std=True))
    assert prediction_bytes(model.fitted_, 800)[0] > 2**26
    assert held < 2**25


def test_samples_that_do_not_fit_in_parts_either_are_refused(monkeypatch):
    model = make(subset_size=30, n_predict_samples=10**5).fit(X, Y)
    monkeypatch.setattr(memory, "available_memory", lambda device=None: 10**8)
    with pytest.raises(ResourceError, match=r"a prediction needs about .*n_predict_samples \(100000\)"):
        model.predict(NEW[:1])
