"""Where inducing inputs start: k-means centres, mapped through the linear means, for every replicate."""

from dataclasses import replace

import pytest
import torch

from sodgp.inference.contract import Batch, TrainingSet, bound
from sodgp.inference.dsvi import DSVI
from sodgp.inference.inducing import inducing_start
from sodgp.linalg.draws import FreshDraws
from sodgp.model.architecture import Architecture, linear_weights
from sodgp.selectors.kmeans import KMeans


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(seed, *shape):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def close(ours, theirs, tolerance=1e-10):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def batch_of(X, y, scale=1.0):
    return Batch(X[..., :0, :], y[..., :0, :], X, y, scale=scale)


def training_set(X):
    y = X[..., :1]
    return TrainingSet(X[..., :0, :], y[..., :0, :], X, y)


def architecture(X, widths, size, **options):
    return Architecture(X.shape[-1], 1, size, linear_weights(X, widths), **options)


def test_k_means_centres_are_carried_through_the_linear_means():
    X = randn(50, 60, 4)
    design = architecture(X, [3, 3, 5], 7)
    model = DSVI().build(design, training_set(X), generator(1))
    Z = KMeans().centres(X, 7, generator(1))
    for layer, W in zip(model.layers, [*design.mean_weights, None], strict=True):
        close(layer.inducing_inputs.detach(), Z)
        Z = Z if W is None else Z @ W
    # So the layers' prior means at their inducing inputs are the next layer's inducing inputs.
    first, second = model.layers[:2]
    close(first.mean(first.inducing_inputs), second.inducing_inputs)


def test_zero_means_do_not_put_all_inducing_inputs_on_one_point():
    X = randn(50, 60, 4)
    linear = architecture(X, [3, 2], 7)
    zero = replace(linear, mean_weights=[torch.zeros_like(W) for W in linear.mean_weights])
    ours, theirs = (DSVI(learn_inducing_inputs=False).build(a, training_set(X), generator(1)) for a in (zero, linear))
    for a, b in zip(ours.layers, theirs.layers, strict=True):
        close(a.inducing_inputs, b.inducing_inputs)
        assert float(torch.pdist(a.inducing_inputs).min()) > 1e-2
        assert not bool(a.mean.weight.any())


@pytest.mark.parametrize("is_linear", [True, False], ids=["linear means", "zero means"])
def test_every_replicate_starts_at_its_own_data(is_linear):
    X = randn(51, 2, 40, 3)
    singles = [architecture(x, [2], 5) for x in X]
    weights = [torch.stack(W) for W in zip(*(a.mean_weights for a in singles), strict=True)]
    if not is_linear:
        weights = [torch.zeros_like(W) for W in weights]
    together = replace(singles[0], mean_weights=weights, replicates=torch.Size([2]))
    model = DSVI().build(together, training_set(X), generator(3))
    source = generator(3)
    for r in range(2):
        Z = KMeans().centres(X[r], 5, source)
        close(model.layers[0].inducing_inputs[r].detach(), Z)
        close(model.layers[1].inducing_inputs[r].detach(), Z @ singles[r].mean_weights[0])


def test_where_rows_are_as_many_as_inducing_inputs_they_are_the_start():
    X = randn(52, 6, 3)
    Z = inducing_start(architecture(X, [], 6), training_set(X[[0, 1, 1, 2, 3, 4, 5, 0]]), generator(0))
    assert torch.equal(Z, X)


def test_fewer_distinct_rows_than_inducing_inputs():
    X = randn(53, 4, 3)
    rows = X[torch.arange(20) % 4]
    model = DSVI().build(architecture(X, [2], 10), training_set(rows), generator(0))
    Z = model.layers[0].inducing_inputs.detach()
    assert torch.equal(Z[:4], X)
    assert float((Z - X[torch.arange(10) % 4]).abs().max()) < 0.01
    assert float(torch.pdist(Z).min()) > 0.0
    value = bound(DSVI().terms(model, batch_of(rows[None], rows[None, :, :1]), FreshDraws(generator(0), 2)))
    assert bool(torch.isfinite(value))


def test_constant_columns_and_a_single_distinct_row():
    X = torch.ones(8, 3, dtype=torch.float64)
    Z = inducing_start(architecture(X, [], 3), training_set(X), generator(0))
    assert torch.equal(Z[0], X[0])
    assert len(Z.unique(dim=0)) == 3


def test_without_data_there_is_only_room():
    design = Architecture(3, 1, 5, [torch.eye(3, dtype=torch.float64)])
    model = DSVI().build(design, None, generator(0))
    assert [tuple(layer.inducing_inputs.shape) for layer in model.layers] == [(5, 3), (5, 3)]
