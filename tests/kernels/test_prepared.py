"""Covariances with prepared points equal the plain ones."""

import gpytorch
import pytest
import torch

from sodgp.kernels.dense import covariance, variance
from sodgp.kernels.make import make_kernel
from sodgp.kernels.prepared import PreparedCovariance

GENERATOR = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


def active():
    return gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(active_dims=[0, 2])).double()


KERNELS = {
    "rbf": lambda: make_kernel("rbf", 3),
    "rbf-iso": lambda: make_kernel("rbf-iso", 3),
    "matern52": lambda: make_kernel("matern52", 3),
    "unscaled": lambda: gpytorch.kernels.RBFKernel(ard_num_dims=3).double(),
    "some columns": active,
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("samples", [1, 4])
def test_values_are_those_of_the_kernel(name, samples):
    kernel, Z, X = KERNELS[name](), normal(samples, 6, 3) + 5.0, normal(4, 9, 3) + 5.0
    with torch.no_grad():
        prepared, expected = PreparedCovariance(kernel, Z), covariance(kernel, Z, X)
        torch.testing.assert_close(prepared(X), expected, rtol=0, atol=1e-13)
        memory = torch.empty(1, 6, 9, dtype=torch.float64)
        for index in range(4):
            part, rows = prepared.of_sample(index), X[index : index + 1]
            torch.testing.assert_close(part(rows, memory), expected[index : index + 1], rtol=0, atol=1e-13)
            diagonal = part.variance(rows).expand(1, 9)
            torch.testing.assert_close(diagonal, variance(kernel, rows).expand(1, 9), rtol=0, atol=1e-13)


def test_a_kernel_for_each_output():
    kernel = make_kernel("rbf", 3, replicates=torch.Size([2]))
    with torch.no_grad():
        kernel.base_kernel.raw_lengthscale.add_(normal(2, 1, 1, 3))
        Z, X = normal(1, 6, 3).expand(2, 1, 6, 3), normal(2, 1, 9, 3)
        torch.testing.assert_close(PreparedCovariance(kernel, Z)(X), covariance(kernel, Z, X), rtol=0, atol=1e-13)


def test_gradients_of_the_rows_are_kept():
    kernel, Z = make_kernel("rbf", 3).requires_grad_(False), normal(2, 6, 3)
    prepared, X = PreparedCovariance(kernel, Z), normal(2, 4, 3).requires_grad_()
    assert torch.autograd.gradcheck(prepared, (X,))
