"""A Gaussian that has seen the labels of all rows: values and gradients against the plain formulas."""

import pytest
import torch

from sodgp.linalg.cholesky import Jitter, factorise
from sodgp.linalg.label_rows import LabelRows, posterior_factor

T, M, N, P = 2, 4, 7, 2


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def kernel(a, b):
    return (-0.5 * (a.unsqueeze(-2) - b.unsqueeze(-3)).square().sum(-1)).exp()


def fast(Z_s, Z, y, v, with_variances=True):
    factor = factorise(kernel(Z_s, Z_s), Jitter(1e-6))
    return LabelRows.apply(factor.E, factor.inverse_value, kernel(Z_s, Z), y, v, with_variances)


def plain(Z_s, Z, y, v):
    A = factorise(kernel(Z_s, Z_s), Jitter(1e-6)).L_inv @ kernel(Z_s, Z)
    Q = torch.eye(M, dtype=torch.float64) + (A @ A.mT).unsqueeze(-3) / v.mT.unsqueeze(-1)
    S = torch.linalg.inv(Q)
    c = torch.einsum("...pij,...jp->...ip", S, A @ y) / v
    explained = torch.einsum("...in,...pij,...jn->...np", A, S, A)
    return A.mT @ c, explained, A.square().sum(-2), torch.logdet(Q)


@pytest.mark.parametrize("batch", [(T,), (3, T)], ids=["one model", "replicates"])
@pytest.mark.parametrize("used", [(0, 1, 2, 3), (0, 2, 3), (0, 1, 2)], ids=["all", "collapsed", "leave one out"])
def test_values_and_gradients_are_those_of_the_formulas(batch, used):
    Z_s, Z = randn(0, *batch, M, 3).requires_grad_(), randn(1, *batch, N, 3).requires_grad_()
    y = randn(2, *batch[:-1], 1, N, P).requires_grad_()
    v = (0.1 + randn(3, *batch[:-1], 1, 1, P).square()).requires_grad_()
    values, gradients = [], []
    for function in (fast, plain):
        outputs = function(Z_s, Z, y, v)
        found = [outputs[index] for index in used]
        loss = sum((randn(9 + i, *each.shape) * each).sum() for i, each in enumerate(found))
        values.append(found)
        gradients.append(torch.autograd.grad(loss, (Z_s, Z, y, v)))
    for ours, theirs in zip(values[0] + list(gradients[0]), values[1] + list(gradients[1]), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


def test_without_variances_the_rest_is_the_same():
    parts = (randn(0, T, M, 3).requires_grad_(), randn(1, T, N, 3).requires_grad_(), randn(2, 1, N, P))
    v = torch.full((1, 1, P), 0.3, dtype=torch.float64, requires_grad=True)
    gradients = []
    for with_variances in (True, False):
        f, explained, known, log_det = fast(*parts, v, with_variances)
        assert (explained is None) == (not with_variances)
        gradients.append(torch.autograd.grad(f.sum() + known.sum() + log_det.sum(), (*parts[:2], v)))
    for ours, theirs in zip(*gradients, strict=True):
        assert torch.equal(ours, theirs)


def test_labels_without_a_gradient_get_none():
    Z_s, Z, y = randn(0, T, M, 3).requires_grad_(), randn(1, T, N, 3), randn(2, 1, N, P)
    sum(each.sum() for each in fast(Z_s, Z, y, torch.ones(1, 1, P, dtype=torch.float64))).backward()
    assert y.grad is None
    assert bool(Z_s.grad.any())


def test_the_factor_is_that_of_q_and_its_inverse():
    A, v = randn(0, M, N), torch.tensor([[[0.5, 2.0]]], dtype=torch.float64)
    L, L_inv = posterior_factor(A @ A.mT, v)
    for output in range(P):
        Q = torch.eye(M, dtype=torch.float64) + A @ A.mT / v[0, 0, output]
        torch.testing.assert_close((L @ L.mT)[0, output], Q)
    torch.testing.assert_close(L @ L_inv, torch.eye(M, dtype=torch.float64).expand(1, P, M, M))
