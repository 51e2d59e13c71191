"""Sets from folders: the real files where they are present, small stand-ins otherwise."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import sodgp.data
from sodgp.data import canonical_csv, load, names
from sodgp.data.catalogue import CATALOGUE, Entry
from sodgp.data.local import lose_tens_digit
from sodgp.errors import ConfigurationError, InputError

FILES = [name for name in names() if name != "year"]
TABLE = np.array([[1.0, 0.1, 3.0], [2.0, 1e-7, -4.5]])


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Entry:
    """A catalogue entry for TABLE."""
    digest = hashlib.sha256(canonical_csv(["a", "b", "c"], TABLE)).hexdigest()
    entry = Entry("toy", ("a", "b", "c"), 2, digest, no_source="it is made up")
    monkeypatch.setitem(CATALOGUE, "toy", entry)
    return entry


@pytest.fixture
def small_year(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue's Year, cut to two rows."""
    monkeypatch.setitem(CATALOGUE, "year", dataclasses.replace(CATALOGUE["year"], rows=2))


def put_toy(folder: Path, table: np.ndarray = TABLE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "toy.csv.gz"
    path.write_bytes(gzip.compress(canonical_csv(["a", "b", "c"], table)))
    return path


@pytest.mark.parametrize("name", FILES)
def test_real_file_has_the_documented_facts(name: str, shared: Path) -> None:
    facts = next(entry for entry in json.loads((shared / "index.json").read_text()) if entry["name"] == name)
    data = load(name, data_dir=shared)
    assert data.X.shape == (facts["rows"], facts["inputs"])
    assert data.y.shape == (facts["rows"],)
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert [*data.feature_names, data.target_name] == facts["columns"]
    assert data.y.mean() == pytest.approx(facts["target_mean"], rel=1e-12)
    assert data.y.std() == pytest.approx(facts["target_std"], rel=1e-12)
    assert CATALOGUE[name].sha256_csv == facts["sha256_csv"]
    assert CATALOGUE[name].rows == facts["rows"]


@pytest.mark.parametrize("name", FILES)
def test_canonical_csv_reproduces_the_checksum(name: str, shared: Path) -> None:
    data = load(name, data_dir=shared)
    contents = canonical_csv([*data.feature_names, data.target_name], np.column_stack([data.X, data.y]))
    assert hashlib.sha256(contents).hexdigest() == CATALOGUE[name].sha256_csv


def test_boston_authors_is_derived_from_boston_alone(shared: Path, tmp_path: Path) -> None:
    shutil.copy(shared / "boston.csv.gz", tmp_path)
    derived, stored = load("boston_authors", data_dir=tmp_path), load("boston_authors", data_dir=shared)
    np.testing.assert_array_equal(derived.X, stored.X)
    assert (abs(derived.X - load("boston", data_dir=shared).X) > 1).sum() == 191


def test_tens_digit_is_lost_exactly() -> None:
    table = np.array([[13.5222, 9.9, 24.0, 50.0], [88.9762, 12.1265, 4.0, 10.0], [0.03237, 1.0, 1.0, 1.0]])
    expected = [[3.5222, 9.9, 4.0, 50.0], [8.9762, 2.1265, 4.0, 10.0], [0.032369999999999996, 1.0, 1.0, 1.0]]
    np.testing.assert_array_equal(lose_tens_digit(table, ["crim", "dis", "rad", "medv"]), expected)


@given(arrays(np.float64, (3, 2), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_canonical_csv_gives_back_the_same_floats(table: np.ndarray) -> None:
    header, *rows = canonical_csv(["a", "b"], table).decode().splitlines()
    assert header == "a,b"
    np.testing.assert_array_equal([[float(cell) for cell in row.split(",")] for row in rows], table)


def test_canonical_csv_refuses_a_wrong_number_of_names() -> None:
    with pytest.raises(InputError, match=r"shape \[2, 3\] does not fit 2"):
        canonical_csv(["a", "b"], TABLE)


def test_folders_are_tried_in_order(toy: Entry, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    argument, variable = tmp_path / "argument", tmp_path / "variable"
    argument.mkdir()
    variable.mkdir()
    monkeypatch.setenv("SODGP_DATA", str(variable))
    put_toy(cache)
    np.testing.assert_array_equal(load("toy", argument).X, TABLE[:, :2])
    put_toy(variable, TABLE + 1)  # wrong contents show which file was read
    with pytest.raises(InputError, match="variable"):
        load("toy", argument)
    put_toy(argument)
    np.testing.assert_array_equal(load("toy", str(argument)).y, TABLE[:, 2])


def test_empty_variable_counts_as_unset(toy: Entry, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SODGP_DATA", "")
    put_toy(cache)
    assert repr(load("toy")) == "DataSet('toy', 2 rows, 2 inputs, target 'c')"


def test_any_level_of_compression_will_do(toy: Entry, tmp_path: Path) -> None:
    contents = canonical_csv(toy.columns, TABLE)
    (tmp_path / "toy.csv.gz").write_bytes(gzip.compress(contents, compresslevel=1))
    assert load("toy", tmp_path).X.shape == (2, 2)


def test_changed_file_is_refused(toy: Entry, tmp_path: Path) -> None:
    put_toy(tmp_path, TABLE * 2)
    with pytest.raises(InputError, match=r"toy\.csv\.gz is not the set 'toy': the sha256 .* Remove the file"):
        load("toy", tmp_path)


@pytest.mark.parametrize("damage", [lambda raw: raw[:-12], lambda raw: b"no gzip", lambda raw: b""])
def test_damaged_gzip_is_refused(toy: Entry, tmp_path: Path, damage) -> None:
    path = put_toy(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"toy\.csv\.gz"):
        load("toy", tmp_path)


def test_folder_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"data_dir names .*nowhere"):
        load("energy", tmp_path / "nowhere")
    monkeypatch.setenv("SODGP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"SODGP_DATA names .*nowhere"):
        load("energy")


@pytest.mark.parametrize("name", ["boston", "boston_authors", "year_subset7000"])
def test_sets_without_download_say_where_to_put_the_file(name: str, cache: Path) -> None:
    with pytest.raises(sodgp.data.DataUnavailableError) as caught:
        load(name)
    message = str(caught.value)
    assert "not on offer for download" in message
    assert f"{name}.csv.gz" in message
    assert str(cache) in message
    assert isinstance(caught.value, OSError)


def test_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'concrete'"):
        load("concrette")


def year_line(year: int, first: float) -> str:
    return ",".join([str(year), str(first), *["0.5"] * 89])


@pytest.mark.usefixtures("small_year")
@pytest.mark.parametrize("packed", [False, True])
def test_year_reads_the_users_file(tmp_path: Path, packed: bool) -> None:
    text = f"{year_line(2001, 49.94)}\n{year_line(1922, -3.5)}\n"
    if packed:
        with zipfile.ZipFile(tmp_path / "yearpredictionmsd.zip", "w") as bundle:
            bundle.writestr("YearPredictionMSD.txt", text)
    else:
        (tmp_path / "YearPredictionMSD.txt").write_text(text)
    data = load("year", tmp_path)
    assert data.X.shape == (2, 90)
    assert data.X[:, 0].tolist() == [49.94, -3.5]
    assert data.y.tolist() == [2001.0, 1922.0]
    assert (data.feature_names[0], data.feature_names[-1], data.target_name) == (
        "timbre_avg_1",
        "timbre_cov_78",
        "year",
    )


@pytest.mark.usefixtures("small_year")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{year_line(2001, 1)}\n", "has 1 rows and 91 columns"),
        ("", "has 0 rows"),
        ("2001,1\n2002,2\n", "has 2 rows and 2 columns"),
        (f"{year_line(2001, 1)}\n{year_line(2001, 1)[:-4]}\n", "not a table of numbers"),
        (f"{year_line(2001, 1)}\nyear,text\n", "not a table of numbers"),
        (f"{year_line(2001, 1)}\n{year_line(2002, float('nan'))}\n", "not a finite number in row 2"),
    ],
)
def test_year_refuses_a_file_that_is_not_whole(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "YearPredictionMSD.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        load("year", tmp_path)


def test_year_refuses_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "YearPredictionMSD.txt").write_bytes(bytes(range(256)))
    with pytest.raises(InputError, match="not a table of numbers"):
        load("year", tmp_path)


def test_year_expects_the_published_size() -> None:
    assert (CATALOGUE["year"].rows, len(CATALOGUE["year"].columns)) == (515_345, 91)
