from __future__ import annotations

import numpy as np
import pytest
import torch
from gpytorch.kernels import Kernel, LinearKernel, MaternKernel, RBFKernel, ScaleKernel
from scipy.linalg.lapack import dpstrf

from sodgp.errors import ConfigurationError
from sodgp.kernels.dense import covariance, variance
from sodgp.selectors.greedy_variance import GreedyVariance


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def kernels(D: int) -> list[Kernel]:
    rbf = ScaleKernel(RBFKernel(ard_num_dims=D)).double()
    rbf.base_kernel.lengthscale = torch.linspace(0.4, 1.2, D, dtype=torch.float64)
    return [rbf, MaternKernel(nu=1.5).double(), RBFKernel().double() + LinearKernel().double()]


def conditional_trace(K: torch.Tensor, S: torch.Tensor) -> float:
    explained = K[:, S] @ torch.linalg.solve(K[S][:, S], K[S])
    return float((K - explained).diagonal().sum())


@pytest.mark.parametrize("pool_size", [1, 3, 16, 512])
@pytest.mark.parametrize("seed", range(3))
def test_order_is_that_of_lapack(seed: int, pool_size: int) -> None:
    X = normal(70, 3, seed=seed)
    for kernel in kernels(3):
        K = covariance(kernel, X).detach().clone()
        K.diagonal().copy_(variance(kernel, X).detach())  # rounding would decide ties
        pivots = dpstrf(np.asfortranarray(K.numpy()), lower=1)[1] - 1
        chosen = GreedyVariance(pool_size).select_with_trace(X, 20, kernel).indices
        assert chosen.tolist() == pivots[:20].tolist()


@pytest.mark.parametrize("pool_size", [4, 512])
def test_traces_are_what_the_chosen_rows_leave(pool_size: int) -> None:
    X, kernel = normal(50, 2), kernels(2)[0]
    indices, traces = GreedyVariance(pool_size).select_with_trace(X, 12, kernel)
    K = covariance(kernel, X).detach()
    expected = [conditional_trace(K, indices[: m + 1]) for m in range(12)]
    np.testing.assert_allclose(traces.numpy(), expected, rtol=1e-8)


def test_chunks_do_not_change_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    X = normal(300, 3)
    whole = GreedyVariance(32).select_with_trace(X, 20)
    monkeypatch.setattr("sodgp.selectors.base.CHUNK_ELEMENTS", 1)
    parts = GreedyVariance(32).select_with_trace(X, 20)
    assert torch.equal(parts.indices, whole.indices)
    torch.testing.assert_close(parts.traces, whole.traces)


@pytest.mark.parametrize("pool_size", [5, 512])
def test_grows_until_the_trace_is_below_the_threshold(pool_size: int) -> None:
    X, kernel = normal(80, 2), kernels(2)[0]
    selector = GreedyVariance(pool_size)
    indices, traces = selector.select_with_trace(X, 40, kernel)
    for m in (0, 1, 7, 25):
        grown = selector.select_until(X, kernel, 1.0000001 * float(traces[m]), 40)
        assert torch.equal(grown.indices, indices[: m + 1])
        torch.testing.assert_close(grown.traces, traces[: m + 1])
    assert selector.select_until(X, kernel, -1.0, 9).indices.numel() == 9
    assert selector.select_until(X, kernel, 1e9, 9).indices.numel() == 1


def test_goes_no_further_than_the_rank() -> None:
    X, kernel = normal(40, 2), LinearKernel().double()
    grown = GreedyVariance().select_until(X, kernel, 0.0, 30)
    assert grown.indices.numel() == 2
    filled = GreedyVariance().select_with_trace(X, 30, kernel)
    assert filled.indices.unique().numel() == 30
    assert torch.equal(filled.indices[:2], grown.indices)
    assert filled.traces[1:].abs().max() < 1e-10


def test_a_kernel_of_zero_variance_is_filled() -> None:
    X = torch.zeros(9, 1).double()
    kernel = LinearKernel().double()
    assert GreedyVariance().select_with_trace(X, 4, kernel).indices.unique().numel() == 4
    assert GreedyVariance().select_until(X, kernel, 1.0, 4).indices.tolist() == [0]


def test_whole_order_when_the_size_is_that_of_the_data() -> None:
    X = normal(12, 2)
    indices, traces = GreedyVariance().select_with_trace(X, 99)
    assert indices.sort().values.tolist() == list(range(12))
    assert traces.shape == (12,)


def test_refuses_a_bad_option() -> None:
    with pytest.raises(ConfigurationError, match="pool_size is 0"):
        GreedyVariance(pool_size=0)
