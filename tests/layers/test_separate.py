"""A kernel for each output of the first layer."""

import pytest
import torch

from sodgp.kernels.make import make_kernel
from sodgp.layers.contract import Points
from sodgp.layers.prior import HiddenMean
from sodgp.layers.separate import SeparateLayer
from sodgp.layers.subset import SubsetLayer
from sodgp.linalg.draws import FreshDraws

M, B, D_IN, D, T = 6, 9, 3, 4, 5
COUPLINGS = ("ancestral", "marginal", "joint")


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def lengthscales(layer):
    return layer.kernel.base_kernel.raw_lengthscale


def fill(layer, seed=0):
    with torch.no_grad():
        layer.q_mean.copy_(randn(seed, *layer.q_mean.shape))
        layer.q_factor.copy_(0.3 * randn(seed + 1, *layer.q_factor.shape))
        layer.q_factor.diagonal(dim1=-2, dim2=-1).copy_(0.5 + randn(seed + 2, *layer.q_factor.shape[:-1]).abs())


def separate():
    kernel = make_kernel("rbf", D_IN, replicates=torch.Size([D]))
    layer = SeparateLayer(kernel, HiddenMean(randn(9, D_IN, D)), size=M, width=D, noise_variance=0.01)
    fill(layer)
    return layer


def points():
    return Points(randn(3, 1, M, D_IN), randn(4, 1, B, D_IN))


def draws():
    return FreshDraws(torch.Generator().manual_seed(5), T)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_equal_kernels_are_one_kernel(coupling):
    """In value and gradient: the shared kernel's gradient is the sum of those of the separate ones."""
    ours = separate()
    shared = SubsetLayer(make_kernel("rbf", D_IN), ours.mean, size=M, width=D, noise_variance=0.01)
    fill(shared)
    results = []
    for layer in (ours, shared):
        out, kl = layer.propagate(points(), draws(), coupling)
        value = (out.subset * randn(6, *out.subset.shape)).sum() + (out.rest * randn(7, *out.rest.shape)).sum()
        parameters = (layer.q_mean, layer.q_factor, layer.raw_noise, lengthscales(layer))
        results.append((out.subset, out.rest, kl, *torch.autograd.grad(value + kl.sum(), parameters)))
    *first, ours_lengths = results[0]
    *second, shared_lengths = results[1]
    for a, b in zip(first, second, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(ours_lengths.reshape(D, D_IN).sum(0), shared_lengths.reshape(D_IN), rtol=1e-8, atol=1e-9)


class OneColumn:
    """The numbers of one output among those of all."""

    def __init__(self, column):
        self.draws, self.column, self.n_samples = draws(), column, T

    def subset(self, rows, width):
        return self.draws.subset(rows, D)[..., self.column : self.column + 1]

    def rest(self, rows, width):
        return self.draws.rest(rows, D)[..., self.column : self.column + 1]


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_every_output_has_its_own_kernel(coupling):
    layer = separate()
    with torch.no_grad():
        lengthscales(layer).add_(0.5 * randn(8, *lengthscales(layer).shape))
        layer.kernel.raw_outputscale.add_(0.5 * randn(10, *layer.kernel.raw_outputscale.shape))
    out, kl = layer.propagate(points(), draws(), coupling)
    total = torch.zeros_like(kl)
    for d in range(D):
        kernel = make_kernel("rbf", D_IN)
        alone = SubsetLayer(kernel, HiddenMean(layer.mean.weight[:, d : d + 1]), size=M, width=1, noise_variance=0.01)
        with torch.no_grad():
            kernel.base_kernel.raw_lengthscale.copy_(lengthscales(layer)[d].reshape(1, D_IN))
            kernel.raw_outputscale.copy_(layer.kernel.raw_outputscale[d].squeeze())
            alone.q_mean.copy_(layer.q_mean[:, d : d + 1])
            alone.q_factor.copy_(layer.q_factor[d : d + 1])
        single, single_kl = alone.propagate(points(), OneColumn(d), coupling)
        torch.testing.assert_close(out.subset[..., d : d + 1], single.subset)
        torch.testing.assert_close(out.rest[..., d : d + 1], single.rest)
        total = total + single_kl
    torch.testing.assert_close(kl, total)
