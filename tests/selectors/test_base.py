"""What every selector owes: distinct rows, the right number, the same for the same seed, no trouble with odd data."""

from __future__ import annotations

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from hypothesis import given, settings
from hypothesis import strategies as st

from sodgp.errors import ConfigurationError, InputError
from sodgp.selectors import SELECTORS, get_selector

NAMES = sorted(SELECTORS)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


def ard_kernel(D: int) -> ScaleKernel:
    kernel = ScaleKernel(RBFKernel(ard_num_dims=D)).double()
    kernel.base_kernel.lengthscale = torch.linspace(0.5, 2.0, D, dtype=torch.float64)
    kernel.outputscale = 1.7
    return kernel


def assert_subset(indices: torch.Tensor, N: int, size: int) -> None:
    assert indices.dtype == torch.int64
    assert indices.shape == (min(size, N),)
    assert indices.unique().numel() == indices.numel()
    assert 0 <= int(indices.min()) <= int(indices.max()) < N


@pytest.mark.parametrize("with_kernel", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_selects_distinct_rows_and_repeats_with_the_seed(name: str, with_kernel: bool) -> None:
    X, y = normal(90, 3), normal(90, 2, seed=1)
    kernel = ard_kernel(3) if with_kernel else None
    first = get_selector(name).select(X, y, 12, kernel, generator(3))
    assert_subset(first, 90, 12)
    assert not first.requires_grad
    assert torch.equal(first, get_selector(name).select(X, y, 12, kernel, generator(3)))
    others = [get_selector(name).select(X, y, 12, kernel, generator(seed)) for seed in (4, 5, 6)]
    assert any(not torch.equal(first, other) for other in others) == (name != "greedy_variance")


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_and_gradients_are_no_trouble(name: str) -> None:
    X = normal(40, 2).float().requires_grad_()
    assert_subset(get_selector(name).select(X, None, 9, None, generator()), 40, 9)


@pytest.mark.parametrize("name", NAMES)
def test_global_random_state_is_neither_read_nor_set(name: str) -> None:
    X = normal(60, 2)
    torch.manual_seed(1)
    first = get_selector(name).select(X, None, 7, None, generator())
    state = torch.get_rng_state()
    torch.manual_seed(2)
    assert torch.equal(first, get_selector(name).select(X, None, 7, None, generator()))
    torch.manual_seed(1)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("name", NAMES)
def test_takes_every_row_when_the_subset_is_as_large_as_the_data(name: str) -> None:
    for N, size in [(5, 5), (5, 9), (1, 1), (1, 4)]:
        indices = get_selector(name).select(normal(N, 2), None, size, None, generator())
        assert indices.tolist() == list(range(N))


@pytest.mark.parametrize("name", NAMES)
def test_repeated_rows_are_used_last(name: str) -> None:
    X = normal(8, 3).repeat(5, 1)  # 8 values, 40 rows
    indices = get_selector(name).select(X, None, 8, None, generator())
    assert_subset(indices, 40, 8)
    assert (indices % 8).unique().numel() == 8
    more = get_selector(name).select(X, None, 11, None, generator())
    assert_subset(more, 40, 11)
    assert (more % 8).unique().numel() == 8


@pytest.mark.parametrize("name", NAMES)
def test_constant_data(name: str) -> None:
    assert_subset(get_selector(name).select(torch.zeros(30, 2).double(), None, 6, None, generator()), 30, 6)
    X = normal(30, 3)
    X[:, 1] = 0.0
    assert_subset(get_selector(name).select(X, None, 6, None, generator()), 30, 6)


@pytest.mark.parametrize("name", NAMES)
def test_smooth_one_column_data_beyond_the_numerical_rank(name: str) -> None:
    X = torch.linspace(-1, 1, 80, dtype=torch.float64)[:, None]
    assert_subset(get_selector(name).select(X, None, 60, None, generator()), 80, 60)
    assert_subset(get_selector(name).select(X[::7], None, 1, None, generator()), 12, 1)


@pytest.mark.parametrize("name", ["kmeans", "random"])
def test_order_is_ascending(name: str) -> None:
    indices = get_selector(name).select(normal(50, 2), None, 20, None, generator())
    assert torch.equal(indices, indices.sort().values)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(
    N=st.integers(1, 25),
    D=st.integers(1, 3),
    size=st.integers(1, 12),
    levels=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_any_table_of_few_values(name: str, N: int, D: int, size: int, levels: int, seed: int) -> None:
    X = torch.randint(levels, (N, D), generator=generator(seed)).double()
    indices = get_selector(name).select(X, None, size, None, generator(seed))
    assert_subset(indices, N, size)
    assert X[indices].unique(dim=0).shape[0] == min(size, X.unique(dim=0).shape[0])


@pytest.mark.parametrize("name", NAMES)
def test_refuses_what_it_cannot_use(name: str) -> None:
    X = normal(6, 2)
    with pytest.raises(ConfigurationError, match="at least one row"):
        get_selector(name).select(X, None, 0, None, generator())
    with pytest.raises(InputError, match=r"N >= 1, got \[0, 2\]"):
        get_selector(name).select(X[:0], None, 2, None, generator())
    X[4, 1] = torch.nan
    with pytest.raises(InputError, match="Row 4 of X"):
        get_selector(name).select(X, None, 2, None, generator())


def test_registry() -> None:
    class Mine:
        def select(self, X, y, size, kernel, generator):  # type: ignore[no-untyped-def]
            return torch.arange(size)

    mine = Mine()
    assert get_selector(mine) is mine
    with pytest.raises(ConfigurationError, match="'kmean'; choose one of 'kmeans', 'random'"):
        get_selector("kmean")
    with pytest.raises(ConfigurationError, match="is not a subset selector"):
        get_selector(Mine)  # type: ignore[arg-type]
    for wrong in (3, None):
        with pytest.raises((ConfigurationError, TypeError)):  # TypeError where shapes and types are checked at run time
            get_selector(wrong)  # type: ignore[arg-type]
