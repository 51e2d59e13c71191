from __future__ import annotations

from itertools import permutations

import pytest
import torch
from gpytorch.kernels import RBFKernel
from scipy.stats import chisquare

from sodgp.errors import ConfigurationError
from sodgp.kernels.dense import covariance
from sodgp.selectors.rp_cholesky import RPCholesky


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def order_probability(K: torch.Tensor, order: tuple[int, ...]) -> float:
    probability, S = 1.0, K.clone()
    for row in order:
        probability *= float(S[row, row] / S.diagonal().clamp_min(0.0).sum())
        S = S - torch.outer(S[row], S[row]) / S[row, row]
    return probability


@pytest.mark.parametrize("block_size", [1, 4])
def test_the_law_of_the_order_is_that_of_one_draw_at_a_time(block_size: int) -> None:
    X = torch.tensor([[0.0], [0.3], [1.0], [1.2], [2.5]], dtype=torch.float64)
    kernel = RBFKernel().double()
    K = covariance(kernel, X).detach()
    expected = {order: order_probability(K, order) for order in permutations(range(5), 2)}
    assert sum(expected.values()) == pytest.approx(1.0)
    source = torch.Generator().manual_seed(1)
    draws = [tuple(RPCholesky(block_size).select(X, None, 2, kernel, source).tolist()) for _ in range(500)]
    counts = [draws.count(order) for order in expected]
    assert chisquare(counts, [500 * p for p in expected.values()]).pvalue > 0.01


def test_leaves_less_unexplained_than_random_rows() -> None:
    X, kernel = torch.cat([0.05 * normal(380, 2), 3.0 * normal(20, 2, seed=1)]), RBFKernel().double()
    K = covariance(kernel, X).detach()

    def left(S: torch.Tensor) -> float:
        return float((K - K[:, S] @ torch.linalg.solve(K[S][:, S], K[S])).diagonal().sum())

    chosen = RPCholesky().select(X, None, 15, kernel, torch.Generator().manual_seed(0))
    assert left(chosen) < 0.5 * left(torch.arange(15))


def test_refuses_a_bad_option() -> None:
    with pytest.raises(ConfigurationError, match="block_size is 0"):
        RPCholesky(block_size=0)
