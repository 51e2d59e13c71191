"""Products with gradients by hand: values and gradients against plain operations."""

import pytest
import torch

from sodgp.linalg import products
from sodgp.linalg.cholesky import Jitter, factorise
from sodgp.linalg.products import Gram, HiddenRows, OutputVariances, QuadraticTrace, SpreadRows, TotalRows

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
    root = randn(0, *matrices, M, M).detach()
    K_ss = (root @ root.mT + torch.eye(M, dtype=torch.float64)).requires_grad_()
    return K_ss, randn(1, *matrices, M, rows), randn(2, *columns, M, D)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def plain_factor(K):
    return torch.linalg.cholesky(0.5 * (K + K.mT))


def compare(ours, theirs, leaves):
    """Equal values, and equal gradients of one weighted sum of all results."""
    weights = [torch.cos(torch.arange(t.numel(), dtype=torch.float64)).reshape(t.shape) for t in theirs]
    totals = [sum((x * t).sum() for x, t in zip(weights, values, strict=True)) for values in (ours, theirs)]
    for a, b in zip(ours, theirs, strict=True):
        close(a, b)
    for a, b in zip(*(torch.autograd.grad(total, leaves) for total in totals), strict=True):
        close(a, b)


@pytest.mark.parametrize("rows", [B, 0])
@pytest.mark.parametrize("shape", SHAPES)
def test_hidden_rows(shape, rows):
    K_ss, K, w = inputs(shape, rows)
    factor = factorise(K_ss, Jitter(0.0))
    A = torch.linalg.solve_triangular(plain_factor(K_ss), K, upper=False)
    ours = HiddenRows.apply(factor.E, factor.inverse_value, K, w)
    compare(ours, (A.mT @ w, A.square().sum(-2)), [K_ss, K, w])


@pytest.mark.parametrize("rows", [B, 0])
@pytest.mark.parametrize("group_elements", [2**22, 1])
@pytest.mark.parametrize("shape", ["one a sample", "one sample", "replicates, one a sample"])
def test_spread_rows(shape, group_elements, rows, monkeypatch):
    monkeypatch.setattr(products, "_GROUP_ELEMENTS", group_elements)
    K_ss, K, w = inputs(shape, rows)
    F = randn(3, *w.shape[:-2], D, M, M)
    factor = factorise(K_ss, Jitter(0.0))
    A = torch.linalg.solve_triangular(plain_factor(K_ss), K, upper=False)
    explained = A.square().sum(-2).unsqueeze(-1) - (F.mT @ A.unsqueeze(-3)).square().sum(-2).mT
    ours = SpreadRows.apply(factor.E, factor.inverse_value, K, w, F)
    compare(ours, (A.mT @ w, explained), [K_ss, K, w, F])


@pytest.mark.parametrize("rows", [B, 0])
@pytest.mark.parametrize("shape", SHAPES)
def test_total_rows(shape, rows):
    K_ss, K, w = inputs(shape, rows)
    factor = factorise(K_ss, Jitter(0.0))
    A = torch.linalg.solve_triangular(plain_factor(K_ss), K, upper=False)
    compare(TotalRows.apply(factor.E, factor.inverse_value, K, w), (A.mT @ w, A @ A.mT), [K_ss, K, w])


@pytest.mark.parametrize(("G_shape", "F_shape"), [((5,), (5, 2)), ((5,), (1, 2)), ((2, 1), (2, 1, 3))])
def test_quadratic_trace(G_shape, F_shape):
    root, F = randn(0, *G_shape, M, M), randn(1, *F_shape, M, M)
    G = root + root.mT
    plain = (F.mT @ G.unsqueeze(-3) @ F).diagonal(dim1=-2, dim2=-1).sum(-1)
    compare([QuadraticTrace.apply(G, F)], [plain], [root, F])


def test_gram():
    X = randn(0, 5, 2, M, M)
    compare([Gram.apply(X)], [X.mT @ X], [X])


@pytest.mark.parametrize("elements", [1, 40, 2**22])
@pytest.mark.parametrize("rows", [B, 0])
@pytest.mark.parametrize("in_blocks", [True, False], ids=["rows in blocks", "outputs in groups"])
@pytest.mark.parametrize(
    ("A_shape", "W_shape"), [((3,), (1, 4)), ((1,), (3, 4)), ((2, 3), (2, 1, 4)), ((1,), (1, 2)), ((), (2,))], ids=str
)
def test_output_variances_in_parts_of_any_size(A_shape, W_shape, in_blocks, rows, elements, monkeypatch):
    monkeypatch.setattr(products, "_BLOCK_ELEMENTS" if in_blocks else "_GROUP_ELEMENTS", elements)
    monkeypatch.setattr(products, "_rows_go_in_blocks", lambda A: in_blocks)
    A, W = randn(0, *A_shape, M, rows), randn(1, *W_shape, M, M)
    compare([OutputVariances.apply(A, W)], [(W.mT @ A.unsqueeze(-3)).square().sum(-2).mT], [A, W])
