"""Products of one sample at a time: what they are for all samples at once."""

import pytest
import torch

from sodgp.linalg import products
from sodgp.linalg.products import by_sample


@pytest.mark.parametrize(("elements", "calls"), [(1, 1), (products._AT_ONCE_ELEMENTS, 4)])
def test_samples_are_taken_at_once_where_they_are_small(elements, calls):
    generator = torch.Generator().manual_seed(0)
    A, B = torch.randn(4, 2, 3, generator=generator), torch.randn(1, 3, 5, generator=generator)
    seen = []

    def work(a, b):
        seen.append(a.shape[-3])
        return (a @ b,)

    (product,) = by_sample(work, 4, elements, A, B)
    assert len(seen) == calls
    assert sum(seen) == 4
    torch.testing.assert_close(product, A @ B)
