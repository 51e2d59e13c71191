"""Estimates of memory grow with what they depend on; `tests/estimator/test_memory_budget.py` measures them."""

from dataclasses import replace

import pytest
from problems import case

from sodgp.inference.sod import SoD
from sodgp.likelihoods import HeavyTailed, Heteroscedastic
from sodgp.model.architecture import prediction_numbers, training_numbers

BASE = {"batch_rows": 20, "n_samples": 4}


@pytest.mark.parametrize(
    "more", [{"batch_rows": 40}, {"n_samples": 8}, {"more_kernels": 2}, {"subset": True}, {"scratch": 5.0}], ids=str
)
def test_training_needs_more_for_more(more):
    architecture = case(SoD()).architecture
    assert training_numbers(architecture, **{**BASE, **more}) > training_numbers(architecture, **BASE)


def test_training_needs_more_for_larger_models():
    small, large = case(SoD()).architecture, case(SoD(), 3).architecture
    assert training_numbers(large, **BASE) > training_numbers(small, **BASE)
    assert training_numbers(replace(small, size=30), **BASE) > training_numbers(small, **BASE)


def test_with_one_layer_training_does_not_grow_with_the_samples():
    architecture = case(SoD(), 1).architecture
    assert training_numbers(architecture, 20, 4) == training_numbers(architecture, 20, 400)


@pytest.mark.parametrize("likelihood", [Heteroscedastic(), HeavyTailed()], ids=repr)
def test_noise_that_varies_costs_for_every_row(likelihood):
    plain, varying = (case(SoD(), 1, likelihood=chosen).model for chosen in (None, likelihood))
    few, more = (prediction_numbers(model, 10, samples_differ=False) for model in (plain, varying))
    assert more[1] > few[1]
    assert more[0] == few[0]
