"""Checks of single options and of what stands in a table."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from sodgp.errors import ConfigurationError, InputError
from sodgp.system.validation import (
    check_choice,
    check_fit_data,
    check_flag,
    check_integer,
    check_noise_variance,
    check_positive,
    check_predict_data,
    check_share,
    refuse_entries,
    resolve_device,
    seed_from,
    to_array,
    to_numpy,
    to_tensor,
    without_tensors,
)


class Names(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Keeps the names of the columns, as scikit-learn does."""


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
def test_tables_of_all_kinds_come_in_one_layout(rows):
    X, y = check_fit_data(Names(), rows, TARGETS)
    assert_array_equal(X, ROWS)
    assert_array_equal(y, TARGETS)
    assert X.dtype == y.dtype == np.float64
    assert X.flags.c_contiguous
    # An array as it is needed is not copied.
    assert np.shares_memory(X, ROWS) == (rows is ROWS)
    assert not np.shares_memory(y, TARGETS)


def test_targets_keep_their_number_of_axes():
    assert check_fit_data(Names(), ROWS, TARGETS[:, None])[1].shape == (6, 1)
    _, y = check_fit_data(Names(), ROWS, pd.DataFrame({"a": TARGETS, "b": TARGETS}))
    assert y.shape == (6, 2)
    assert y.flags.c_contiguous


def test_names_are_kept_and_checked():
    estimator = Names()
    check_fit_data(estimator, pd.DataFrame(ROWS, columns=["a", "b"]), TARGETS)
    assert list(estimator.feature_names_in_) == ["a", "b"]
    assert_array_equal(check_predict_data(estimator, pd.DataFrame(ROWS, columns=["a", "b"])), ROWS)
    with pytest.raises(InputError, match="feature names"):
        check_predict_data(estimator, pd.DataFrame(ROWS, columns=["a", "c"]))


def test_missing_values_of_nullable_columns_are_placed():
    frame = pd.DataFrame({"a": TARGETS, "b": pd.array([1, None, 3, 4, 5, 6], dtype="Int64")})
    with pytest.raises(InputError, match="columns b; rows 1"):
        check_fit_data(Names(), frame, TARGETS)


def test_shares_are_numbers_from_zero_to_one():
    assert check_share("p", 1) == 1.0
    for value in (-0.1, 1.1, True, "0.5", np.nan):
        with pytest.raises(ConfigurationError, match="must be a number from 0 to 1"):
            check_share("p", value)


def test_noise_variances_have_one_value_for_all_for_a_row_or_for_a_cell():
    for values in (0.5, np.full(6, 0.5), np.full((6, 2), 0.5)):
        assert_array_equal(check_noise_variance(values, (6, 2)), np.full((6, 2), 0.5))
    with pytest.raises(InputError, match="must be one number, 6"):
        check_noise_variance(np.ones(5), (6, 2))
    with pytest.raises(InputError, match="first in row 2"):
        check_noise_variance([1, 1, -1, 1, 1, 1], (6, 2))


def test_seeds_come_from_integers_generators_and_entropy():
    assert seed_from(3) == seed_from(3) != seed_from(4)
    assert seed_from(np.random.default_rng(0)) == seed_from(np.random.default_rng(0))
    assert seed_from(None) != seed_from(None)
    with pytest.raises(InputError, match="random_state"):
        seed_from("three")


def test_columns_of_text_are_named():
    frame = pd.DataFrame({"a": TARGETS, "b": list("uvwxyz")})
    with pytest.raises(InputError, match="X holds text or dates in column 'b'"):
        check_fit_data(Names(), frame, TARGETS)
    with pytest.raises(InputError, match="y holds text"):
        check_fit_data(Names(), ROWS, list("uvwxyz"))


# --- numbers in any container

CONTAINERS = [[1, 2], (1.0, 2.0), np.array([1, 2], dtype=np.float32), pd.Series([1, 2]), torch.tensor([1.0, 2.0])]


@pytest.mark.parametrize("values", [*CONTAINERS, torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)])
def test_any_container_becomes_float64(values):
    array, tensor = to_array(values, "y"), to_tensor(values, "y")
    np.testing.assert_array_equal(array, [1.0, 2.0])
    assert array.dtype == np.float64
    assert torch.equal(tensor, torch.tensor([1.0, 2.0], dtype=torch.float64))
    np.testing.assert_array_equal(to_numpy(tensor), array)


def test_arrays_are_copies():
    values = np.zeros(3)
    to_array(values, "y")[0] = 1.0
    assert values[0] == 0.0


@pytest.mark.parametrize("values", [["a"], [[1.0], [1.0, 2.0]], [{}]])
def test_what_is_no_table_of_numbers_is_named(values):
    with pytest.raises(InputError, match="y must hold numbers only"):
        to_array(values, "y")


def test_other_data_than_tensors_pass_unchanged():
    frame = pd.DataFrame({"a": [1.0]})
    assert without_tensors(frame) is frame
    assert isinstance(without_tensors(torch.zeros(2)), np.ndarray)


def test_the_first_bad_entry_is_placed():
    values = torch.tensor([[1.0, 2.0], [torch.nan, torch.inf]])
    refuse_entries(torch.zeros(2, 2, dtype=torch.bool), "y", "not finite", values)
    with pytest.raises(InputError, match=r"y has 2 value\(s\) that are not finite, the first nan at index \[1, 0\]"):
        refuse_entries(~torch.isfinite(values), "y", "not finite", values)
