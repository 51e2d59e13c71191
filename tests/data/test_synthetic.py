from __future__ import annotations

import numpy as np
import pytest

from sodgp.data import step
from sodgp.errors import ConfigurationError


def test_step_has_two_levels() -> None:
    data = step(50, noise=0.05, random_state=1)
    x = data.X[:, 0]
    assert data.X.shape == (50, 1)
    assert (x.min(), x.max()) == (-1.0, 1.0)
    assert data.y[x < 0].mean() == pytest.approx(-1, abs=0.05)
    assert data.y[x >= 0].mean() == pytest.approx(1, abs=0.05)
    assert set(step(7, noise=0).y) == {-1.0, 1.0}


def test_seeds() -> None:
    np.testing.assert_array_equal(step(random_state=3).y, step(random_state=3).y)
    assert (step(random_state=3).y != step(random_state=4).y).all()
    assert (step(random_state=None).y != step(random_state=None).y).all()


@pytest.mark.parametrize("make", [lambda: step(1), lambda: step(noise=-1), lambda: step(noise=float("nan"))])
def test_step_refuses(make) -> None:
    with pytest.raises(ConfigurationError):
        make()
