"""The accuracy benchmark: resumable, honest about its parts."""

import json

import numpy as np
import pytest
from benchmarks.accuracy import __main__ as command
from benchmarks.accuracy import cells
from benchmarks.accuracy.cells import Cell, compute, finished, parts, store
from benchmarks.accuracy.report import markdown
from benchmarks.accuracy.variants import VARIANTS, Variant

from sodgp import SoD
from sodgp.data import DataSet, paper_split
from sodgp.errors import NumericalError


@pytest.fixture
def table(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 2))
    data = DataSet("energy", X, np.sin(X[:, 0]), ("a", "b"), "y")
    monkeypatch.setattr(cells, "load", lambda name, folder=None: data)
    monkeypatch.setitem(VARIANTS, "tiny", Variant({"max_iter": 3, "subset_size": 5}, members=2))


def test_validation_rows_come_from_the_training_part():
    for split in range(3):
        train, test = paper_split(100, split)
        fitted, held_out = parts("validation", 100, split)
        assert sorted([*fitted, *held_out]) == sorted(train)
        assert len(held_out) == 18
        np.testing.assert_array_equal(parts("test", 100, split)[1], test)


def test_a_cell_and_its_table(table, tmp_path):
    cell = Cell("validation", "energy", "tiny")
    record = compute(cell, device="cpu")
    assert len(record["nlpp"]) == len(record["crps"]) == len(record["coverage_90"]) == 5
    assert finished(cell, tmp_path) is None
    store(record, cell.path(tmp_path))
    assert finished(cell, tmp_path) == json.loads(json.dumps(record))
    report = markdown([record], "validation")
    assert f"| tiny | {np.mean(record['nlpp']):.4g} ±" in report


def test_other_options_are_another_result(table, tmp_path, monkeypatch):
    cell = Cell("test", "energy", "tiny")
    store({"cell": vars(cell), "options": {"max_iter": 3, "subset_size": 5}, "members": 2}, cell.path(tmp_path))
    assert finished(cell, tmp_path) is not None
    monkeypatch.setitem(VARIANTS, "tiny", Variant({"max_iter": 4, "subset_size": 5}, members=2))
    assert finished(cell, tmp_path) is None


def test_cells_say_how_far_members_are_shrunk(table, tmp_path, monkeypatch):
    """Those from before the option are of the plain mixture, and only of that."""
    monkeypatch.setitem(VARIANTS, "tiny", Variant({"effort": "thorough"}))
    cell = Cell("test", "energy", "tiny")
    record = {"cell": vars(cell), **VARIANTS["tiny"].described}
    assert record["member_spread"] == SoD().usual_spread(4)
    store(record, cell.path(tmp_path))
    assert finished(cell, tmp_path) == record
    del record["member_spread"]
    store(record, cell.path(tmp_path))
    assert finished(cell, tmp_path) is None
    monkeypatch.setitem(VARIANTS, "tiny", Variant({"effort": "thorough", "member_spread": 1.0}))
    assert finished(cell, tmp_path) == record
    fewer = Variant({"effort": "thorough", "n_members": 2, "member_spread": None}).described
    assert fewer["member_spread"] == SoD().usual_spread(2)
    assert Variant({"n_members": 2, "member_spread": 0.5}).described["options"]["member_spread"] == 0.5


def test_failures_are_recorded(table, monkeypatch):
    def fails(*_, **__):
        raise NumericalError("ran away")

    monkeypatch.setattr(cells, "fit_replicates", fails)
    record = compute(Cell("test", "energy", "tiny"), device="cpu")
    assert record["error"] == "ran away"
    assert "| tiny | failed |" in markdown([record], "test")


def test_a_spent_budget_begins_nothing(tmp_path, capsys):
    assert command.main(["--data", "energy", "--variants", "bound", "--budget", "0", "--out", str(tmp_path)]) == 0
    assert "1 cells to go" in capsys.readouterr().out
