"""Joint distributions with fixed numbers: those of the predictor, smooth in the rows, and the same in every batch."""

import pytest
import torch
from problems import INPUTS, OUTPUTS, case, randn

from sodgp.inference.dsvi import DSVI
from sodgp.inference.joint import JointDistribution
from sodgp.inference.mean_field import MeanField
from sodgp.inference.sghmc import SGHMC
from sodgp.inference.sod import SoD
from sodgp.likelihoods import HeavyTailed, Heteroscedastic
from sodgp.linalg.draws import PositionDraws

T, SEED = 6, 4
METHODS = [
    SoD(),
    SoD(separate_kernels=True),
    SoD(coupling="marginal"),
    DSVI(),
    SGHMC(n_posterior_samples=4),
    MeanField(),
]

every_method = pytest.mark.parametrize("method", METHODS, ids=repr)


def joint_of(this):
    return JointDistribution(this.model, this.method, *this.subset, n_samples=T, seed=SEED)


@every_method
def test_it_is_the_predictors_for_every_batch(method):
    this, X = case(method), randn(3, 3, 4, INPUTS)
    with torch.no_grad():
        mean, covariance = joint_of(this)(X)
        for one, m, c in zip(X, mean, covariance, strict=True):
            draws = [PositionDraws(SEED, T, dtype=torch.float64) for _ in range(2)]
            theirs = this.predictor(draws[0]).joint(one.unsqueeze(0), draws[1])
            torch.testing.assert_close(m, theirs[0], rtol=0, atol=1e-9)
            torch.testing.assert_close(c, theirs[1], rtol=0, atol=1e-9)
    assert mean.shape == (3, T, 4, OUTPUTS)
    assert covariance.shape == (3, T, OUTPUTS, 4, 4)


@pytest.mark.parametrize("method", [SoD(), DSVI()], ids=repr)
def test_with_one_layer_every_sample_is_the_same(method):
    this = case(method, 1)
    mean, covariance = joint_of(this)(randn(3, 4, INPUTS))
    assert mean.shape == (T, 4, OUTPUTS)
    assert torch.equal(mean, mean[:1].expand_as(mean))
    assert torch.equal(covariance, covariance[:1].expand_as(covariance))


@every_method
def test_rows_that_come_later_leave_the_first_as_they_were(method):
    this, X = case(method), randn(3, 4, INPUTS)
    joint = joint_of(this)
    with torch.no_grad():
        few, many = joint(X[:2]), joint(X)
    torch.testing.assert_close(few[0], many[0][..., :2, :], rtol=0, atol=1e-6)
    torch.testing.assert_close(few[1], many[1][..., :2, :2], rtol=0, atol=1e-6)


def test_gradients_with_respect_to_rows_are_finite_differences():
    joint, X = joint_of(case(SoD())), randn(3, 3, INPUTS)

    def value(rows):
        mean, covariance = joint(rows)
        return (mean.sin().sum() + covariance.sum()).reshape(1)

    gradient = torch.autograd.functional.jacobian(value, X)[0]
    for row, column in ((0, 0), (2, 1)):
        step = torch.zeros_like(X)
        step[row, column] = 1e-5
        difference = (value(X + step) - value(X - step)) / 2e-5
        torch.testing.assert_close(gradient[row, column], difference[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("likelihood", [Heteroscedastic(), HeavyTailed()], ids=repr)
def test_noise_that_varies_has_fixed_numbers(likelihood):
    joint, X = joint_of(case(SoD(), likelihood=likelihood)), randn(3, 3, INPUTS)
    first, again = joint.noise_variance(X), joint.noise_variance(X)
    assert torch.equal(first, again)
    torch.broadcast_to(first, (T, 3, OUTPUTS))
    assert bool((first > 0).all())
