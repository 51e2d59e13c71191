"""The message of a factorisation that failed: which matrix, why, and what to try."""

import pytest
import torch

from sodgp.errors import CholeskyError
from sodgp.linalg.cholesky import Jitter, cholesky
from sodgp.linalg.failure import failure


def test_it_names_sample_layer_condition_and_advice():
    K = torch.stack([torch.eye(2), torch.tensor([[1.0, 2.0], [2.0, 1.0]])]).double()
    error = failure(K, torch.tensor([0, 2]), 1e-2, 3, "K_SS")
    assert (error.layer, error.sample) == (3, 1)
    assert error.condition == float("inf")
    for part in ("K_SS of layer 3, sample 1", "jitter up to 1e-02", "smallest eigenvalue -1.0e+00", "learning_rate"):
        assert part in str(error)
    assert "dtype='float64'" not in str(error)
    assert "dtype='float64'" in str(failure(K.float(), torch.tensor([0, 2]), 1e-2, None, "K_SS"))


def test_numbers_that_are_not_finite_are_said():
    with pytest.raises(CholeskyError, match="it holds NaN or infinite values"):
        cholesky(torch.full((2, 2), torch.nan, dtype=torch.float64), Jitter())
