from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from benchmarks.year_like import year_like

from sodgp.errors import ConfigurationError


def test_seeds() -> None:
    assert (year_like(10, random_state=3).y != year_like(10, random_state=4).y).all()


def test_year_like_has_years_target() -> None:
    data = year_like(40_000)
    assert data.X.shape == (40_000, 90)
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.y.mean() == pytest.approx(1998.4, abs=0.3)
    assert data.y.std() == pytest.approx(10.9, abs=0.2)
    spread = data.X.std(axis=0)
    assert spread.max() / spread.min() > 500


def test_year_like_is_not_linear() -> None:
    data = year_like(20_000, d=3)
    Z = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    y = (data.y - data.y.mean()) / data.y.std()

    def explained(features: np.ndarray) -> float:
        coefficients, *_ = np.linalg.lstsq(features, y, rcond=None)
        return 1 - float(((y - features @ coefficients) ** 2).mean())

    linear = explained(Z)
    products = np.column_stack([Z, *(Z[:, i] * Z[:, j] for i in range(3) for j in range(i, 3))])
    cubes = np.column_stack([products, *(products[:, 3:] * Z[:, [i]] for i in range(3))])
    assert 0.2 < linear < 0.35
    assert explained(cubes) > linear + 0.1


def test_fewer_rows_are_the_first_of_many() -> None:
    many, few = year_like(40_000, d=5), year_like(20_000, d=5)
    np.testing.assert_array_equal(many.X[:20_000], few.X)
    # The last digit of a matrix product may depend on the number of rows in it.
    np.testing.assert_allclose(many.y[:20_000], few.y, rtol=1e-14)


def test_year_like_holds_little_more_than_its_result() -> None:
    tracemalloc.start()
    try:
        data = year_like(200_000, d=30)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * (data.X.nbytes + data.y.nbytes)


@pytest.mark.parametrize("arguments", [{"n": 0}, {"n": 5, "d": 2}])
def test_year_like_refuses(arguments: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        year_like(**arguments)
