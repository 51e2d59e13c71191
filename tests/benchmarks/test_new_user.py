"""The timed path of a new user: its commands are those of the README, and its page adds up."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.new_user import RESULT, TABLE, Step, page, timed

ROOT = Path(__file__).parents[2]


def test_a_step_is_timed_and_run_where_it_should_be(tmp_path, capsys):
    step = timed("write", "echo hello > there.txt", tmp_path, {"PATH": "/usr/bin:/bin"})
    assert (tmp_path / "there.txt").read_text() == "hello\n"
    assert 0.0 < step.wall < 60.0
    assert "write" in capsys.readouterr().out


def test_the_page_counts_all_but_what_is_in_brackets():
    steps = [Step("fit", "", 10.0, 4.0), Step("(make the table)", "", 5.0, 5.0), Step("report", "", 2.0, 1.0)]
    text = page(steps, "abc", 0.5)
    assert "| **all** | **12** | **5** |" in text
    assert "table)" not in text


def test_the_table_has_the_promised_size(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    exec(compile(TABLE, "table", "exec"), {})
    lines = Path("data.csv").read_text().splitlines()
    assert len(lines) == 1001
    assert lines[0].count(",") == 10


def test_the_commands_are_those_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    source = (ROOT / "benchmarks" / "new_user.py").read_text(encoding="utf-8")
    for command in (
        "-c constraints.txt '.[frames]'",
        "-m venv .venv",
        "sodgp report model/ held-out.csv --out report.html",
    ):
        assert command in readme
        assert command in source
    assert re.search(r"sodgp fit data\.csv --target \w+ --out model/", readme)


def test_the_committed_result_has_every_step():
    text = RESULT.read_text(encoding="utf-8")
    for step in ("clone", "environment", "install", "fit", "report"):
        assert re.search(rf"^\| {step} \| \d+ \| \d+ \|$", text, re.M)
