"""Products with gradients by hand: values and gradients against plain operations."""

import pytest
import torch

from sodgp.layers.products import HiddenRows, TotalRows

M, B, D = 3, 4, 2
SHAPES = {
    "shared by the samples": ((1,), (5,)),
    "one a sample": ((5,), (5,)),
    "one sample": ((1,), (1,)),
    "replicates, shared": ((2, 1), (2, 5)),
    "replicates, one a sample": ((2, 5), (2, 5)),
}


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def inputs(shape, rows):
    matrices, columns = SHAPES[shape]
    L_inv = randn(0, *matrices, M, M).detach().tril() + 2.0 * torch.eye(M, dtype=torch.float64)
    return L_inv.requires_grad_(), randn(1, *matrices, M, rows), randn(2, *columns, M, D)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("rows", [B, 0])
@pytest.mark.parametrize("shape", SHAPES)
def test_hidden_rows(shape, rows):
    L_inv, K, w = inputs(shape, rows)
    ours = HiddenRows.apply(L_inv, K, w)
    A = L_inv @ K
    theirs = (A.mT @ w, A.square().sum(-2))
    weights = [torch.cos(torch.arange(t.numel(), dtype=torch.float64)).reshape(t.shape) for t in theirs]
    totals = [sum((x * t).sum() for x, t in zip(weights, values, strict=True)) for values in (ours, theirs)]
    for a, b in zip(ours, theirs, strict=True):
        close(a, b)
    for a, b in zip(*(torch.autograd.grad(total, [L_inv, K, w]) for total in totals), strict=True):
        close(a, b)


@pytest.mark.parametrize("rows", [B, 0])
@pytest.mark.parametrize("shape", SHAPES)
def test_total_rows(shape, rows):
    L_inv, K, a = inputs(shape, rows)
    L = torch.linalg.inv(L_inv.detach())
    ours = TotalRows.apply(L, L_inv, K, a)
    A = L_inv @ K
    theirs = (K.mT @ a, A @ A.mT)
    weights = [torch.cos(torch.arange(t.numel(), dtype=torch.float64)).reshape(t.shape) for t in theirs]
    totals = [sum((x * t).sum() for x, t in zip(weights, values, strict=True)) for values in (ours, theirs)]
    for x, y in zip(ours, theirs, strict=True):
        close(x, y)
    for x, y in zip(*(torch.autograd.grad(total, [L_inv, K, a]) for total in totals), strict=True):
        close(x, y)
