"""Two hundred nasty tables. Each column is made with what must become of it; nothing may be silently wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sodgp.errors import InputError
from sodgp.tables.encoder import TableEncoder

pd = pytest.importorskip("pandas")
GAPS = (None, np.nan, "", " ", "?", "NA", "n/a", "-", "null")
WORDS = ("red", "Blå", "naïve café", "x=1", "a,b", "<b>", "'quoted'", "日本", "  padded ", "NaNcy", "0x1F", "1e", "e5")


def some_gaps(rng, values, marks=GAPS):
    """The values with up to a third of them missing, in any way."""
    gone = rng.random(len(values)) < rng.choice([0, 0.1, 0.3])
    gone[:5] = False
    return [marks[rng.integers(len(marks))] if g else v for g, v in zip(gone, values, strict=True)]


def each_twice(rng, levels, n):
    """Levels, each at least three times within the first rows, which have no gap."""
    return [*(levels * 3)[:n], *(levels[rng.integers(len(levels))] for _ in range(max(0, n - 3 * len(levels))))]


def reals(rng, n):
    return rng.normal(size=n) * 10.0 ** rng.integers(-5, 9)


# Name -> (cells, kind that they must become). The first five cells are never missing.
COLUMNS = {
    "reals": lambda rng, n: (reals(rng, n), "number"),
    "reals with gaps": lambda rng, n: (some_gaps(rng, reals(rng, n), (None, np.nan)), "number"),
    "small integers": lambda rng, n: ([*rng.integers(0, 5, n).tolist()[:-2], 0, 1], "number"),
    "numbers as text": lambda rng, n: (some_gaps(rng, [f"{v:.4g}" for v in reals(rng, n)]), "number"),
    "decimal comma": lambda rng, n: (
        some_gaps(rng, [f"{v:.2f}".replace(".", ",") for v in 99 * rng.normal(size=n)]),
        "number",
    ),
    "money": lambda rng, n: (some_gaps(rng, [f"${v:,.2f}" for v in rng.random(n) * 1e5]), "number"),
    "percent": lambda rng, n: ([f"{v:.1f} %" for v in rng.random(n)], "number"),
    "numbers of objects": lambda rng, n: (np.array([1, 2.5, *range(n - 2)], dtype=object), "number"),
    "booleans": lambda rng, n: (some_gaps(rng, [True, False] * (n // 2) + [True] * (n % 2), (None,)), "boolean"),
    "yes and no": lambda rng, n: (some_gaps(rng, each_twice(rng, ["Yes", "no"], n)), "boolean"),
    "words": lambda rng, n: (some_gaps(rng, each_twice(rng, list(WORDS[:4]), n)), "category"),
    "odd words": lambda rng, n: (each_twice(rng, list(WORDS[4:]), n), "category"),
    "codes": lambda rng, n: (some_gaps(rng, each_twice(rng, ["007", "011", "815"], n)), "category"),
    "two words": lambda rng, n: (some_gaps(rng, each_twice(rng, ["on time", "late"], n)), "category"),
    "categories": lambda rng, n: (pd.Categorical(each_twice(rng, ["u", "v", "w"], n)), "category"),
    "categories of numbers": lambda rng, n: (pd.Categorical(each_twice(rng, [3, 1, 2], n)), "category"),
    "ordered": lambda rng, n: (
        pd.Categorical(some_gaps(rng, each_twice(rng, list("SML"), n), (None,)), list("SMLX"), ordered=True),
        "ordered category",
    ),
    "mixed types": lambda rng, n: (each_twice(rng, [1, "one", 2.0, True], n), "category"),
    "iso dates": lambda rng, n: (
        some_gaps(
            rng, [str(np.datetime64("2020-01-01") + np.timedelta64(int(d), "D")) for d in rng.permutation(3 * n)[:n]]
        ),
        "date",
    ),
    "European dates": lambda rng, n: ([f"{1 + i % 28:02}.{1 + i % 12:02}.{2000 + i}" for i in range(n)], "date"),
    "moments": lambda rng, n: (pd.date_range("2020-01-01", periods=n, freq="7h", tz="UTC"), "date"),
    "times": lambda rng, n: ([f"{i % 24:02}:{7 * i % 60:02}" for i in range(n)], "date"),
    "constant": lambda rng, n: ([7] * n, "left out"),
    "constant text": lambda rng, n: (["same"] * n, "left out"),
    "empty": lambda rng, n: ([GAPS[i] for i in rng.integers(len(GAPS), size=n)], "left out"),
    "row_id": lambda rng, n: (rng.permutation(n) + 17, "left out"),
    "names": lambda rng, n: ([f"name {i}" for i in rng.permutation(n)], "left out"),
    "constant date": lambda rng, n: (["2020-01-01"] * n, "left out"),
    "a stray word": lambda rng, n: ([*(f"{v:.4f}" for v in rng.normal(size=n - 1)), "oops"], "error"),
    "thousands or decimals": lambda rng, n: ([f"{i},{i + 100}" for i in range(1, n + 1)], "error"),
    "two ways of dates": lambda rng, n: (
        [(f"2020-01-{1 + i % 28:02}", f"{1 + i % 28:02}.01.2020")[i % 2] for i in range(n)],
        "error",
    ),
    "infinite": lambda rng, n: ([*rng.normal(size=n - 1), -np.inf], "error"),
    "lists": lambda rng, n: ([[i] for i in range(n)], "error"),
    "bytes": lambda rng, n: ([b"x", b"y"] * (n // 2) + [b"z"] * (n % 2), "error"),
}
GOOD = [name for name in COLUMNS if COLUMNS[name](np.random.default_rng(0), 30)[1] != "error"]
TABLES = st.tuples(
    st.lists(st.sampled_from(GOOD), min_size=1, max_size=6, unique=True),
    st.lists(st.sampled_from([name for name in COLUMNS if name not in GOOD]), max_size=2, unique=True),
    st.sampled_from([0.0, 1.0, 1.0]),
    st.integers(30, 60),
    st.integers(0, 2**32 - 1),
)


def test_every_kind_of_column_is_made():
    kinds = {COLUMNS[name](np.random.default_rng(0), 30)[1] for name in COLUMNS}
    assert kinds == {"number", "boolean", "category", "ordered category", "date", "left out", "error"}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(TABLES)
def test_a_nasty_table_is_encoded_as_it_must_be_or_refused(drawn):
    good, bad, is_bad, n, seed = drawn
    rng = np.random.default_rng(seed)
    names = [*good, *(bad if is_bad else [])]
    names = [names[i] for i in rng.permutation(len(names))]
    made = {name: COLUMNS[name](rng, n) for name in names}
    frame = pd.DataFrame({name: cells for name, (cells, _) in made.items()}, index=rng.permutation(n) * 3)
    wrong = [name for name, (_, kind) in made.items() if kind == "error"]
    useless = all(kind == "left out" for _, kind in made.values())
    if wrong or useless:
        with pytest.raises(InputError) as caught:
            TableEncoder().fit(frame)
        # Objects that are no cells are refused before any cell is read.
        named = [name for name in wrong if name in ("lists", "bytes")] or wrong
        assert all(repr(name) in str(caught.value) for name in named)
        assert not any(repr(name) in str(caught.value) for name in good if wrong)
        return
    encoder = TableEncoder().fit(frame)
    assert {column.name: column.kind for column in encoder.fitted_columns_} == {
        n: kind for n, (_, kind) in made.items()
    }
    assert set(encoder.columns_) == set(names)
    values = encoder.transform(frame)
    assert values.shape == (n, len(encoder.get_feature_names_out()))
    assert len(set(encoder.get_feature_names_out())) == values.shape[1]
    assert np.isfinite(values).all()
    assert (np.ptp(values, axis=0) > 0).all()
    # A row does not depend on others, nor on the order of the columns, the index, or a trip through a file.
    some = rng.permutation(n)[:7]
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.state())))
    shuffled = frame.iloc[some][[names[i] for i in rng.permutation(len(names))]].reset_index(drop=True)
    np.testing.assert_array_equal(again.transform(shuffled.assign(unseen="x")), values[some])
