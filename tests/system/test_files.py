"""Files are written whole or not at all, and one process at a time has a folder."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sodgp.system import files
from sodgp.system.files import alone_in, is_scratch_of, write_text_whole, write_whole

HOLDER = """
import sys
from pathlib import Path
from sodgp.system.files import alone_in
with alone_in(Path(sys.argv[1])) as is_alone:
    print(is_alone, flush=True)
    sys.stdin.readline()
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_contents_are_replaced_and_folders_above_are_made(tmp_path):
    file = tmp_path / "a" / "b" / "note.txt"
    for text in ("first", "second, with an \u00e9"):
        write_text_whole(file, text)
        assert file.read_text(encoding="utf-8") == text
    assert names(file.parent) == ["note.txt"]


def test_a_write_that_fails_leaves_the_old_contents(tmp_path):
    file = tmp_path / "note.txt"
    write_text_whole(file, "old")

    def half(scratch):
        assert is_scratch_of(scratch, file)
        scratch.write_text("ne", encoding="utf-8")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole(file, half)
    assert file.read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == ["note.txt"]


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "note.txt")
    write_text_whole(tmp_path / "link", "text")
    assert (tmp_path / "note.txt").read_text(encoding="utf-8") == "text"
    assert (tmp_path / "link").is_symlink()


def test_scratch_files_are_known_by_name():
    assert not is_scratch_of(Path("m.sodgp"), Path("m.sodgp"))
    assert not is_scratch_of(Path(".other.123.tmp"), Path("m.sodgp"))


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no locks on folders")
def test_one_process_at_a_time_has_a_folder(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "True\n"
        with alone_in(tmp_path) as is_alone:
            assert not is_alone
        other.communicate("done\n")
    with alone_in(tmp_path) as is_alone:
        assert is_alone
    with alone_in(tmp_path / "missing") as is_alone:
        assert not is_alone
    assert names(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="this system locks a file in the folder in any case")
def test_where_folders_cannot_be_locked_a_file_in_them_is(tmp_path, monkeypatch):
    honest = files.fcntl.flock

    def flock(descriptor, operation):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "as on some network disks")
        honest(descriptor, operation)

    monkeypatch.setattr(files.fcntl, "flock", flock)
    for _ in range(2):
        with alone_in(tmp_path) as is_alone, alone_in(tmp_path) as is_second:
            assert (is_alone, is_second) == (True, False)
    assert names(tmp_path) == [".sodgp-lock"]
    monkeypatch.setattr(files.fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOLCK, "no locks")))
    with alone_in(tmp_path) as is_alone:
        assert is_alone is None
