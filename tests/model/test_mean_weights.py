"""Hidden means: identity, principal directions, padded, zero."""

import torch

from sodgp.layers.prior import HiddenMean
from sodgp.model.architecture import linear_weights, zero_weights


def randn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def inputs():
    """Correlated columns of very different spread, off the origin."""
    return randn(0, 50, 4) @ torch.diag(torch.tensor([3.0, 0.1, 1.0, 2.0], dtype=torch.float64)) @ randn(1, 4, 4) + 5.0


def test_the_identity_where_the_width_stays():
    (W,) = linear_weights(inputs(), [4])
    assert torch.equal(W, torch.eye(4, dtype=torch.float64))


def test_the_leading_principal_directions_where_the_width_shrinks():
    X = inputs()
    (W,) = linear_weights(X, [2])
    _, _, directions = torch.linalg.svd(X - X.mean(0), full_matrices=False)
    torch.testing.assert_close((directions[:2] @ W).abs(), torch.eye(2, dtype=torch.float64), rtol=1e-9, atol=1e-9)
    spread = (X @ W).var(0)
    assert spread[0] > spread[1]


def test_signs_of_the_directions_are_fixed():
    X = inputs()
    (W,) = linear_weights(X, [3])
    assert bool((W.gather(0, W.abs().argmax(0, keepdim=True)) > 0).all())
    torch.testing.assert_close(linear_weights(-X, [3])[0], W, rtol=1e-9, atol=1e-9)


def test_the_identity_padded_with_zeros_where_the_width_grows():
    X = inputs()
    (W,) = linear_weights(X, [6])
    torch.testing.assert_close(X @ W, torch.cat([X, X.new_zeros(50, 2)], -1))


def test_later_layers_see_the_inputs_as_mapped_by_the_earlier_means():
    X = inputs()
    first, second, third = linear_weights(X, [3, 3, 1])
    assert first.shape == (4, 3)
    assert torch.equal(second, torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(third, linear_weights(X @ first, [1])[0], rtol=1e-9, atol=1e-9)
    # The inputs are already in their own principal axes there.
    torch.testing.assert_close(third, torch.eye(3, 1, dtype=torch.float64), rtol=1e-9, atol=1e-9)


def test_zero_weights_have_the_shapes_of_the_stack():
    weights = zero_weights(inputs(), [3, 5])
    assert [tuple(W.shape) for W in weights] == [(4, 3), (3, 5)]
    assert not any(bool(W.any()) for W in weights)


def test_weights_keep_dtype():
    assert all(W.dtype == torch.float32 for W in linear_weights(inputs().float(), [2, 4]))


def test_a_mean_is_fixed_and_saved():
    mean = HiddenMean(randn(2, 4, 3))
    assert not list(mean.parameters())
    assert list(mean.state_dict()) == ["weight"]
    Z = randn(3, 5, 7, 4)
    torch.testing.assert_close(mean(Z)[2], Z[2] @ mean.weight)


def test_every_replicate_has_its_own_weights():
    mean = HiddenMean(randn(2, 2, 4, 3))
    Z = randn(3, 2, 5, 7, 4)
    for r in range(2):
        torch.testing.assert_close(mean(Z)[r], Z[r] @ mean.weight[r])
