"""Variances with a floor: where they start, what they cannot fall below, and the type of their constraint."""

import torch
from gpytorch import Module

from sodgp.layers.prior import NOISE_FLOOR, above, register_floored


def test_they_start_where_they_are_told_and_stay_above_the_floor():
    module = Module()
    register_floored(module, "raw_noise", torch.tensor([0.5, 1e-3, 0.0], dtype=torch.float64))
    value = module.raw_noise_constraint.transform(module.raw_noise)
    torch.testing.assert_close(value[:2], torch.tensor([0.5, 1e-3], dtype=torch.float64), rtol=1e-6, atol=0.0)
    assert NOISE_FLOOR < value[2] < 1.1 * NOISE_FLOOR
    with torch.no_grad():
        module.raw_noise.fill_(-50.0)
    assert bool((module.raw_noise_constraint.transform(module.raw_noise) >= 0.999 * NOISE_FLOOR).all())


def test_constraints_are_in_single_precision_whatever_the_default():
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        assert above(1e-3).lower_bound.dtype == torch.float32
    finally:
        torch.set_default_dtype(before)
