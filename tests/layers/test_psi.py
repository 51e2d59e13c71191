"""Psi statistics against the exact kernel, against Monte Carlo, and against finite differences."""

import math

import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel

from sodgp.errors import ConfigurationError
from sodgp.kernels.dense import covariance
from sodgp.kernels.make import make_kernel
from sodgp.layers import psi
from sodgp.layers.psi import RBF, cross, psi1, psi2, rbf_of

N, M, Q = 4, 3, 2


def generator(seed):
    return torch.Generator().manual_seed(seed)


def randn(seed, *shape):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def rand(seed, *shape):
    return 0.1 + torch.rand(shape, generator=generator(seed), dtype=torch.float64)


def case(*lead):
    return randn(0, *lead, N, Q), rand(1, *lead, N, Q), randn(2, *lead, M, Q)


def ard(*lead):
    return RBF(0.5 + rand(3, *lead), 0.5 + rand(4, *lead, 1, Q))


def iso(*lead):
    return RBF(0.5 + rand(3, *lead), 0.5 + rand(4, *lead, 1, 1))


def by_hand(rbf, z, Z):
    """k(z, Z) from explicit differences."""
    difference = (z.unsqueeze(-2) - Z.unsqueeze(-3)) / rbf.lengthscale.unsqueeze(-2)
    return rbf.variance[..., None, None] * (-0.5 * difference.square().sum(-1)).exp()


@pytest.mark.parametrize("lead", [(), (2, 1)])
@pytest.mark.parametrize("kernel", [ard, iso])
def test_certain_inputs_give_the_kernel_itself(kernel, lead):
    mu, s, Z = case(*lead)
    rbf, zero = kernel(*lead), torch.zeros_like(s)
    K = by_hand(rbf, mu, Z)
    torch.testing.assert_close(psi1(rbf, mu, zero, Z), K, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(psi2(rbf, mu, zero, Z), K.mT @ K, rtol=1e-12, atol=1e-13)
    assert (cross(rbf, mu, zero, Z, K) == 0).all()


@pytest.mark.parametrize("kernel", [ard, iso])
def test_uncertain_inputs_give_the_monte_carlo_means(kernel):
    mu, s, Z = case()
    rbf, count = kernel(), 400_000
    z = mu + s.sqrt() * randn(5, count, N, Q)
    K = by_hand(rbf, z, Z)
    one = psi1(rbf, mu, s, Z)
    samples = {
        "psi1": (one, K),
        "psi2": (psi2(rbf, mu, s, Z), K.mT @ K),
        "cross": (cross(rbf, mu, s, Z, one), K.mT @ (z - mu)),
    }
    for name, (ours, values) in samples.items():
        error = values.std(0) / math.sqrt(count)
        assert ours.shape == values.shape[1:]
        assert ((ours - values.mean(0)).abs() < 4.5 * error).all(), name


def test_a_leading_axis_is_a_loop():
    mu, s, Z = case(3, 1)
    rbf = ard(3, 1)
    one, two = psi1(rbf, mu, s, Z), psi2(rbf, mu, s, Z)
    three = cross(rbf, mu, s, Z, one)
    for r in range(3):
        alone = RBF(rbf.variance[r], rbf.lengthscale[r])
        torch.testing.assert_close(one[r], psi1(alone, mu[r], s[r], Z[r]), rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(two[r], psi2(alone, mu[r], s[r], Z[r]), rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(three[r], cross(alone, mu[r], s[r], Z[r], one[r]), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("kernel", [ard, iso])
def test_gradients_are_finite_differences(kernel):
    arguments = [x.requires_grad_() for x in (*kernel(), *case())]

    def all_three(variance, lengthscale, mu, s, Z):
        rbf = RBF(variance, lengthscale)
        one = psi1(rbf, mu, s, Z)
        return one, psi2(rbf, mu, s, Z), cross(rbf, mu, s, Z, one)

    assert torch.autograd.gradcheck(all_three, arguments)


def test_chunks_of_rows_change_neither_value_nor_gradient(monkeypatch):
    rbf = ard()
    results = []
    for elements in (2**22, 2 * M * (M + 1) // 2, 1):
        monkeypatch.setattr(psi, "_CHUNK_ELEMENTS", elements)
        arguments = [x.requires_grad_() for x in case()]
        value = psi2(rbf, *arguments)
        results.append((value, *torch.autograd.grad(value.square().sum(), arguments)))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-12, atol=1e-13)


def test_psi2_is_positive_semi_definite_and_above_the_square_of_psi1():
    mu, s, Z = case()
    rbf = ard()
    one = psi1(rbf, mu, s, Z)
    assert torch.linalg.eigvalsh(psi2(rbf, mu, s, Z) - one.mT @ one).min() > 0


def test_far_from_the_origin_no_digit_is_lost():
    mu, s, Z = case()
    rbf, far = ard(), 1e5
    torch.testing.assert_close(psi1(rbf, mu + far, s, Z + far), psi1(rbf, mu, s, Z), rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(psi2(rbf, mu + far, s, Z + far), psi2(rbf, mu, s, Z), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["rbf", "rbf-iso"])
@pytest.mark.parametrize("replicates", [torch.Size(), torch.Size([2])])
def test_named_kernels_are_read_as_they_are(name, replicates):
    kernel = make_kernel(name, Q, variance=1.7, lengthscale=0.6, replicates=replicates)
    mu, s, Z = case(*replicates, 1)
    ours = psi1(rbf_of(kernel), mu, torch.zeros_like(s), Z)
    torch.testing.assert_close(ours, covariance(kernel, mu, Z), rtol=1e-12, atol=1e-13)


def test_a_kernel_without_scale_has_variance_one():
    mu, s, Z = case()
    kernel = RBFKernel(ard_num_dims=Q).double()
    torch.testing.assert_close(psi1(rbf_of(kernel), mu, torch.zeros_like(s), Z), covariance(kernel, mu, Z))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda: ScaleKernel(MaternKernel()), "closed for RBF only"),
        (lambda: RBFKernel() + RBFKernel(), "needs the RBF kernel, not AdditiveKernel"),
        (lambda: ScaleKernel(RBFKernel(active_dims=[0])), "leave active_dims out"),
    ],
)
def test_other_kernels_are_refused(kernel, message):
    with pytest.raises(ConfigurationError, match=message):
        rbf_of(kernel())
