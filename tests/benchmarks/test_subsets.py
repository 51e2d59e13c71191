"""The comparison of selectors runs, resumes, and reports what it ran. No time is asserted."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.subsets import cells
from benchmarks.subsets.__main__ import main
from benchmarks.subsets.cells import Cell, Settings, finished, store
from benchmarks.subsets.report import markdown
from benchmarks.subsets.timing import selection_times

from sodgp.data.dataset import DataSet
from sodgp.errors import InputError, NumericalError

TINY = ["--data", "energy", "--selectors", "kmeans", "leverage", "--sizes", "5", "8", "--splits", "2"]
TINY += ["--iterations", "4", "--max-rows", "30"]


@pytest.fixture
def table(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2))
    data = DataSet("energy", X, np.sin(X[:, 0]), ("a", "b"), "y")
    monkeypatch.setattr(cells, "load", lambda name, folder=None: data)


def test_a_run_leaves_cells_a_table_and_a_picture(table, tmp_path, capsys):
    assert main([*TINY, "--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in (tmp_path / "cells").iterdir()) == [
        f"energy-{selector}-{size}.json" for selector in ("kmeans", "leverage") for size in (5, 8)
    ]
    record = json.loads((tmp_path / "cells" / "energy-kmeans-5.json").read_text())
    assert len(record["nlpp"]) == len(record["rmse"]) == len(record["bound"]) == 2
    assert np.isfinite(record["nlpp"]).all()
    report = (tmp_path / "subsets.md").read_text()
    assert "4 iterations" in report
    assert "Not complete" not in report
    assert "| selector | M = 5 | M = 8 |" in report
    assert (tmp_path / "nlpp.png").stat().st_size > 0
    assert report in capsys.readouterr().out


def test_a_second_run_goes_on_where_the_first_ended(table, tmp_path, monkeypatch, capsys):
    assert main([*TINY, "--out", str(tmp_path), "--budget", "0"]) == 0
    assert "the time is up after cell 0 of 4" in capsys.readouterr().out
    assert main([*TINY[:2], "--selectors", "kmeans", *TINY[5:], "--out", str(tmp_path)]) == 0
    computed = []
    compute = cells.compute
    monkeypatch.setattr(
        "benchmarks.subsets.__main__.compute", lambda group, *a, **k: computed.extend(group) or compute(group, *a, **k)
    )
    (tmp_path / "cells" / "energy-kmeans-5.json").write_text("{")
    assert main([*TINY, "--out", str(tmp_path)]) == 0
    assert computed == [Cell("energy", "kmeans", 5), Cell("energy", "leverage", 5), Cell("energy", "leverage", 8)]


def test_other_settings_are_other_results(tmp_path):
    cell, settings = Cell("energy", "dpp", 5), Settings(iterations=3)
    record = {"cell": {"data": "energy", "selector": "dpp", "size": 5}, "settings": {**vars(settings)}}
    store(record, cell.path(tmp_path))
    assert finished(cell, settings, tmp_path) == record
    assert finished(cell, Settings(iterations=4), tmp_path) is None
    assert finished(Cell("energy", "dpp", 6), settings, tmp_path) is None


def test_the_committed_cells_are_read():
    folder = Path(__file__).parents[2] / "benchmarks" / "results" / "subsets"
    record = finished(Cell("energy", "kmeans", 50), Settings(), folder)
    assert record is not None
    assert record["cell"] == {"data": "energy", "selector": "kmeans", "size": 50}


def test_failures_are_recorded(table, monkeypatch):
    cell = Cell("energy", "leverage", 5)

    def fails(*_, **__):
        raise NumericalError("ran away")

    monkeypatch.setattr(cells, "fit_replicates", fails)
    failed, other = cells.compute([cell, Cell("energy", "dpp", 5)], Settings(4, 2, 1), device="cpu")
    assert other["cell"]["selector"] == "dpp"
    assert failed["error"] == "ran away"
    report = markdown([failed], [], 3)
    assert "| leverage | failed |" in report
    assert "Not complete: 3 cells" in report


def test_selectors_that_share_a_program_have_their_own_results(table):
    group = [Cell("energy", name, 5) for name in ("kmeans", "leverage")]
    together = cells.compute(group, Settings(4, 2, 1), device="cpu")
    for cell, record in zip(group, together, strict=True):
        (alone,) = cells.compute([cell], Settings(4, 2, 1), device="cpu")
        np.testing.assert_allclose(record["nlpp"], alone["nlpp"], rtol=1e-9)


def test_a_missing_table_is_one_line(tmp_path, monkeypatch, capsys):
    def missing(*_):
        raise InputError("no such file")

    monkeypatch.setattr(cells, "load", missing)
    assert main([*TINY, "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "Error: no such file\n"


def test_selection_times(tmp_path, capsys):
    command = ["--selection-time", "--rows", "60", "120", "--size", "5", "--columns", "4", "--out", str(tmp_path)]
    assert main([*command, "--selectors", "random", "greedy_variance", "--data", "energy"]) == 0
    stored = json.loads((tmp_path / "selection-time.json").read_text())
    assert [(t["selector"], t["rows"]) for t in stored] == [
        (name, rows) for rows in (60, 120) for name in ("random", "greedy_variance")
    ]
    assert "N = 60 | N = 120" in capsys.readouterr().out
    assert (tmp_path / "selection-time.png").exists()
    assert next(selection_times(["random"], [50], size=3, columns=3))["seconds"] >= 0
