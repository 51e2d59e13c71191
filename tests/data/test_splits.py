from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sodgp.data import paper_split
from sodgp.errors import ConfigurationError


@pytest.mark.parametrize(
    ("n", "split", "first", "last", "n_train"),
    [
        (768, 0, [661, 122, 113, 14, 529, 103], [629, 559, 684], 691),
        (506, 3, [224, 137, 453, 303, 254, 37], [249, 152, 362], 455),
    ],
)
def test_known_splits(n: int, split: int, first: list[int], last: list[int], n_train: int) -> None:
    train, test = paper_split(n, split)
    assert train[:6].tolist() == first
    assert test[-3:].tolist() == last
    assert (len(train), len(test)) == (n_train, n - n_train)
    assert train.dtype == test.dtype == np.int64


@given(n=st.integers(2, 500), split=st.integers(0, 2**32 - 1))
def test_every_row_is_used_once(n: int, split: int) -> None:
    train, test = paper_split(n, split)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(n))


def test_global_generator_is_left_alone() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the state that must not change
    paper_split(100, 5)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(
    ("n", "split", "fraction"), [(0, 0, 0.9), (1, 0, 0.9), (10, 0, 0.01), (10, 0, 1.0), (10, 0, 1.5), (10, -1, 0.9)]
)
def test_impossible_splits_are_refused(n: int, split: int, fraction: float) -> None:
    with pytest.raises(ConfigurationError):
        paper_split(n, split, fraction)
