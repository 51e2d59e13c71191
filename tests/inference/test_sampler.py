"""u of all layers as one vector, and back."""

import torch
from problems import OUTPUTS, SIZE, case, randn

from sodgp.inference.sampler import flatten, unflatten
from sodgp.inference.sghmc import SGHMC


def test_a_vector_holds_the_u_of_every_layer():
    model = case(SGHMC(n_posterior_samples=4), 3, width=3).model
    u = [randn(i, 5, *layer.q_mean.shape) for i, layer in enumerate(model.layers)]
    position = flatten(u)
    assert position.shape == (5, SIZE * (3 + 3 + OUTPUTS))
    for part, whole in zip(unflatten(model, position), u, strict=True):
        assert torch.equal(part, whole)


def test_what_a_sampler_keeps_is_stored_chain_after_chain():
    method = SGHMC(n_posterior_samples=6, n_chains=2)
    model = case(method).model
    size = sum(layer.q_mean.numel() for layer in model.layers)
    positions = randn(0, 2, 3, size)
    method.keep(model, positions)
    for layer, u in zip(model.layers, unflatten(model, positions.flatten(0, 1)), strict=True):
        assert torch.equal(layer.posterior_draws, u)
        torch.testing.assert_close(layer.q_mean, u.mean(0))
