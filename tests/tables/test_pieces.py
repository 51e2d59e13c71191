"""Tables in pieces: the rows of the whole table, whatever the file and the size of its row groups."""

import numpy as np
import pandas as pd
import pytest

from sodgp.errors import InputError
from sodgp.tables import pieces as module
from sodgp.tables.files import read_table
from sodgp.tables.pieces import is_large, pieces

FRAME = pd.DataFrame({"a": np.arange(23.0), "b": np.arange(23) % 3, "c": [f"t{n}" for n in range(23)]})
NAMES = ["t.csv", "t.csv.gz", "t.tsv", "t.parquet"]


def written(folder, name, frame=FRAME, **options):
    path = folder / name
    if name.endswith(".parquet"):
        frame.to_parquet(path, index=options.pop("index", False), **options)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",")
    return path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [1, 5, 23, 100])
def test_pieces_are_the_table(tmp_path, name, rows):
    path = written(tmp_path, name)
    found = list(pieces(path, rows))
    assert [piece.start for piece in found] == list(range(0, 23, rows))
    assert found[-1].stop == 23
    together = pd.concat([piece.read() for piece in found], ignore_index=True)
    pd.testing.assert_frame_equal(together, read_table(path))


@pytest.mark.parametrize("group", [1, 4, 7, 23])
def test_row_groups_of_any_size(tmp_path, group):
    path = written(tmp_path, "t.parquet", row_group_size=group)
    together = pd.concat([piece.read() for piece in pieces(path, 6)], ignore_index=True)
    pd.testing.assert_frame_equal(together, FRAME)


def test_named_indices_are_columns(tmp_path):
    path = written(tmp_path, "t.parquet", FRAME.set_index("b"), index=True)
    assert set(next(pieces(path, 6)).read().columns) == {"a", "b", "c"}


def test_what_is_large(tmp_path, monkeypatch):
    path = written(tmp_path, "t.parquet")
    assert is_large(path, 22)
    assert not is_large(path, 23)
    text = written(tmp_path, "t.csv")
    assert not is_large(text)
    monkeypatch.setattr(module, "_WHOLE_BYTES", 10)
    assert is_large(text)
    assert not is_large(tmp_path / "missing.csv")
    assert not is_large(tmp_path)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(InputError, match=r"missing\.csv does not exist"):
        next(pieces(tmp_path / "missing.csv"))
    (tmp_path / "t.docx").write_text("a")
    with pytest.raises(InputError, match="cannot tell what kind of table"):
        next(pieces(tmp_path / "t.docx"))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match=r"broken\.parquet cannot be read"):
        next(pieces(tmp_path / "broken.parquet"))
    (tmp_path / "long.csv").write_text("a,b\n1,2\n3,4\n5,6,7,8\n")
    rest = pieces(tmp_path / "long.csv", 1)
    with pytest.raises(InputError, match=r"long\.csv cannot be read after row \d"):
        list(rest)


def test_columns_have_the_types_of_the_whole_table(tmp_path):
    frame = pd.DataFrame(
        {
            "code": ["1", "02", "3", "x", "5", ""],
            "number": ["1", "2", "3.5", "", "", ""],
            "flag": ["True", "False", "", "True", "", ""],
            "whole": ["1", "2", "3", "", "5", "6"],
        }
    )
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    together = pd.concat([piece.read() for piece in pieces(path, 2)], ignore_index=True)
    whole = read_table(path)
    assert together["code"].dropna().tolist() == ["1", "02", "3", "x", "5"] == whole["code"].dropna().tolist()
    pd.testing.assert_frame_equal(together[["number", "whole"]], whole[["number", "whole"]])
    assert together["flag"].astype(object).where(together["flag"].notna(), None).tolist() == [
        True, False, None, True, None, None,
    ]  # fmt: skip
    assert {piece.read()["whole"].dtype.kind for piece in pieces(path, 2)} == {"f"}


def test_whole_numbers_with_gaps_are_floats_in_every_piece(tmp_path):
    frame = pd.DataFrame({"n": pd.array([1, 2, 3, None], dtype="Int64")})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=2)
    together = pd.concat([piece.read() for piece in pieces(tmp_path / "t.parquet", 2)], ignore_index=True)
    assert {str(dtype) for dtype in together.dtypes} <= {"float64", "Int64"}


def test_the_dialect_of_a_file_is_taken(tmp_path):
    (tmp_path / "t.csv").write_bytes("Größe;Ort\n1,75;Köln\n1,8;Bonn\n".encode("latin-1"))
    frame = next(pieces(tmp_path / "t.csv")).read()
    assert frame["Größe"].tolist() == [1.75, 1.8]
    pd.testing.assert_frame_equal(frame, read_table(tmp_path / "t.csv"))
