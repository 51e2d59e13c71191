"""UCI's formats become tables with the target last. Whole downloads are tested in test_download.py."""

import io
import zipfile

import numpy as np
import pytest

from sodgp.data import convert
from sodgp.errors import InputError


def archive(folder, **members):
    path = folder / "set.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        for name, text in members.items():
            bundle.writestr(name.replace("__", "."), text)
    return path


def test_the_target_comes_last(tmp_path):
    table = convert.protein(archive(tmp_path, CASP__csv="RMSD,F1,F2\n9,1,2\n8,3,4\n"))
    np.testing.assert_array_equal(table, [[1, 2, 9], [3, 4, 8]])
    table = convert.year(archive(tmp_path, YearPredictionMSD__txt="1999,1,2\n2001,3,4\n"))
    np.testing.assert_array_equal(table, [[1, 2, 1999], [3, 4, 2001]])


def test_the_second_target_of_naval_is_dropped(tmp_path):
    np.testing.assert_array_equal(convert.naval(archive(tmp_path, data__txt=" 1  2 3\n 4 5  6\n")), [[1, 2], [4, 5]])


def test_rows_without_end_or_number_are_refused():
    with pytest.raises(InputError, match=r"t\.csv is not a table of numbers"):
        convert.read_numbers(io.StringIO("1,2\n3\n"), delimiter=",", skip_rows=0, what="t.csv")
    assert convert.read_numbers(io.StringIO("a,b\n"), delimiter=",", skip_rows=1, what="t.csv").size == 0


def test_archives_without_the_file_say_what_they_hold(tmp_path):
    with pytest.raises(InputError, match=r"holds no file CASP\.csv; it holds \['other\.csv'\]"):
        convert.protein(archive(tmp_path, other__csv=""))
    (tmp_path / "set.zip").write_bytes(b"PK")
    with pytest.raises(InputError, match="not a whole zip archive"):
        convert.protein(tmp_path / "set.zip")


def test_missing_packages_are_named():
    convert.require(("numpy",), "Counting")
    with pytest.raises(InputError, match="Counting needs nosuchpackage: run `pip install nosuchpackage`"):
        convert.require(("numpy", "nosuchpackage"), "Counting")
