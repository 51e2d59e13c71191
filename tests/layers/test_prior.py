"""p(F_R | F_S) of one layer against explicit inverses."""

import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel

from sodgp.errors import CholeskyError
from sodgp.layers.prior import condition
from sodgp.linalg.cholesky import Jitter


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def kernel():
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.outputscale = torch.tensor(1.7, dtype=torch.float64)
    return kernel


def blocks(kernel, Z_s, Z_b):
    return kernel(Z_s, Z_s).to_dense(), kernel(Z_s, Z_b).to_dense(), kernel(Z_b, Z_b).to_dense()


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_factor_cross_term_and_variance(kernel):
    Z_s, Z_b = randn(0, 3, 5, 2), randn(1, 3, 4, 2)
    cond = condition(kernel, Z_s, Z_b, Jitter(1e-3, relative=False))
    K_ss, K_sb, K_bb = blocks(kernel, Z_s, Z_b)
    K_ss = K_ss + 1e-3 * torch.eye(5, dtype=torch.float64)
    close(cond.L @ cond.L.mT, K_ss)
    close(cond.L @ cond.A, K_sb)
    close(cond.L_inv @ cond.L, torch.eye(5, dtype=torch.float64).expand(3, 5, 5))
    close(cond.V, (K_bb - K_sb.mT @ torch.linalg.inv(K_ss) @ K_sb).diagonal(dim1=-2, dim2=-1))


def test_a_nugget_sits_on_both_diagonals(kernel):
    Z_s, Z_b = randn(0, 5, 2), randn(1, 4, 2)
    nugget = torch.full((1, 1), 0.2, dtype=torch.float64)
    cond = condition(kernel, Z_s, Z_b, Jitter(0.0), nugget=nugget)
    K_ss, K_sb, K_bb = blocks(kernel, Z_s, Z_b)
    K_ss = K_ss + 0.2 * torch.eye(5, dtype=torch.float64)
    close(cond.L @ cond.L.mT, K_ss)
    close(cond.V, (K_bb - K_sb.mT @ torch.linalg.inv(K_ss) @ K_sb).diagonal() + 0.2)


def test_the_programs_jitter_also_raises_the_prior_variance_of_the_rest(kernel):
    Z_s, Z_b = randn(0, 5, 2), randn(1, 4, 2)
    plain = condition(kernel, Z_s, Z_b, Jitter(1e-3, relative=False))
    program = condition(kernel, Z_s, Z_b, Jitter(1e-3, relative=False, on_draws=True))
    close(program.V, plain.V + 1e-3)
    close(program.L, plain.L)


def test_the_variance_is_never_negative_on_top_of_the_subset():
    kernel = ScaleKernel(MaternKernel(nu=2.5)).double()
    Z = randn(0, 20, 2)
    with torch.no_grad():
        cond = condition(kernel, Z, Z, Jitter(1e-12))
    assert bool((cond.V >= 0).all())
    assert float(cond.V.max()) < 1e-8


def test_the_rest_may_be_empty(kernel):
    Z = randn(0, 5, 2)
    cond = condition(kernel, Z, Z[:0], Jitter())
    assert cond.A.shape == (5, 0)
    assert cond.V.shape == (0,)


def test_a_failure_names_the_layer(kernel):
    Z = torch.zeros(3, 4, 2, dtype=torch.float64)
    Z[1] = torch.nan
    with pytest.raises(CholeskyError, match="layer 3, sample 1") as caught:
        condition(kernel, Z, Z, Jitter(), layer=3)
    assert caught.value.layer == 3
