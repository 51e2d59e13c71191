"""Checks of single options and of what stands in a table."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal

from sodgp import DeepGPRegressor
from sodgp.errors import ConfigurationError, InputError
from sodgp.system.torch_state import cpu_threads
from sodgp.system.validation import (
    check_choice,
    check_fit_data,
    check_flag,
    check_integer,
    check_positive,
    check_predict_data,
    resolve_device,
)


def test_blocks_that_overlap_leave_the_number_of_threads_as_it_was(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    before = torch.get_num_threads()
    first, second = cpu_threads(before + 1), cpu_threads(before + 2)
    first.__enter__()
    second.__enter__()
    assert torch.get_num_threads() == before + 2
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert torch.get_num_threads() == before
    with cpu_threads(before + 1):
        with cpu_threads(before + 2):
            pass
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("value", [3, np.int32(3), np.int64(3)])
def test_integers_of_all_kinds_are_taken(value):
    assert check_integer("n", value, minimum=3) == 3
    assert type(check_integer("n", value, minimum=3)) is int


@pytest.mark.parametrize("value", [2, 3.0, "3", True, None, np.nan])
def test_what_is_no_integer_or_too_small_is_refused(value):
    with pytest.raises(ConfigurationError, match="n must be an integer of at least 3"):
        check_integer("n", value, minimum=3)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5)])
def test_positive_numbers_are_taken(value):
    assert check_positive("rate", value) == float(value)


@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, "0.1", True, None])
def test_what_is_no_positive_number_is_refused(value):
    with pytest.raises(ConfigurationError, match="rate must be a positive number"):
        check_positive("rate", value)


def test_flags_are_booleans_only():
    assert check_flag("tie", True) is True
    assert check_flag("tie", np.False_) is False
    for value in ("no", 0, None):
        with pytest.raises(ConfigurationError, match="tie must be True or False"):
            check_flag("tie", value)


def test_choices_are_listed():
    check_choice("mode", "a", ("a", "b"))
    with pytest.raises(ConfigurationError, match="mode='c' is unknown; choose one of 'a', 'b'"):
        check_choice("mode", "c", ("a", "b"))


def test_devices_are_resolved():
    assert resolve_device("cpu") == resolve_device(torch.device("cpu")) == torch.device("cpu")
    assert resolve_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ConfigurationError, match="unknown"):
        resolve_device("abacus")


ROWS, TARGETS = np.arange(12.0).reshape(6, 2) ** 1.5, np.arange(6.0)


@pytest.mark.parametrize(
    "rows",
    [ROWS, ROWS.tolist(), torch.tensor(ROWS), pd.DataFrame(ROWS), np.asfortranarray(ROWS), ROWS.astype(object)],
    ids=["numpy", "list", "torch", "pandas", "fortran", "object"],
)
def test_tables_of_all_kinds_become_one_copy_in_one_layout(rows):
    X, y = check_fit_data(DeepGPRegressor(), rows, TARGETS)
    assert_array_equal(X, ROWS)
    assert_array_equal(y, TARGETS)
    assert X.dtype == y.dtype == np.float64
    assert X.flags.c_contiguous
    assert not np.shares_memory(X, ROWS)
    assert not np.shares_memory(y, TARGETS)


def test_targets_keep_their_number_of_axes():
    assert check_fit_data(DeepGPRegressor(), ROWS, TARGETS[:, None])[1].shape == (6, 1)
    _, y = check_fit_data(DeepGPRegressor(), ROWS, pd.DataFrame({"a": TARGETS, "b": TARGETS}))
    assert y.shape == (6, 2)
    assert y.flags.c_contiguous


def test_names_are_kept_and_checked():
    estimator = DeepGPRegressor()
    check_fit_data(estimator, pd.DataFrame(ROWS, columns=["a", "b"]), TARGETS)
    assert list(estimator.feature_names_in_) == ["a", "b"]
    assert_array_equal(check_predict_data(estimator, pd.DataFrame(ROWS, columns=["a", "b"])), ROWS)
    with pytest.raises(InputError, match="feature names"):
        check_predict_data(estimator, pd.DataFrame(ROWS, columns=["a", "c"]))


def test_missing_values_of_nullable_columns_are_placed():
    frame = pd.DataFrame({"a": TARGETS, "b": pd.array([1, None, 3, 4, 5, 6], dtype="Int64")})
    with pytest.raises(InputError, match="columns b; rows 1"):
        check_fit_data(DeepGPRegressor(), frame, TARGETS)
