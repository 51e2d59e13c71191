"""A stack of layers and a likelihood: sizes, counts, structure, propagation, and the user's priors."""

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior
from problems import OUTPUTS, SIZE, case, fresh
from torch.distributions import Gamma

from sodgp.inference.dsvi import DSVI
from sodgp.inference.sod import SoD
from sodgp.layers.contract import Points


def test_sizes():
    model = case(SoD(), 3).model
    assert model.widths == [2, 2, OUTPUTS]
    assert model.hidden == list(model.layers)[:2]
    assert model.last is model.layers[2]
    assert (model.n_outputs, model.dtype, model.device.type) == (OUTPUTS, torch.float64, "cpu")
    assert not model.has_separate_kernels
    assert case(SoD(separate_kernels=True)).model.has_separate_kernels


def test_only_the_lower_triangle_of_a_factor_is_counted():
    q = SIZE * OUTPUTS + OUTPUTS * SIZE * (SIZE + 1) // 2
    kernel, noise = 3, OUTPUTS
    assert case(SoD(), 1).model.n_parameters == q + kernel + noise
    assert case(DSVI(), 1).model.n_parameters == q + kernel + noise + SIZE * 2


@pytest.mark.parametrize("coupling", ["ancestral", "marginal", "joint"])
def test_propagation_is_that_of_the_layers(coupling):
    this = case(SoD(), 3)
    points, kls = this.model.propagate(Points(this.batch.X_s, this.batch.X_b), fresh(3, 5), coupling)
    draws, by_hand = fresh(3, 5), Points(this.batch.X_s, this.batch.X_b)
    for layer, kl in zip(this.model.hidden, kls, strict=True):
        by_hand, theirs = layer.propagate(by_hand, draws, coupling)
        assert torch.equal(kl, theirs)
    assert all(torch.equal(a, b) for a, b in zip(points, by_hand, strict=True))
    assert len(kls) == 2


def test_structure_is_everything_but_the_numbers():
    one = case(SoD()).model
    assert one.structure == case(SoD(coupling="joint")).model.structure
    others = [case(SoD(), 3), case(SoD(parameterization="paper")), case(SoD(), kernel="matern32"), case(DSVI())]
    assert all(one.structure != other.model.structure for other in others)


def test_priors_of_the_user_are_a_term():
    plain = case(SoD()).model
    assert plain.log_prior() is None
    assert plain.is_captureable
    terms = {"rest": torch.zeros(())}
    assert plain.with_log_prior(terms) is terms
    model = case(SoD(), kernel=lambda dims: ScaleKernel(RBFKernel(lengthscale_prior=GammaPrior(2.0, 3.0)))).model
    prior = Gamma(*torch.tensor([2.0, 3.0], dtype=torch.float64))
    expected = sum(prior.log_prob(layer.kernel.base_kernel.lengthscale).sum() for layer in model.layers)
    torch.testing.assert_close(model.log_prior(), expected)
    assert list(model.with_log_prior(terms)) == ["rest", "log_prior"]
    assert not model.is_captureable
