"""Both matrices of an RBF kernel in one operation: values and gradients against GPyTorch's."""

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel

from sodgp.kernels.dense import RBFPair, covariance, covariance_pair

SHAPES = {
    "plain": ((), (5, 3), (4, 3)),
    "samples": ((), (6, 5, 3), (6, 4, 3)),
    "one row set for all samples": ((), (6, 5, 3), (1, 4, 3)),
    "replicates, one subset each": ((2, 1), (2, 1, 5, 3), (2, 6, 4, 3)),
    "one subset for all samples": ((), (1, 5, 3), (6, 4, 3)),
    "replicates and samples": ((2, 1), (2, 6, 5, 3), (2, 6, 4, 3)),
    "replicates, first layer": ((2, 1), (2, 1, 5, 3), (2, 1, 4, 3)),
}


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weight(K):
    return torch.cos(torch.arange(K.numel(), dtype=torch.float64)).reshape(K.shape)


def kernels(batch_shape):
    shape = torch.Size(batch_shape)
    yield RBFKernel(batch_shape=shape).double()
    yield ScaleKernel(RBFKernel(ard_num_dims=3, batch_shape=shape), batch_shape=shape).double()


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_equal_gpytorch(shape):
    batch_shape, shape_s, shape_b = SHAPES[shape]
    for kernel in kernels(batch_shape):
        with torch.no_grad():
            for i, parameter in enumerate(kernel.parameters()):
                parameter.add_(0.5 * randn(i, *parameter.shape))
        Z_s, Z_b = randn(7, *shape_s).requires_grad_(), randn(8, *shape_b).requires_grad_()
        leaves = [Z_s, Z_b, *kernel.parameters()]
        ours = covariance_pair(kernel, Z_s, Z_b)
        theirs = kernel(Z_s, Z_s).to_dense(), kernel(Z_s, Z_b).to_dense()
        totals = [sum((weight(K) * K).sum() for K in pair) for pair in (ours, theirs)]
        for a, b in zip(ours, theirs, strict=True):
            close(a, b)
        for a, b in zip(*(torch.autograd.grad(total, leaves) for total in totals), strict=True):
            close(a, b)


def test_gradients_equal_finite_differences():
    inputs = randn(0, 3, 2), randn(1, 4, 2), randn(2, 1, 2).exp(), randn(3, 1, 1)
    assert torch.autograd.gradcheck(RBFPair.apply, [x.requires_grad_() for x in inputs])


def test_inputs_far_from_the_origin_keep_their_digits():
    kernel = RBFKernel().double()
    Z = [torch.round(randn(seed, 5, 3) * 2**30) / 2**30 for seed in (7, 8)]
    near, far = covariance_pair(kernel, *Z), covariance_pair(kernel, *(z + 1024.0 for z in Z))
    for a, b in zip(near, far, strict=True):
        close(a, b)


def test_other_kernels_are_evaluated_apart():
    kernel = ScaleKernel(ScaleKernel(RBFKernel())).double()
    Z_s, Z_b = randn(7, 5, 3), randn(8, 4, 3)
    K_ss, K_sb = covariance_pair(kernel, Z_s, Z_b)
    close(K_ss, covariance(kernel, Z_s))
    close(K_sb, covariance(kernel, Z_s, Z_b))
