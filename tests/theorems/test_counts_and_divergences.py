"""Parameter counts of the paper, and KL divergences against torch.distributions."""

import pytest
import torch
from helpers import FAMILIES, build, data, fresh, prior, q_of_subset, randn, randomise
from torch.distributions import MultivariateNormal, kl_divergence

from sodgp.layers.contract import Points


@pytest.mark.parametrize(("columns", "count"), [(13, 35_785), (8, 22_535)])
@pytest.mark.parametrize("family", FAMILIES)
def test_parameter_counts_are_those_of_the_authors_program(family, columns, count):
    # boston and energy, M = 50, two hidden layers, isotropic kernel, a label noise of its own
    model = build([columns, columns], columns, size=50, family=family, label_noise=1e-5)
    assert model.n_parameters == count


def test_tying_the_label_noise_saves_one_parameter():
    untied, tied = (build([3], 3, size=5, label_noise=v) for v in (1e-5, None))
    assert tied.n_parameters == untied.n_parameters - 1


def test_inducing_inputs_cost_nothing_and_means_are_not_trained():
    zero, linear = (build([3], 3, size=5, linear=linear) for linear in (False, True))
    assert zero.n_parameters == linear.n_parameters
    assert not any("weight" in name or "inducing" in name for name, _ in linear.named_parameters())


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_hidden_kl_is_the_sum_of_plain_kls_over_outputs(family, linear):
    # In the paper family the traces of all outputs are pooled in one product.
    batch = data(80, 4, 2)
    model = randomise(build([3], 2, size=4, family=family, linear=linear), 81)
    layer = model.layers[0]
    Z_s, Z_b = randn(82, 5, 4, 2), randn(83, 5, 2, 2)
    for points in (Points(batch.X_s, batch.X_b), Points(Z_s, Z_b)):
        _, ours = layer.propagate(points, fresh(84, 5), "ancestral")
        K, mean = prior(layer, points.subset)
        q = MultivariateNormal(*q_of_subset(layer, K, mean))
        theirs = kl_divergence(q, MultivariateNormal(mean.mT, K.unsqueeze(-3))).sum(-1)
        torch.testing.assert_close(ours.expand_as(theirs), theirs, rtol=1e-10, atol=1e-10)


def test_pooled_trace_is_the_sum_of_traces():
    batch = data(80, 4, 2)
    layer = randomise(build([3], 2, size=4, family="paper"), 81).layers[0]
    _, kl = layer.propagate(Points(batch.X_s, batch.X_b), fresh(84), "ancestral")
    # Doubling one factor moves the KL by 3/2 of its own trace, less the log determinant.
    K, _ = prior(layer, batch.X_s[0])
    C = layer.q_factor.detach()[1].tril()
    with torch.no_grad():
        layer.q_factor[1] *= 2.0
    _, doubled = layer.propagate(Points(batch.X_s, batch.X_b), fresh(84), "ancestral")
    trace = (torch.linalg.inv(K) @ C @ C.mT).trace()
    expected = 1.5 * trace - 4 * torch.log(torch.tensor(2.0, dtype=torch.float64))
    torch.testing.assert_close((doubled - kl)[0], expected, rtol=1e-10, atol=1e-10)
