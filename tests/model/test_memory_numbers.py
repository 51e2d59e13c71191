"""Estimates of memory grow with what they depend on; `tests/estimator/test_memory_budget.py` measures them."""

from dataclasses import replace

import pytest
from problems import case

from sodgp.inference.sod import SoD
from sodgp.likelihoods import HeavyTailed, Heteroscedastic

BASE = {"batch_rows": 20, "n_samples": 4}


@pytest.mark.parametrize(
    "more", [{"batch_rows": 40}, {"n_samples": 8}, {"more_kernels": 2}, {"subset": True}, {"scratch": 5.0}], ids=str
)
def test_training_needs_more_for_more(more):
    architecture = case(SoD()).architecture
    assert architecture.training_numbers(**{**BASE, **more}) > architecture.training_numbers(**BASE)


def test_training_needs_more_for_larger_models():
    small, large = case(SoD()).architecture, case(SoD(), 3).architecture
    assert large.training_numbers(**BASE) > small.training_numbers(**BASE)
    assert replace(small, size=30).training_numbers(**BASE) > small.training_numbers(**BASE)


def test_with_one_layer_training_does_not_grow_with_the_samples():
    architecture = case(SoD(), 1).architecture
    assert architecture.training_numbers(20, 4) == architecture.training_numbers(20, 400)


@pytest.mark.parametrize("likelihood", [Heteroscedastic(), HeavyTailed()], ids=repr)
def test_noise_that_varies_costs_for_every_row(likelihood):
    plain, varying = (case(SoD(), 1, likelihood=chosen).model for chosen in (None, likelihood))
    few, more = (model.prediction_numbers(10, samples_differ=False) for model in (plain, varying))
    assert more[1] > few[1]
    assert more[0] == few[0]
