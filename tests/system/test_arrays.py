"""Numbers in any container become float64 arrays and tensors."""

import numpy as np
import pandas as pd
import pytest
import torch

from sodgp.errors import InputError
from sodgp.system.arrays import refuse_entries, to_array, to_numpy, to_tensor, without_tensors

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
