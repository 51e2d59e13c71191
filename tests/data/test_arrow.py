"""Parquet files and Arrow datasets as sources."""

import numpy as np
import pandas as pd
import pytest

from sodgp.data import open_rows
from sodgp.data.arrow import DatasetRows
from sodgp.errors import ConfigurationError, InputError

pa = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")

FRAME = pd.DataFrame({"a": np.arange(30.0), "b": np.arange(30), "y": np.arange(30) % 2, "kind": ["u", "v", "w"] * 10})


@pytest.fixture
def folder(tmp_path):
    for number in range(3):
        part = FRAME[10 * number : 10 * number + 10]
        # A file whose rows have numbers, which pandas stores as a column.
        part.to_parquet(tmp_path / f"{number}.parquet", row_group_size=4)
    return tmp_path


def rows_of(source):
    return pa.concat_tables(source.batches()).to_pandas()


def test_files_are_read_in_order_with_targets_behind(folder):
    source = open_rows(str(folder / "*.parquet"), ["y", "a"], drop=["kind"])
    assert source.name == f"{folder / '0.parquet'} and 2 more files"
    pd.testing.assert_frame_equal(rows_of(source), FRAME[["b", "y", "a"]])
    pd.testing.assert_frame_equal(rows_of(open_rows(folder, "y")), FRAME[["a", "b", "kind", "y"]])
    one = open_rows([folder / "2.parquet"], "y")
    assert one.name == str(folder / "2.parquet")
    assert rows_of(one)["a"].tolist() == list(range(20, 30))


def test_a_state_knows_files_and_columns(folder):
    states = [open_rows(folder, "y", drop=drop).state() for drop in ((), ["b"])]
    assert states[0] != states[1]
    assert open_rows(folder, "y").state() == states[0]
    FRAME[:9].to_parquet(folder / "1.parquet")
    assert open_rows(folder, "y").state() != states[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="b"), "it lacks 'b'"),
        (lambda f: f.assign(more=1), "it has 'more' too"),
        (lambda f: f.assign(a=f["kind"]), "'a' is .*string and not double"),
    ],
)
def test_files_with_other_columns_are_refused(folder, change, message):
    change(FRAME[:5]).to_parquet(folder / "9.parquet")
    with pytest.raises(InputError, match=f"9.parquet has other columns than .*0.parquet: {message}"):
        open_rows(folder, "y")


def test_numbers_of_several_types_and_categories_go_together(folder):
    FRAME.assign(a=np.arange(30), b=np.arange(30.0), kind=FRAME["kind"].astype("category")).to_parquet(folder / "9.pq")
    assert len(rows_of(open_rows([folder / "9.pq"], "y"))) == 30
    assert sum(map(len, open_rows([folder / "0.parquet", folder / "9.pq"], "y").batches())) == 40


def test_targets_and_files_are_checked(folder):
    cases = [
        ({}, ConfigurationError, "say which column"),
        ({"target": "z"}, InputError, "lacks the columns 'z'; it has 'a', 'b', 'y', 'kind'"),
        ({"target": "y", "drop": ["q"]}, InputError, "lacks the columns 'q'"),
        ({"target": "y", "drop": ["y"]}, ConfigurationError, "cannot be the target and be dropped"),
        ({"target": "y", "drop": ["a", "b", "kind"]}, InputError, "no column .* is left as an input"),
    ]
    for options, error, message in cases:
        with pytest.raises(error, match=message):
            open_rows(folder, **options)
    (folder / "3.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"3.parquet cannot be read"):
        open_rows(folder, "y")
    source = open_rows(folder / "1.parquet", "y")
    (folder / "1.parquet").unlink()
    with pytest.raises(InputError, match=r"1.parquet cannot be read"):
        list(source.batches())


def test_datasets_are_read_by_row_group(folder, tmp_path_factory):
    source = open_rows(dataset.dataset(folder), "y")
    assert isinstance(source, DatasetRows)
    pd.testing.assert_frame_equal(rows_of(source), FRAME[["a", "b", "kind", "y"]])
    assert source.state() == open_rows(dataset.dataset(folder), "y").state()
    some = open_rows(dataset.dataset(folder).filter(dataset.field("a") < 5), "y")
    assert len(rows_of(some)) == 5
    assert some.state() is None
    parts = tmp_path_factory.mktemp("parts")
    FRAME.to_parquet(parts, partition_cols=["kind"])
    found = rows_of(open_rows(dataset.dataset(parts, partitioning="hive"), "y"))
    assert sorted(found["kind"]) == sorted(FRAME["kind"])
