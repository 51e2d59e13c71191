"""Reports on models of tables speak of the table's columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sodgp import DeepGPRegressor
from sodgp.report import cross_validated, held_out
from sodgp.report.figures import _two_inputs

RNG = np.random.default_rng(0)
N = 60
TABLE = pd.DataFrame(
    {
        "city": RNG.choice(["Rome", "Oslo", "Bern", "Riga"], N),
        "size": [f"{v:.2f}" if v > -1 else "?" for v in RNG.normal(size=N)],
        "when": pd.date_range("2020-03-01", periods=N, freq="9D").strftime("%Y-%m-%d"),
        "is_new": RNG.choice(["yes", "no"], N),
        "name": [f"n{i}" for i in range(N)],
    }
)
Y = 3.0 * (TABLE["city"] == "Rome").to_numpy() + RNG.normal(size=N)


@pytest.fixture(scope="module")
def report():
    model = DeepGPRegressor(n_layers=2, max_iter=30, subset_size=20, n_predict_samples=5, random_state=0)
    return held_out(model.fit(TABLE, Y), TABLE[::2], Y[::2])


def test_columns_are_those_of_the_table(report):
    city, size, when, is_new, target = report.columns
    assert [c.name for c in report.columns] == ["city", "size", "when", "is_new", "y"]
    assert (city.shown, city.distinct) == (("", TABLE["city"][::2].mode()[0], ""), 4)
    numbers = pd.to_numeric(TABLE["size"][::2], errors="coerce")
    assert (size.low, size.high, size.shown) == (numbers.min(), numbers.max(), None)
    assert when.shown[0] == "2020-03-01"
    assert is_new.distinct == 2
    assert target.role == "target"
    assert abs(city.shift) < 1


def test_a_category_has_one_bar(report):
    assert report.importance.mean.shape == (4, 1)
    assert report.importance.mean[:, 0].argmax() == 0
    assert report.about["inputs"] == ["city", "size", "when", "is_new"]


def test_importance_is_that_of_the_shuffled_column(report):
    """Shuffling the encoded numbers of a column together is shuffling the column."""
    from sklearn.inspection import permutation_importance

    wanted = permutation_importance(
        report.model, TABLE[::2], Y[::2], scoring="neg_root_mean_squared_error", n_repeats=3, random_state=0
    ).importances_mean
    assert wanted[4] == 0  # the name, which is no input
    # Another order of random numbers; the large one stays far above the others.
    assert abs(wanted[0] - report.importance.mean[0, 0]) < 0.5 * wanted[0]


def test_the_page_shows_cells_as_they_came(report):
    page = report.html()
    assert 'name</th><td class="text remark">left out: every text is another' in page
    worst = page[page.index("Worst rows") :]
    assert any(city in worst for city in ("Rome", "Oslo", "Bern", "Riga"))
    assert "missing" in page
    assert "city=" not in page[: page.index("Model and training")]


def test_pictures_prefer_numbers(report):
    first, second = _two_inputs(report)
    names = report.model.fitted_.columns.encoder.get_feature_names_out()
    assert {names[first], names[second]} == {"size", "when"}


def test_folds_may_differ_in_their_columns():
    """A column that is constant in a fold is left out there: its importance counts as none."""
    table = TABLE.assign(rare=np.where(np.arange(N) == 7, 1.0, 0.0))
    model = DeepGPRegressor(n_layers=1, max_iter=2, subset_size=10, random_state=0).fit(table, Y)
    report = cross_validated(model, table, Y, cv=2)
    assert report.importance.mean.shape == (5, 1)
    assert len(report.evaluation) == N
    assert report.columns[4].name == "rare"


@pytest.mark.parametrize("library", ["pyarrow", "polars"])
def test_tables_of_other_libraries(library):
    other = pytest.importorskip(library)
    table = other.Table.from_pandas(TABLE) if library == "pyarrow" else other.DataFrame(TABLE.to_dict("list"))
    model = DeepGPRegressor(n_layers=1, max_iter=2, subset_size=10, random_state=0).fit(table, Y)
    assert held_out(model, table, Y).columns[0].shown[1] in set(TABLE["city"])
    assert cross_validated(model, table, Y, cv=2).folds == 2
