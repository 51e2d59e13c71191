"""Cholesky with a jitter ladder, and what it says when it fails."""

import math

import pytest
import torch

from sodgp.errors import CholeskyError, NumericalError
from sodgp.linalg.cholesky import Climbs, Jitter, cholesky, counting, draw_root, inverse_triangular, log_diagonal

EYE = torch.eye(3, dtype=torch.float64)


def with_smallest(eigenvalue):
    """A symmetric matrix with eigenvalues 1, 2 and the given one, unit-free and far from diagonal."""
    vectors, _ = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    return vectors @ torch.diag(torch.tensor([1.0, 2.0, eigenvalue], dtype=torch.float64)) @ vectors.mT


GOOD = with_smallest(0.5)


def product(L):
    return L @ L.mT


def close(ours, theirs, tolerance=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_jitter_is_relative_to_the_mean_diagonal():
    K = 100.0 * GOOD
    close(product(cholesky(K, Jitter(1e-3))), K + 1e-3 * K.diagonal().mean() * EYE)


def test_absolute_jitter_is_added_as_it_is():
    close(product(cholesky(GOOD, Jitter(1e-3, relative=False))), GOOD + 1e-3 * EYE)


def test_every_matrix_has_its_own_relative_jitter():
    K = torch.stack([GOOD, 50.0 * GOOD])
    L = cholesky(K, Jitter(1e-3))
    assert torch.equal(L, torch.stack([cholesky(k, Jitter(1e-3)) for k in K]))


def test_no_jitter_gives_the_plain_factor():
    assert torch.equal(cholesky(GOOD, Jitter(0.0)), torch.linalg.cholesky(GOOD))


def test_only_the_failing_matrices_get_more_jitter():
    jitter = Jitter(1e-5, relative=False)
    K = torch.stack([GOOD, with_smallest(-5e-5), GOOD])
    L = cholesky(K, jitter)
    assert torch.equal(L[0], cholesky(GOOD, jitter))
    assert torch.equal(L[2], L[0])
    close(product(L[1]), K[1] + 1e-4 * EYE)


def test_matrices_that_need_different_steps_all_succeed():
    K = torch.stack([GOOD, with_smallest(-5e-5), with_smallest(-5e-4), with_smallest(-5e-3)])
    L = cholesky(K, Jitter(1e-5, relative=False))
    for matrix, factor, amount in zip(K, L, (1e-5, 1e-4, 1e-3, 1e-2), strict=True):
        close(product(factor), matrix + amount * EYE)


def test_the_ladder_has_as_many_steps_as_asked():
    K = with_smallest(-5e-4)
    close(product(cholesky(K, Jitter(1e-5, relative=False, steps=2))), K + 1e-3 * EYE)
    with pytest.raises(CholeskyError):
        cholesky(K, Jitter(1e-5, relative=False, steps=1))


def test_gradients_pass_through_a_raised_jitter():
    K = torch.stack([GOOD, with_smallest(-5e-5)]).requires_grad_()
    (gradient,) = torch.autograd.grad(log_diagonal(cholesky(K, Jitter(1e-5, relative=False))).sum(), K)
    close(gradient[1], 0.5 * torch.linalg.inv(K[1].detach() + 1e-4 * EYE), 1e-8)
    close(gradient[0], 0.5 * torch.linalg.inv(K[0].detach() + 1e-5 * EYE), 1e-8)


def test_the_error_names_layer_sample_condition_and_cause():
    K = torch.stack([GOOD, GOOD, with_smallest(-1.0)])
    with pytest.raises(CholeskyError, match=r"K_SS of layer 2, sample 2 .* equal in this layer") as caught:
        cholesky(K, Jitter(), layer=2)
    error = caught.value
    assert (error.layer, error.sample, error.condition) == (2, 2, math.inf)
    assert isinstance(error, NumericalError)
    assert "1e-02" in str(error)
    assert "Try" in str(error)


def test_the_error_says_when_values_are_not_finite():
    K = torch.stack([GOOD, GOOD.clone()])
    K[1, 0, 0] = torch.nan
    with pytest.raises(CholeskyError, match="NaN or infinite") as caught:
        cholesky(K, Jitter(), what="Cov(Z)")
    assert caught.value.layer is None
    assert caught.value.sample == 1
    assert math.isnan(caught.value.condition)
    assert str(caught.value).startswith("Cov(Z) of sample 1 ")


def test_the_error_names_the_flat_sample_of_a_batch_with_replicates():
    K = GOOD.expand(2, 3, 3, 3).clone()
    K[1, 1] = with_smallest(-1.0)
    with pytest.raises(CholeskyError) as caught:
        cholesky(K, Jitter())
    assert caught.value.sample == 4


def test_log_diagonal_is_half_the_log_determinant_whatever_the_signs():
    L = torch.linalg.cholesky(GOOD)
    signs = torch.tensor([1.0, -1.0, -1.0], dtype=torch.float64)
    close(log_diagonal(L), 0.5 * torch.logdet(GOOD))
    close(log_diagonal(L * signs), 0.5 * torch.logdet(GOOD))


def test_jitter_policy():
    assert Jitter.default(torch.float64).amount < Jitter.default(torch.float32).amount
    plain, program = Jitter(1e-6), Jitter(1e-6, relative=False, on_draws=True)
    assert (plain.prior_extra, plain.draw_extra) == (0.0, 0.0)
    assert (program.prior_extra, program.draw_extra) == (1e-6, 2e-6)


def test_the_inverse_of_a_triangular_matrix():
    L = torch.stack([torch.linalg.cholesky(GOOD), torch.linalg.cholesky(3.0 * GOOD)])
    close(inverse_triangular(L) @ L, EYE.expand(2, 3, 3))


def test_the_root_of_a_singular_covariance_reproduces_it():
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]], dtype=torch.float32)
    root = draw_root(rows @ rows.mT, layer=1, what="Cov(Z)")
    assert root.dtype == torch.float32
    close(product(root), rows @ rows.mT, 1e-4)


def test_matrices_that_got_more_jitter_are_counted():
    climbs = Climbs()
    K = torch.stack([GOOD, with_smallest(-5e-5), with_smallest(-5e-4)])
    with counting(climbs):
        cholesky(K, Jitter(1e-5, relative=False))
    cholesky(K, Jitter(1e-5, relative=False))
    assert climbs.count == 2
