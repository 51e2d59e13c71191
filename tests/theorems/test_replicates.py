"""A replicate of a stacked model has the value of the single model with the same parameters and draws."""

import pytest
import torch
from helpers import (
    COUPLINGS,
    FAMILIES,
    build,
    data,
    generator,
    predict_as_batch,
    predict_joint_as_batch,
    randomise,
    rbf,
)

from sodgp.inference.contract import Batch
from sodgp.inference.sod import SoD
from sodgp.linalg.draws import FreshDraws

N_REPLICATES = 3
REPLICATES = torch.Size([N_REPLICATES])


def stacked_kernel():
    return rbf(batch_shape=torch.Size([N_REPLICATES, 1]))


def expanded_kernel():
    kernel = rbf().expand_batch(N_REPLICATES, 1)
    for parameter in kernel.parameters():
        parameter.data = parameter.data.clone()
    return kernel


def singles_and_stack(hidden, family, *, label_noise=None, n_outputs=1, kernel=stacked_kernel):
    options = {"size": 3, "family": family, "label_noise": label_noise, "n_outputs": n_outputs}
    singles = [randomise(build(hidden, 2, linear=True, **options), 90 + r) for r in range(N_REPLICATES)]
    for r, single in enumerate(singles):
        for layer in single.layers:
            layer.mean.weight.mul_(1.0 + 0.2 * r)
    weights = [torch.stack([s.layers[i].mean.weight for s in singles]) for i in range(len(hidden) + 1)]
    stack = build(hidden, 2, kernel=kernel, weights=weights, replicates=REPLICATES, **options)
    with torch.no_grad():
        for name, parameter in stack.named_parameters():
            values = torch.stack([single.get_parameter(name) for single in singles])
            parameter.copy_(values.reshape(parameter.shape))
    batches = [data(95 + 2 * r, 3, 4, n_outputs=n_outputs) for r in range(N_REPLICATES)]
    together = Batch(*(torch.stack(tensors) for tensors in list(zip(*batches, strict=True))[:4]), scale=1.0)
    return singles, batches, stack, together


def draws_for(r, n_samples=4):
    return FreshDraws(generator(200 + r), n_samples)


def draws_for_all(n_samples=4):
    return FreshDraws([generator(200 + r) for r in range(N_REPLICATES)], n_samples)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("hidden", [[], [2], [2, 1]], ids=["1 layer", "2 layers", "3 layers"])
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_terms_of_every_replicate(family, coupling, hidden):
    method = SoD(coupling=coupling)
    singles, batches, stack, together = singles_and_stack(hidden, family)
    ours = method.terms(stack, together, draws_for_all())
    for r, (single, batch) in enumerate(zip(singles, batches, strict=True)):
        theirs = method.terms(single, batch, draws_for(r))
        assert ours.keys() == theirs.keys()
        for name in theirs:
            assert ours[name].shape == REPLICATES
            close(ours[name][r], theirs[name])


@pytest.mark.parametrize("label_noise", [None, 0.2])
@pytest.mark.parametrize("family", FAMILIES)
def test_several_outputs_and_an_own_label_noise(family, label_noise):
    singles, batches, stack, together = singles_and_stack([2], family, label_noise=label_noise, n_outputs=2)
    ours = SoD().terms(stack, together, draws_for_all())
    for r, (single, batch) in enumerate(zip(singles, batches, strict=True)):
        theirs = SoD().terms(single, batch, draws_for(r))
        for name in theirs:
            close(ours[name][r], theirs[name])


@pytest.mark.parametrize("kernel", [stacked_kernel, expanded_kernel])
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_and_predictions_of_every_replicate(family, coupling, kernel):
    method = SoD(coupling=coupling)
    singles, batches, stack, together = singles_and_stack([2], family, kernel=kernel)
    sum(method.terms(stack, together, draws_for_all()).values()).sum().backward()
    ways = [predict_as_batch, predict_joint_as_batch]
    predictions = [p(method, stack, together.X_s, together.y_s, together.X_b, draws_for_all()) for p in ways]
    for r, (single, batch) in enumerate(zip(singles, batches, strict=True)):
        sum(method.terms(single, batch, draws_for(r)).values()).backward()
        for name, parameter in single.named_parameters():
            close(stack.get_parameter(name).grad[r].reshape(parameter.shape), parameter.grad)
        for p, (mean, spread) in zip(ways, predictions, strict=True):
            alone_mean, alone_spread = p(method, single, batch.X_s, batch.y_s, batch.X_b, draws_for(r))
            close(mean[r], alone_mean)
            close(spread[r], alone_spread)


def test_a_replicate_counts_the_parameters_of_a_single_model():
    singles, _, stack, _ = singles_and_stack([2], "whitened", label_noise=0.2)
    assert stack.n_parameters == singles[0].n_parameters
