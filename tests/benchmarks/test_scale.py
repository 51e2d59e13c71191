"""The benchmark of growth: what it measures, on few rows."""

import json
import sys

import pytest
from benchmarks.scale import __main__ as scale

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the kernel's record of a process")


def test_results_are_written_as_numbers_and_as_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "_alone", lambda what, *numbers: {"rows": numbers[0], "what": 2.5})
    scale.main(["--rows", "100", "1000", "--new", "50", "--jobs", "1", "--out", str(tmp_path / "scale")])
    found = json.loads((tmp_path / "scale.json").read_text())
    assert [line["rows"] for line in found["preparation"]] == [100, 1000]
    text = (tmp_path / "scale.md").read_text()
    assert "| 1,000 | 2.5 |" in text
    assert "--new 50" in text


def test_a_table_is_the_same_for_the_same_size():
    X, y = scale.table(30, 3)
    again, _ = scale.table(30, 3)
    assert X.shape == (30, 3)
    assert y.shape == (30,)
    assert (again == X).all()
