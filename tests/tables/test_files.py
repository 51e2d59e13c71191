from __future__ import annotations

import gzip
import sys
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from sodgp.errors import ConfigurationError, InputError, ResourceError
from sodgp.tables.files import read_table, split_target, table_of

pd = pytest.importorskip("pandas")
FRAME = pd.DataFrame({"a": [1, 2], "b": [0.5, -1e-7], "word": ["x", "y"]})


def write(folder: Path, name: str, contents: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
    return path


@pytest.mark.parametrize(
    ("name", "separator"),
    [
        ("t.csv", ","),
        ("t.csv", ";"),
        ("t.csv", "\t"),
        ("T.CSV", ","),
        ("t.csv.gz", ","),
        ("t.tsv", "\t"),
        ("t.tsv.gz", "\t"),
    ],
)
def test_text_tables(tmp_path: Path, name: str, separator: str) -> None:
    FRAME.to_csv(tmp_path / name, sep=separator, index=False)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), FRAME)


@pytest.mark.parametrize("name", ["t.parquet", "t.pq"])
def test_parquet_tables(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyarrow")
    FRAME.to_parquet(tmp_path / name)
    pd.testing.assert_frame_equal(read_table(str(tmp_path / name)), FRAME)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("\ufeffa,b\n1,2\n", ["a", "b"]),
        ("a,b\r\n1,2\r\n", ["a", "b"]),
        ("\n\na, b\n1, 2\n", ["a", "b"]),
        ('"a,x";"b"\n1;2\n', ["a,x", "b"]),
        ('"a\nx",b\n1,2\n', ["a\nx", "b"]),
        ("größe,y\n1,2\n", ["größe", "y"]),
        ("only\n1\n", ["only"]),
    ],
)
def test_awkward_but_sound_text(tmp_path: Path, text: str, columns: list[str]) -> None:
    frame = read_table(write(tmp_path, "t.csv", text))
    assert list(frame.columns) == columns
    assert frame.to_numpy().ravel().tolist() == [1, 2][: len(columns)]


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", " \n\n", "is empty"),
        ("t.csv.gz", gzip.compress(b"", mtime=0), "is empty"),
        ("t.parquet", "", "is empty"),
        ("t.csv", "a,b\n", "no rows"),
        ("t.xlsx", "x", "must end in one of .csv"),
        ("t", "x", "must end in one of .csv"),
        ("t.csv", "a,b,a,b\n1,2,3,4\n", "column name 'a' and 'b' occurs more than once"),
        ("t.csv", ",,\n0,1,2\n", "column 1 has no name"),
        ("t.csv", "a,b\n1,2,3\n", "not a well-formed table"),
        ("t.csv", "a,b\n1,2\n1,2,3\n", "not a well-formed table"),
        ("t.csv", 'a,b\n1,"2\n', "not a well-formed table"),
        ("t.csv", "a,b\n1,2\n".encode("utf-16-le"), "zero bytes"),
        ("t.csv", b"\x89PNG\r\n\x1a\n\xfa\xce", "is not a text file"),
        ("t.csv", bytes(range(256)) * 10, "zero bytes"),
        ("t.csv", gzip.compress(b"a,b\n1,2\n", mtime=0), "zero bytes|not a text file"),
        ("t.csv.gz", "a,b\n1,2\n", "cannot be read.*gzip"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-6], "cannot be read"),
        ("t.csv", "x" * 200_000 + "\n1\n", "not a well-formed table"),
        ("t.parquet", "not parquet at all", "cannot be read as Parquet"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, contents: str | bytes, message: str) -> None:
    path = write(tmp_path, name, contents)
    with pytest.raises(InputError, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("contents", "said", "columns"),
    [
        ("a;b\n1,5;x\n-2,25;y\n", "columns separated by a semicolon; a decimal comma", {"a": [1.5, -2.25]}),
        ("a;b;c\n1.234,5;2,5;01.02.2020\n", "a decimal comma", {"a": ["1.234,5"], "b": [2.5], "c": ["01.02.2020"]}),
        ("a;b\n1.5;x\n", "columns separated by a semicolon", {"a": [1.5]}),
        ("a;b\n1,234;5\n", "columns separated by a semicolon", {"a": ["1,234"]}),
        ("a;b\n01.02.2020;1,5\n", "a decimal comma", {"a": ["01.02.2020"], "b": [1.5]}),
        ("a|b\n1|x\n", "columns separated by a bar", {"b": ["x"]}),
        ("größe,ort\n1,Köln\n".encode("latin-1"), "encoding cp1252", {"größe": [1], "ort": ["Köln"]}),
        ("a,b\n1,ž\n".encode("utf-16"), "encoding utf-16", {"b": ["ž"]}),
        (",a\n0,1\n", "column 1 has no name, called 'Unnamed: 0'", {"Unnamed: 0": [0], "a": [1]}),
        ("a,b\n1,2\n", "", {"a": [1]}),
    ],
)
def test_what_a_file_shows_is_said(tmp_path, contents, said, columns):
    frame, found = table_of(write(tmp_path, "t.csv", contents))
    assert said in found
    assert bool(said) == bool(found)
    assert {name: frame[name].tolist() for name in columns} == columns


def test_what_is_given_is_not_guessed(tmp_path):
    path = write(tmp_path, "t.csv", "a;b\n1,234;5\n")
    assert read_table(path, decimal=",")["a"].tolist() == [1.234]
    assert list(read_table(write(tmp_path, "t.csv", "a;b\n1;2\n"), separator=",")) == ["a;b"]
    path = write(tmp_path, "t.csv", "a\n\xe9\n".encode("latin-1"))
    assert read_table(path, encoding="cp437")["a"].tolist() == ["Θ"]
    with pytest.raises(InputError, match="is not utf-8 text"):
        read_table(path, encoding="utf-8")
    for wrong in ({"decimal": "x"}, {"separator": "::"}, {"encoding": "morse"}):
        with pytest.raises(ConfigurationError, match=str(*wrong.values())):
            read_table(path, **wrong)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.csv does not exist"):
        read_table(tmp_path / "nothing.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        read_table(tmp_path / "folder.csv")


@pytest.mark.parametrize(
    ("stored", "columns"),
    [
        (FRAME.set_index("b"), ["b", "a", "word"]),
        (FRAME.set_index(["word", "a"]), ["word", "a", "b"]),
        (FRAME.set_axis([7, 9]), ["a", "b", "word"]),
        (FRAME.set_axis([7, 9]).set_index("a", append=True), ["a", "b", "word"]),
    ],
)
def test_an_index_with_a_name_is_a_column_of_a_parquet_table(tmp_path, stored, columns):
    pytest.importorskip("pyarrow")
    stored.to_parquet(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.parquet"), FRAME[columns])


def test_decimals_and_long_integers_are_numbers(tmp_path):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": [Decimal("1.5"), None, Decimal(2)]}).to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet")["a"].tolist() == pytest.approx([1.5, np.nan, 2.0], nan_ok=True)
    frame = read_table(write(tmp_path, "t.csv", f"a,b\n{10**30},1\n3,x\n"))
    assert frame["a"].tolist() == [1e30, 3.0]
    assert frame["b"].tolist() == ["1", "x"]


def test_repeated_names_in_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"'a' occurs more than once|cannot be read as Parquet"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize(("name", "package"), [("t.csv", "pandas"), ("t.parquet", "pandas"), ("t.parquet", "pyarrow")])
def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    path = write(tmp_path, name, "a,b\n1,2\n")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=f"`pip install {package}`"):
        read_table(path)


def test_split_target_keeps_order() -> None:
    X, y = split_target(FRAME, ["word", "a"])
    assert list(X) == ["b"]
    assert list(y) == ["word", "a"]
    assert len(X) == len(y) == 2


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["wrd"], r"no column 'wrd'. Did you mean 'word'\? Columns: 'a', 'b', 'word'"),
        (["WORD"], r"Did you mean 'word'\?"),
        (["zzz"], r"no column 'zzz'. Columns: 'a', 'b', 'word'"),
        ([], "No target column was named"),
        (["a", "a"], "target 'a' occurs more than once"),
        (["a", "b", "word"], "No column is left as an input"),
    ],
)
def test_split_target_refuses(targets: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split_target(FRAME, targets)


def test_long_listings_are_cut() -> None:
    wide = pd.DataFrame([range(30)], columns=[f"c{i}" for i in range(30)])
    with pytest.raises(InputError, match="'c19' and 10 more"):
        split_target(wide, ["missing"])


# ----- tables that are larger than they look, and damaged ones


def test_a_small_packed_file_that_unpacks_to_more_than_fits_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wb", compresslevel=9) as handle:
        handle.write(b"a,b\n" + b"0,0\n" * 10**6)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr("sodgp.system.memory.available_memory", lambda device=None: 10**6)
    monkeypatch.setattr("sodgp.tables.files.available_memory", lambda device=None: 10**6)
    monkeypatch.setattr(pd, "read_csv", lambda *arguments, **options: pytest.fail("it was read"))
    with pytest.raises(ResourceError, match=r"t\.csv\.gz, unpacked, needs about .* GB"):
        read_table(path)
    (tmp_path / "t.csv").write_bytes(b"a,b\n" + b"0,0\n" * 10**5)
    with pytest.raises(ResourceError, match=r"t\.csv, unpacked, needs"):
        read_table(tmp_path / "t.csv")


def test_a_parquet_file_that_does_not_fit_is_refused_before_it_is_read(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": [0] * 10**5}).to_parquet(tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 10**4
    monkeypatch.setattr("sodgp.system.memory.available_memory", lambda device=None: 10**5)
    with pytest.raises(ResourceError, match=r"t\.parquet, unpacked, needs about .* GB"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_damaged_tables_are_read_or_refused_by_name(tmp_path, name):
    pytest.importorskip("pyarrow")
    path = tmp_path / name
    frame = pd.DataFrame({"a": range(50), "größe": [0.5] * 50, "word": ["x"] * 50})
    frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
    sound = path.read_bytes()
    rng = np.random.default_rng(0)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(150):
        damaged = bytearray(sound)
        for position in rng.integers(len(sound), size=rng.integers(1, 6)):
            damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged[: int(rng.integers(len(sound)))] if rng.random() < 0.2 else damaged))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                outcomes["read"] += len(read_table(path).columns) > 0
            except InputError as error:
                outcomes["refused"] += str(path) in str(error)
    assert sum(outcomes.values()) == 150
    assert outcomes["refused"] > 5
