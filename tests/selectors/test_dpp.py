from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel
from scipy.stats import chisquare

from sodgp.errors import ConfigurationError
from sodgp.kernels.dense import covariance
from sodgp.selectors.dpp import DPP, log_elementary, sample_k_dpp, swap_chain
from sodgp.selectors.greedy_variance import GreedyVariance

POINTS = torch.tensor([[0.0], [0.2], [0.9], [1.0], [1.8], [2.9]], dtype=torch.float64)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


def probabilities(kernel: RBFKernel, X: torch.Tensor, size: int) -> dict[tuple[int, ...], float]:
    K = covariance(kernel, X).detach()
    weight = {S: float(torch.linalg.det(K[list(S)][:, list(S)])) for S in combinations(range(X.shape[0]), size)}
    total = sum(weight.values())
    return {S: w / total for S, w in weight.items()}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_exact_frequencies(size: int) -> None:
    kernel, source = RBFKernel().double(), generator(size)
    expected = probabilities(kernel, POINTS, size)
    draws = [tuple(DPP().select(POINTS, None, size, kernel, source).tolist()) for _ in range(600)]
    assert_frequencies(draws, expected)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_swap_chain_frequencies(size: int) -> None:
    kernel, source = RBFKernel().double(), generator(size)
    expected = probabilities(kernel, POINTS, size)
    state = GreedyVariance().select_with_trace(POINTS, size, kernel).indices
    draws = []
    for _ in range(450):
        state = swap_chain(POINTS, kernel, state, 40, 1e-10, source)
        draws.append(tuple(state.sort().values.tolist()))
    assert_frequencies(draws, expected)


def assert_frequencies(draws: list[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> None:
    assert set(draws) <= set(expected)
    likely = [S for S, p in expected.items() if p * len(draws) >= 5.0]
    counts = [draws.count(S) for S in likely]
    means = [expected[S] * len(draws) for S in likely]
    if len(likely) < len(expected):
        counts.append(len(draws) - sum(counts))
        means.append(len(draws) - sum(means))
    assert chisquare(counts, means).pvalue > 0.01


def test_swap_chain_keeps_its_inverse_through_many_swaps() -> None:
    X, kernel = normal(200, 2), RBFKernel().double()
    start = torch.arange(12)
    end = swap_chain(X, kernel, start, 2000, 1e-8, generator())
    assert end.unique().numel() == 12
    K = covariance(kernel, X).detach()
    assert torch.logdet(K[end][:, end]) > torch.logdet(K[start][:, start])


def test_large_data_takes_the_chain() -> None:
    X = normal(150, 2)
    selector = DPP(exact_limit=100, n_steps=300)
    drawn = selector.select(X, None, 9, None, generator())
    assert drawn.unique().numel() == 9
    greedy = GreedyVariance().select_with_trace(X, 9).indices.sort().values
    assert not torch.equal(drawn, greedy)
    assert torch.equal(DPP(exact_limit=100, n_steps=0).select(X, None, 9, None, generator()), greedy)


def test_chain_never_takes_a_value_twice() -> None:
    X = normal(12, 1).repeat(20, 1)
    drawn = DPP(exact_limit=0, n_steps=2000).select(X, None, 12, None, generator())
    assert (drawn % 12).unique().numel() == 12
    more = DPP(exact_limit=0, n_steps=500).select(X, None, 15, None, generator())
    assert more.unique().numel() == 15


def test_elementary_polynomials_in_logarithms() -> None:
    values = np.array([0.5, 2.0, 3.0, 0.1])
    coefficients = np.poly(-values)  # (z + v_1) ... (z + v_4)
    np.testing.assert_allclose(np.exp(log_elementary(np.log(values), 4)[:, -1]), coefficients)
    wide = log_elementary(np.linspace(-700.0, 700.0, 400), 300)
    assert np.isfinite(wide[300, 300:]).all()


def test_eigenvalues_far_below_rounding() -> None:
    X = torch.linspace(0, 1, 300, dtype=torch.float64)[:, None]
    K = covariance(RBFKernel().double(), X).detach()
    assert sample_k_dpp(K, 120, 1e-8, generator()).unique().numel() == 120


def test_refuses_bad_options() -> None:
    with pytest.raises(ConfigurationError, match="n_steps is -1"):
        DPP(n_steps=-1)
    with pytest.raises(ConfigurationError, match="jitter is 0"):
        DPP(jitter=0.0)
