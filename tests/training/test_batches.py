"""Batches hold rows of the rest only, each once a pass."""

import pytest
import torch

from sodgp.inference.contract import TrainingSet
from sodgp.training.batches import Batcher


def numbered(n_rest, size=3, replicates=()):
    """Rows that carry their own number: negative ones in the subset."""
    subset = -torch.arange(1.0, size + 1.0).reshape(-1, 1).expand(*replicates, size, 1)
    rest = torch.arange(float(n_rest)).reshape(-1, 1).expand(*replicates, n_rest, 1)
    return TrainingSet(subset, 10.0 * subset, rest, 10.0 * rest)


def batcher(n_rest, batch_rows, seed=0):
    return Batcher(numbered(n_rest), batch_rows, [torch.Generator().manual_seed(seed)])


def rows(batch):
    return batch.X_b.flatten().tolist()


def test_a_pass_sees_every_row_of_the_rest_once():
    batches = batcher(12, 4)
    seen = [row for _ in range(3) for row in rows(batches.next())]
    assert sorted(seen) == list(range(12))
    again = [row for _ in range(3) for row in rows(batches.next())]
    assert sorted(again) == list(range(12))
    assert again != seen


def test_the_incomplete_end_of_a_pass_is_dropped():
    batches = batcher(10, 4)
    sizes = [len(set(rows(batches.next()))) for _ in range(7)]
    assert sizes == [4] * 7


def test_every_row_stands_for_the_rest_over_the_batch():
    assert batcher(12, 4).scale == 3.0
    assert batcher(12, 12).scale == 1.0
    assert batcher(0, 4).scale == 0.0


@pytest.mark.parametrize("batch_rows", [12, 100])
def test_the_whole_rest_comes_in_its_own_order_where_it_fits(batch_rows):
    batches = batcher(12, batch_rows)
    assert batches.is_full
    assert rows(batches.next()) == rows(batches.next()) == list(range(12))


def test_targets_go_with_their_rows_and_the_subset_comes_along():
    batch = batcher(12, 4).next()
    assert torch.equal(batch.y_b, 10.0 * batch.X_b)
    assert batch.X_s.flatten().tolist() == [-1.0, -2.0, -3.0]
    assert batch.X_b.shape == (1, 4, 1)


def test_an_empty_rest_gives_an_empty_batch():
    assert batcher(0, 4).next().X_b.shape == (1, 0, 1)


def test_a_seed_fixes_the_batches():
    ours, same, other = batcher(50, 10, seed=1), batcher(50, 10, seed=1), batcher(50, 10, seed=2)
    drawn = [rows(each.next()) for each in (ours, same, other)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_replicates_are_shuffled_each_by_its_own_generator():
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
    together = Batcher(numbered(50, replicates=(2,)), 10, generators).next()
    assert together.X_b.shape == (2, 1, 10, 1)
    for index, seed in enumerate((1, 2)):
        assert together.X_b[index].flatten().tolist() == rows(batcher(50, 10, seed=seed).next())


def test_the_rows_of_a_batch_stay_until_the_next_advance():
    batches = batcher(12, 4)
    batches.advance()
    assert rows(batches.batch()) == rows(batches.batch())
