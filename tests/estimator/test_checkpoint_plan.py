"""Which fit a checkpoint belongs to, and what may change before it is resumed."""

from __future__ import annotations

import numpy as np
import pytest

from sodgp import DeepGPRegressor
from sodgp.errors import (
    CheckpointError,
)

RNG = np.random.default_rng(0)


X = RNG.uniform(-1, 1, (40, 2))


Y = np.sign(X[:, 0]) + 0.1 * RNG.normal(size=40)


NEW = RNG.uniform(-1, 1, (7, 2))


def make(**options) -> DeepGPRegressor:
    return DeepGPRegressor().set_params(
        **{"n_layers": 2, "subset_size": 8, "max_iter": 10, "random_state": 0, **options}
    )


def test_a_resumed_fit_may_be_shrunk_otherwise(tmp_path):
    short = {"n_members": 2, "checkpoint": tmp_path, "checkpoint__every": 3}
    make(**short, max_minutes=1e-9).fit(X, Y)
    assert make(**short, inference__member_spread=0.7).fit(X, Y, resume=True).n_iter_ == 10


def test_interrupted_and_resumed_bit_for_bit(tmp_path):
    expected = make(n_members=2).fit(X, Y).predict(NEW)
    folder = tmp_path / "run"
    make(n_members=2, checkpoint=folder, checkpoint__every=3, max_minutes=1e-9).fit(X, Y)
    again = make(n_members=2, checkpoint=folder, checkpoint__every=3).fit(X, Y, resume=True)
    np.testing.assert_array_equal(again.predict(NEW), expected)
    assert again.n_iter_ == 10


def test_checkpoints_know_how_many_models_there_are_not_how_it_was_said(tmp_path):
    short = {"checkpoint": tmp_path, "checkpoint__every": 3}
    make(**short, max_minutes=1e-9).fit(X, Y)
    with pytest.raises(CheckpointError, match="models"):
        make(**short, n_members=2).fit(X, Y, resume=True)
    assert make(**short, n_members=1).fit(X, Y, resume=True).n_iter_ == 10
