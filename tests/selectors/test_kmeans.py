from __future__ import annotations

import pytest
import torch

from sodgp.errors import ConfigurationError
from sodgp.selectors.kmeans import KMeans, distinct_rows, nearest_rows, nearest_values


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed))


@pytest.mark.parametrize("minibatch_above", [20_000, 100])
def test_finds_one_row_in_each_clear_cluster(minibatch_above: int) -> None:
    centres = 20.0 * torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1], [3, 2]], dtype=torch.float64)
    X = (centres[:, None] + 0.1 * normal(5, 60, 2)).reshape(-1, 2)
    indices = KMeans(minibatch_above=minibatch_above).select(X, None, 5, None, generator())
    assert (indices // 60).tolist() == [0, 1, 2, 3, 4]
    assert torch.linalg.vector_norm(X[indices] - centres, dim=1).max() < 0.1


def test_nearest_rows_without_conflict_are_the_nearest() -> None:
    X, centres = normal(4000, 3), 2.0 * normal(12, 3, seed=1)
    nearest = torch.cdist(centres, X).argmin(1)
    assert nearest.unique().numel() == 12
    assert torch.equal(nearest_rows(X, centres), nearest)


def test_the_closest_centre_wins_a_contested_row() -> None:
    X = torch.tensor([[0.0], [5.0], [9.0]]).double()
    assert nearest_rows(X, torch.tensor([[1.0], [0.1], [-3.0]]).double()).tolist() == [1, 0, 2]
    assert nearest_rows(X, torch.zeros(3, 1).double()).tolist() == [0, 1, 2]


def test_chunks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    X, centres = normal(1000, 2), normal(30, 2, seed=1)
    whole = nearest_rows(X, centres)
    monkeypatch.setattr("sodgp.selectors.base.CHUNK_ELEMENTS", 1)
    assert torch.equal(nearest_rows(X, centres), whole)


def test_distinct_rows_are_first_occurrences() -> None:
    X = torch.tensor([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [-0.0, 0.0], [2.0, 1.0]]).double()
    assert distinct_rows(X).tolist() == [0, 1, 4]


def test_one_value_more_than_centres() -> None:
    X = torch.arange(7.0).double().repeat(20)[:, None]
    for minibatch_above in (1000, 10):
        indices = KMeans(minibatch_above=minibatch_above).select(X, None, 6, None, generator())
        assert X[indices].unique().numel() == 6


def test_refuses_a_bad_option() -> None:
    with pytest.raises(ConfigurationError, match="n_init is 0"):
        KMeans(n_init=0)


@pytest.mark.parametrize("size", [5, 40])
def test_rows_of_another_value_are_found_without_a_sort(size: int) -> None:
    X = torch.cat([normal(30, 2)] * 3)  # every value three times
    centres = normal(size, 2, seed=1)
    found = nearest_values(X, centres)
    assert found.unique().numel() == size
    assert X[found].unique(dim=0).shape[0] == min(size, 30)
    if size == 5:
        distinct = distinct_rows(X)
        assert torch.equal(X[found], X[distinct[nearest_rows(X[distinct], centres)]])


def test_values_that_are_zeros_of_either_sign_are_one_value() -> None:
    X = torch.tensor([[0.0], [-0.0], [0.0], [3.0]]).double()
    assert sorted(nearest_values(X, torch.tensor([[0.1], [-0.1]]).double()).tolist())[1] == 3


def test_random_batches_find_centres_as_good_as_those_of_all_rows() -> None:
    X = normal(3000, 2)

    def inertia(method: KMeans) -> float:
        return float(torch.cdist(X, method.centres(X, 8, generator())).amin(1).square().mean())

    assert inertia(KMeans(minibatch_above=100, batch_size=256, max_epochs=20)) < 1.05 * inertia(KMeans())


def test_batches_depend_on_the_generator_alone() -> None:
    X, few = normal(500, 2), KMeans(minibatch_above=100, batch_size=64)
    first, again = (few.select(X, None, 6, None, generator(1)) for _ in range(2))
    assert torch.equal(first, again)


def test_weights_of_rows_are_repeated_rows():
    """The centres of well separated groups are weighted means; the chosen rows are those nearest to them."""
    X = torch.tensor([[0.0], [0.1], [1.0], [10.0], [10.6], [11.0]], dtype=torch.float64)
    weight = torch.tensor([1.0, 1.0, 30.0, 30.0, 1.0, 1.0], dtype=torch.float64)
    for limit in (3, 20_000):
        selector = KMeans(minibatch_above=limit, n_init=5)
        chosen = selector.select_weighted(X, None, 2, None, torch.Generator().manual_seed(0), weight)
        assert chosen.tolist() == [2, 3]
        assert selector.select_weighted(X, None, 9, None, torch.Generator(), weight).tolist() == list(range(6))
    repeated = X.repeat_interleave(weight.long(), 0)
    ours, theirs = (
        KMeans(n_init=5).centres(rows, 2, torch.Generator().manual_seed(0), w).sort(0).values
        for rows, w in ((X, weight), (repeated, None))
    )
    torch.testing.assert_close(ours, theirs)
