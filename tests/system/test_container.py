"""Records: dictionaries and tensors in one file. What estimators store in them is tested with the estimators."""

from __future__ import annotations

import pytest
import torch

from sodgp.errors import ModelFileError
from sodgp.system.container import NAME_IN_FOLDER, Record, check_destination, is_folder_path, read_record, write_record

RECORD = Record({"text": "\u00e9", "list": [1, None, True]}, {"a": torch.arange(6.0).reshape(2, 3)})


@pytest.mark.parametrize("place", ["r.sodgp", "r", "r/", "above/r"])
def test_a_record_comes_back(tmp_path, place):
    write_record(f"{tmp_path}/{place}", RECORD)
    found = read_record(f"{tmp_path}/{place}")
    assert {name: found.info[name] for name in RECORD.info} == RECORD.info
    torch.testing.assert_close(found.tensors, RECORD.tensors, rtol=0, atol=0)


def test_folders_and_files_are_told_apart_by_the_suffix(tmp_path):
    assert is_folder_path("model")
    assert is_folder_path("model.v2/")
    assert not is_folder_path("model.sodgp")
    (tmp_path / "model.v2").mkdir()
    assert is_folder_path(tmp_path / "model.v2")
    write_record(tmp_path / "model", RECORD)
    assert [path.name for path in (tmp_path / "model").iterdir()] == [NAME_IN_FOLDER]


def test_a_changed_byte_is_noticed(tmp_path):
    write_record(tmp_path / "r.sodgp", RECORD)
    content = bytearray((tmp_path / "r.sodgp").read_bytes())
    content[-1] ^= 1
    (tmp_path / "r.sodgp").write_bytes(content)
    with pytest.raises(ModelFileError, match="checksum"):
        read_record(tmp_path / "r.sodgp")


def test_what_a_killed_process_leaves_in_a_folder_is_no_obstacle(tmp_path):
    write_record(tmp_path / "r", RECORD)
    (tmp_path / "r" / f".{NAME_IN_FOLDER}.0123456789ab.tmp").write_bytes(b"half")
    write_record(tmp_path / "r", RECORD)
    assert read_record(tmp_path / "r").info["text"] == RECORD.info["text"]


def test_only_records_are_overwritten(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("mine")
    for place in ("notes.txt", "work"):
        with pytest.raises(ModelFileError, match="choose a"):
            check_destination(tmp_path / place)
    with pytest.raises(ModelFileError, match="empty path"):
        check_destination("")
    check_destination(tmp_path / "new" / "r.sodgp")
