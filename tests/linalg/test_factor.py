"""Factors whose gradients are made of few products: against plain operations and finite differences."""

import pytest
import torch

from sodgp.errors import CholeskyError
from sodgp.linalg.cholesky import Jitter, cholesky, factorise, inverse_triangular, log_diagonal

EYE = torch.eye(3, dtype=torch.float64)


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_smallest(eigenvalue):
    """A symmetric matrix with eigenvalues 1, 2 and the given one, far from diagonal."""
    vectors, _ = torch.linalg.qr(randn(0, 3, 3))
    return vectors @ torch.diag(torch.tensor([1.0, 2.0, eigenvalue], dtype=torch.float64)) @ vectors.mT


GOOD = with_smallest(0.5)


def close(ours, theirs, tolerance=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("K_shape", "X_shape"), [((1,), (5,)), ((5,), (5,)), ((1,), (1,)), ((2, 1), (2, 5)), ((2, 5), (2, 5))], ids=str
)
def test_products_and_their_gradients_equal_plain_ones(K_shape, X_shape):
    root, X = randn(0, *K_shape, 3, 3), randn(2, *X_shape, 3, 2).requires_grad_()
    K = (root @ root.mT + EYE).requires_grad_()
    factor, L = factorise(K, Jitter(0.0)), torch.linalg.cholesky(0.5 * (K + K.mT))
    L_inv = torch.linalg.inv(L)
    ours = [
        factor.times(X),
        factor.transpose_times(X),
        factor.solve(X),
        factor.log_det(),
        factor.inverse_norm(),
        *factor,
    ]
    log_det = L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    plain = [L @ X, L.mT @ X, L_inv @ X, log_det, L_inv.square().sum((-2, -1)), L, L_inv]
    for value, expected in zip(ours, plain, strict=True):
        close(value, expected, 1e-10)
        weight = torch.cos(torch.arange(value.numel(), dtype=torch.float64)).reshape(value.shape)
        for gradients in zip(
            *(
                torch.autograd.grad((weight * t).sum(), [K, X], retain_graph=True, materialize_grads=True)
                for t in (value, expected)
            ),
            strict=True,
        ):
            close(*gradients, 1e-10)


def test_factorise_gives_the_factor_and_its_inverse():
    K = torch.stack([GOOD, 3.0 * GOOD])
    L, L_inv = factorise(K, Jitter(0.0))
    close(L @ L_inv, EYE.expand(2, 3, 3))
    close(L_inv, L_inv.tril())
    close(inverse_triangular(L), L_inv)


@pytest.mark.parametrize("jitter", [Jitter(0.0), Jitter(1e-2), Jitter(1e-2, relative=False)])
def test_gradients_of_the_factor_and_its_inverse_equal_finite_differences(jitter):
    root = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    # L and its inverse each with a non-triangular weight: both gradients must be read in full.
    weights = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def both(x):
        L, L_inv = factorise(x @ x.mT + EYE, jitter)
        return L, L_inv, weights @ L, weights @ L_inv

    assert torch.autograd.gradcheck(both, root, atol=1e-8, rtol=1e-6)


def test_factorise_climbs_the_same_ladder_as_cholesky():
    jitter = Jitter(1e-5, relative=False)
    K = torch.stack([GOOD, with_smallest(-5e-5)]).requires_grad_()
    L, L_inv = factorise(K, jitter)
    close(L, cholesky(K, jitter))
    (ours,) = torch.autograd.grad(log_diagonal(L).sum() - log_diagonal(L_inv).sum(), K)
    close(ours[0], torch.linalg.inv(K[0].detach() + 1e-5 * EYE), 1e-8)
    with pytest.raises(CholeskyError, match="Q of layer 4, sample 0") as caught:
        factorise(with_smallest(-1.0), jitter, layer=4, what="Q")
    assert caught.value.layer == 4


def test_an_axis_of_outputs_changes_nothing():
    X = randn(1, 2, 4, 3, 5)
    factor = factorise(torch.stack([GOOD, 3.0 * GOOD]), Jitter(0.0))
    close(factor.over_outputs().times(X), torch.stack([factor.times(X[:, p]) for p in range(4)], 1))
