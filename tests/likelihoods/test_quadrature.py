"""Gauss-Hermite quadrature: exact for polynomials, and errors that fall with the order."""

import math

import pytest
import torch
from latent_cases import integrated

from sodgp.likelihoods.quadrature import ORDER, Rule, expectation, log_expectation, nodes_under

MEAN = torch.tensor([0.4, -1.0]).double().reshape(1, 2, 1)
VARIANCE = torch.tensor([0.7, 3.0]).double().reshape(1, 2, 1)


def mean_of(function, order):
    f, log_weights = nodes_under(MEAN, VARIANCE, Rule.of_order(order))
    return expectation(function(f), log_weights)


@pytest.mark.parametrize("order", [2, 3, 8, ORDER])
def test_polynomials_are_exact_up_to_twice_the_order_less_one(order):
    for degree in range(min(2 * order, 20)):
        # Of a standard normal variable the even moments are products of odd numbers.
        moment = 0.0 if degree % 2 else float(math.prod(range(1, degree, 2)))
        found = mean_of(lambda f, power=degree: ((f - MEAN) / VARIANCE.sqrt()) ** power, order)
        torch.testing.assert_close(found, torch.full_like(MEAN, moment), rtol=1e-8, atol=1e-6)


def test_the_error_falls_with_the_order():
    exact = integrated(torch.nn.functional.softplus, MEAN, VARIANCE)
    errors = [float((mean_of(torch.nn.functional.softplus, n) - exact).abs().max()) for n in (3, 8, ORDER, 60)]
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < 1e-5


def test_logs_are_averaged_without_underflow():
    f, log_weights = nodes_under(MEAN, VARIANCE, Rule.of_order(ORDER))
    torch.testing.assert_close(log_weights.exp().sum(), torch.tensor(1.0).double())
    far = log_expectation(f - 2000.0, log_weights)
    torch.testing.assert_close(far, MEAN + 0.5 * VARIANCE - 2000.0, rtol=1e-9, atol=1e-9)
    assert nodes_under(MEAN.float(), VARIANCE.float(), Rule.of_order(200, MEAN.float()))[1].dtype == torch.float32
