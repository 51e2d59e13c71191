"""Dense kernel evaluation equals GPyTorch's own, and its gradients stay finite."""

import gpytorch
import pytest
import torch
from gpytorch.kernels import (
    AdditiveKernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    PolynomialKernel,
    ProductKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)

from sodgp.kernels.dense import covariance, is_captureable, variance

KERNELS = {
    "rbf": lambda b: RBFKernel(batch_shape=b),
    "rbf ard": lambda b: RBFKernel(ard_num_dims=3, batch_shape=b),
    "matern12": lambda b: MaternKernel(nu=0.5, batch_shape=b),
    "matern32": lambda b: MaternKernel(nu=1.5, batch_shape=b),
    "matern52": lambda b: MaternKernel(nu=2.5, ard_num_dims=3, batch_shape=b),
    "rq": lambda b: RQKernel(batch_shape=b),
    "rq ard": lambda b: RQKernel(ard_num_dims=3, batch_shape=b),
    "scaled rbf": lambda b: ScaleKernel(RBFKernel(ard_num_dims=3, batch_shape=b), batch_shape=b),
    "scaled matern": lambda b: ScaleKernel(MaternKernel(nu=1.5, batch_shape=b), batch_shape=b),
    "scaled rq": lambda b: ScaleKernel(RQKernel(batch_shape=b), batch_shape=b),
    "scaled twice": lambda b: ScaleKernel(ScaleKernel(RBFKernel(batch_shape=b), batch_shape=b), batch_shape=b),
    "columns": lambda b: RBFKernel(active_dims=[0, 2], ard_num_dims=2, batch_shape=b),
    "scaled columns": lambda b: ScaleKernel(
        RBFKernel(active_dims=[0, 2], ard_num_dims=2, batch_shape=b), batch_shape=b
    ),
    "scaled swapped columns": lambda b: ScaleKernel(
        MaternKernel(nu=2.5, active_dims=[1, 0], ard_num_dims=2, batch_shape=b), batch_shape=b
    ),
    "scaled columns of its own": lambda b: ScaleKernel(
        MaternKernel(nu=2.5, ard_num_dims=2, batch_shape=b), active_dims=[2, 1], batch_shape=b
    ),
    "sum": lambda b: AdditiveKernel(
        RBFKernel(active_dims=[0], batch_shape=b), MaternKernel(nu=1.5, active_dims=[2], batch_shape=b)
    ),
    "product": lambda b: ProductKernel(
        RBFKernel(active_dims=[1], batch_shape=b), RQKernel(active_dims=[0, 2], batch_shape=b)
    ),
    "scaled sum of scaled products": lambda b: ScaleKernel(
        ScaleKernel(RBFKernel(batch_shape=b) * MaternKernel(nu=0.5, batch_shape=b), batch_shape=b)
        + RQKernel(batch_shape=b),
        batch_shape=b,
    ),
    "periodic": lambda b: PeriodicKernel(batch_shape=b),
    "linear": lambda b: LinearKernel(batch_shape=b),
    "polynomial": lambda b: PolynomialKernel(power=2, batch_shape=b),
    "scaled periodic columns": lambda b: ScaleKernel(PeriodicKernel(active_dims=[2], batch_shape=b), batch_shape=b),
    "rbf plus linear": lambda b: RBFKernel(batch_shape=b) + LinearKernel(active_dims=[1], batch_shape=b),
    "rbf times periodic": lambda b: RBFKernel(batch_shape=b) * PeriodicKernel(active_dims=[1], batch_shape=b),
}
OURS = [name for name in KERNELS if not any(word in name for word in ("periodic", "linear", "polynomial"))]
SHAPES = {
    "plain": ((), (5, 3), (4, 3)),
    "samples": ((), (6, 5, 3), (6, 4, 3)),
    "samples against one": ((), (6, 5, 3), (1, 4, 3)),
    "replicates": ((2,), (2, 5, 3), (2, 4, 3)),
    "replicates and samples": ((2, 1), (2, 6, 5, 3), (2, 6, 4, 3)),
    "replicates, first layer": ((2, 1), (2, 1, 5, 3), (2, 1, 4, 3)),
}


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(name, batch_shape=()):
    kernel = KERNELS[name](torch.Size(batch_shape)).double()
    with torch.no_grad():
        for i, parameter in enumerate(kernel.parameters()):
            parameter.add_(0.5 * randn(i, *parameter.shape))
    return kernel


def close(ours, theirs, tolerance=1e-10):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", KERNELS)
def test_covariance_equals_gpytorch(name, shape):
    batch_shape, shape1, shape2 = SHAPES[shape]
    kernel, X1, X2 = make(name, batch_shape), randn(7, *shape1), randn(8, *shape2)
    close(covariance(kernel, X1, X2), kernel(X1, X2).to_dense())


@pytest.mark.parametrize("shape", ["plain", "replicates and samples"])
@pytest.mark.parametrize("name", KERNELS)
def test_covariance_of_one_set_equals_gpytorch(name, shape):
    batch_shape, shape1, _ = SHAPES[shape]
    kernel, X = make(name, batch_shape), randn(7, *shape1)
    close(covariance(kernel, X), kernel(X, X).to_dense())


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("shape", ["plain", "samples", "replicates and samples"])
def test_variance_is_the_diagonal(name, shape):
    batch_shape, shape1, _ = SHAPES[shape]
    kernel, X = make(name, batch_shape), randn(7, *shape1)
    close(
        variance(kernel, X).expand(covariance(kernel, X).shape[:-1]), kernel(X, X).to_dense().diagonal(dim1=-2, dim2=-1)
    )


@pytest.mark.parametrize("name", KERNELS)
def test_diagonal_of_the_matrix_is_the_variance_of_every_row(name):
    # Many rows, away from the origin: rounding of a squared distance must not reach a root.
    kernel, X = make(name), 3.0 + 2.0 * randn(9, 200, 3)
    close(covariance(kernel, X).diagonal(dim1=-2, dim2=-1), variance(kernel, X).expand(200))


@pytest.mark.parametrize("name", OURS)
def test_a_common_offset_of_the_inputs_changes_nothing(name):
    kernel, X1, X2 = make(name), randn(7, 5, 3), randn(8, 4, 3)
    # 2^10 and 2^-30: the shifted inputs are exact in binary.
    X1, X2 = (torch.round(X * 2**30) / 2**30 for X in (X1, X2))
    close(covariance(kernel, X1 + 1024.0, X2 + 1024.0), covariance(kernel, X1, X2))


@pytest.mark.parametrize("name", OURS)
def test_gradients_equal_gpytorch(name):
    weight = randn(10, 5, 4)
    gradients = []
    for evaluate in (covariance, lambda k, a, b: k(a, b).to_dense()):
        kernel, X1, X2 = make(name), randn(7, 5, 3).requires_grad_(), randn(8, 4, 3).requires_grad_()
        total = (weight * evaluate(kernel, X1, X2)).sum()
        gradients.append(torch.autograd.grad(total, [X1, X2, *kernel.parameters()]))
    for ours, theirs in zip(*gradients, strict=True):
        close(ours, theirs, 1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_finite_and_small_at_equal_points(name):
    # With every pair of points equal, only scales and offsets may have a gradient of order one.
    kernel, X = make(name), randn(7, 1, 3).expand(4, 3).clone().requires_grad_()
    total = covariance(kernel, X).sum() + covariance(kernel, X, X.clone()).sum()
    gradients = torch.autograd.grad(total, [X, *kernel.parameters()])
    assert all(bool(torch.isfinite(g).all()) for g in gradients)
    if name in OURS:
        assert float(gradients[0].abs().max()) < 1e-6


@pytest.mark.parametrize("name", KERNELS)
def test_duplicated_rows_give_finite_gradients(name):
    kernel, X = make(name), randn(7, 3, 3)[[0, 1, 1, 2]].requires_grad_()
    total = (randn(11, 4, 4) * covariance(kernel, X)).sum() + variance(kernel, X).sum()
    gradients = torch.autograd.grad(total, [X, *kernel.parameters()])
    assert all(bool(torch.isfinite(g).all()) for g in gradients)


@pytest.mark.parametrize("name", KERNELS)
def test_no_rows_give_an_empty_matrix(name):
    kernel, X = make(name), randn(7, 5, 3)
    assert covariance(kernel, X, X[:0]).shape == (5, 0)
    assert variance(kernel, X[:0]).shape == (0,)


def test_only_known_kernels_can_be_captured():
    assert all(is_captureable(make(name)) for name in OURS)
    assert not any(is_captureable(make(name)) for name in KERNELS if name not in OURS)


def test_a_subclass_keeps_its_own_code():
    class Doubled(RBFKernel):
        def forward(self, x1, x2, diag=False, **params):
            return 2.0 * super().forward(x1, x2, diag=diag, **params)

    kernel, X = Doubled().double(), randn(7, 5, 3)
    close(covariance(kernel, X), 2.0 * covariance(RBFKernel().double(), X))
    close(variance(kernel, X), torch.full((5,), 2.0, dtype=torch.float64))
    assert not is_captureable(kernel)


def test_priors_and_constraints_of_the_kernel_are_used():
    kernel = ScaleKernel(
        RBFKernel(
            lengthscale_prior=gpytorch.priors.GammaPrior(3.0, 6.0),
            lengthscale_constraint=gpytorch.constraints.Interval(0.1, 0.2),
        )
    ).double()
    X = randn(7, 5, 3)
    close(covariance(kernel, X), kernel(X, X).to_dense())
