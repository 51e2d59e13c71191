"""Time to accuracy: resumable, scored at its budgets, honest about who was not run. No time is asserted."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.time_to_accuracy import __main__ as command
from benchmarks.time_to_accuracy import cells, contestants, sets
from benchmarks.time_to_accuracy.cells import Cell, compute, finished, store, stored
from benchmarks.time_to_accuracy.clock import Clock
from benchmarks.time_to_accuracy.contestants import CONTESTANTS
from benchmarks.time_to_accuracy.report import markdown, picture
from benchmarks.time_to_accuracy.sets import SETS, Set, split_of

from sodgp.errors import InputError, NumericalError

NO_TIME = (0.0,)


@pytest.fixture
def small(monkeypatch):
    """A set of 30 rows."""

    def drawn(rows, seed):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((rows, 2))
        return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(rows)

    monkeypatch.setitem(SETS, "small", Set("small", drawn=drawn, rows=30))
    monkeypatch.setattr(sets, "_SCORED_ROWS", 20)
    options = {**CONTESTANTS["quick"].options, "labels": "default"}
    monkeypatch.setitem(CONTESTANTS, "quick", replace(CONTESTANTS["quick"], options=options))


@pytest.fixture
def short(monkeypatch):
    """Efforts of three steps."""
    plain = contestants.DeepGPRegressor
    monkeypatch.setattr(contestants, "DeepGPRegressor", lambda **options: plain(**{"max_iter": 3, **options}))


@pytest.mark.parametrize("name", ["quick", "standard-before", "exact", "sgpr", "svgp", "deep"])
def test_every_contestant_is_scored(small, short, name):
    record = compute(Cell("validation", "small", name, 0), NO_TIME)
    (point,) = record["points"]
    assert np.isfinite([point["nlpp"], point["crps"], point["rmse"]]).all()
    assert point["seconds"] > 0.0
    assert record["n_rows"] == 30
    assert json.loads(json.dumps(record)) == record


def test_what_came_before_has_the_labels_of_the_subset_only(small, short, monkeypatch):
    methods = []
    made = contestants.DeepGPRegressor
    monkeypatch.setattr(
        contestants, "DeepGPRegressor", lambda **options: methods.append(options.get("inference")) or made(**options)
    )
    for name in ("quick", "quick-before"):
        compute(Cell("validation", "small", name, 0))
    assert [method.objective for method in methods if method is not None] == [None, "bound"]


class Ticking:
    """A clock that has gone on by a second whenever it is read."""

    def __init__(self):
        self.reads = 0

    @property
    def seconds(self):
        self.reads += 1
        return float(self.reads)


def test_a_run_is_scored_at_every_budget(small):
    """Once where a step passes two of them."""
    split, contestant = split_of("small", 0, "validation"), CONTESTANTS["svgp"]
    run = contestant.run(split, contestant.options, 0, Ticking(), (6.0, 1.5, 1.0))
    means = [predict(split.X_test).mean for predict in run]
    assert len(means) == 2
    assert not np.array_equal(*means)


def test_pauses_are_no_part_of_the_time(monkeypatch):
    times = iter([10.0, 11.0, 15.0, 17.0])
    monkeypatch.setattr("benchmarks.time_to_accuracy.clock.time.process_time", lambda: next(times))
    clock = Clock()
    with clock.paused():
        pass
    assert clock.seconds == 3.0


def test_the_global_random_numbers_are_left_alone(small):
    state = torch.random.get_rng_state()
    compute(Cell("validation", "small", "deep", 0), NO_TIME)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_rows_are_those_of_their_stage(monkeypatch):
    table = np.arange(4000.0)[:, None], np.arange(4000.0)
    monkeypatch.setitem(SETS, "large", Set("large", lambda: table, most_rows=1500))
    validation, test = (split_of("large", 0, stage) for stage in ("validation", "test"))
    assert len(validation.y_train) == len(test.y_train) == 1500
    np.testing.assert_array_equal(validation.y_train, split_of("large", 0, "validation").y_train)
    for split in (validation, test):
        assert not {*split.y_train} & {*split.y_test}
    assert not {*validation.y_train, *validation.y_test} & {*test.y_test}


def test_drawn_sets_have_other_rows_for_every_purpose():
    drawn = [split_of("friedman1", split, stage) for split in range(2) for stage in ("validation", "test")]
    np.testing.assert_array_equal(drawn[0].X_train, drawn[1].X_train)
    firsts = {split.X_train[0, 0] for split in drawn} | {split.X_test[0, 0] for split in drawn}
    assert len(firsts) == 2 + 4


def test_what_is_missing_or_too_large_is_not_run(small, tmp_path, monkeypatch):
    monkeypatch.setitem(CONTESTANTS, "exact", replace(CONTESTANTS["exact"], most_rows=20))
    monkeypatch.setitem(CONTESTANTS, "ngboost", replace(CONTESTANTS["ngboost"], package="no_such_package"))
    records = [compute(Cell("validation", "small", name, 0)) for name in ("exact", "ngboost")]
    assert [record["not_run"] for record in records] == ["more than 20 rows", "no_such_package is not installed"]
    report = markdown(records, "validation")
    assert "not run: more than 20 rows" in report
    assert "Nobody was done in time." in report
    # It may be installed next time.
    store(records[1], Cell("validation", "small", "ngboost", 0).path(tmp_path))
    assert finished(Cell("validation", "small", "ngboost", 0), tmp_path) is None


def test_failures_are_recorded(small, monkeypatch):
    def fails(*_):
        raise NumericalError("ran away")
        yield

    monkeypatch.setitem(CONTESTANTS, "exact", replace(CONTESTANTS["exact"], run=fails))
    record = compute(Cell("validation", "small", "exact", 0))
    assert record["error"] == "ran away"
    assert "failed on split 0: ran away" in markdown([record], "validation")


def test_other_options_and_budgets_are_other_results(tmp_path, monkeypatch):
    cell = Cell("test", "step", "svgp", 0)
    record = {"cell": vars(cell), "options": CONTESTANTS["svgp"].options, "budgets": [1.0, 3.0], "points": []}
    store(record, cell.path(tmp_path))
    assert finished(cell, tmp_path, (3.0, 1.0)) == record
    assert finished(cell, tmp_path, (3.0,)) is None
    monkeypatch.setitem(CONTESTANTS, "svgp", replace(CONTESTANTS["svgp"], options={"inducing": 5}))
    assert finished(cell, tmp_path, (3.0, 1.0)) is None


def test_the_table_and_the_picture_have_the_means_over_splits(small, tmp_path):
    def point(seconds, nlpp):
        return {"seconds": seconds, "nlpp": nlpp, "crps": 0.5, "rmse": 1.0, "coverage_90": 0.9}

    def record(name, split, *points):
        return {"cell": vars(Cell("validation", "small", name, split)), "points": list(points)}

    records = [record("quick", split, point(2.0, 1.0 + split)) for split in range(2)]
    records += [record("svgp", 0, point(3.1, 2.0), point(10.2, 1.25))]
    report = markdown(records, "validation")
    assert "| quick | 2 | 2 | 1.5 | 0.5 | 1 | 90 % |" in report
    assert "3 s: quick (1.500); 10 s: SVGP (GPyTorch) (1.250); 30 s: SVGP (GPyTorch) (1.250)" in report
    figure = picture(records)
    lines = {line.get_label(): line.get_xydata().tolist() for line in figure.axes[0].get_lines()}
    assert lines["quick"] == [[2.0, 1.5]]
    assert lines["SVGP (GPyTorch)"] == [[3.1, 2.0], [10.2, 1.25]]


def _here(work, calls, *, jobs, minutes):
    """In the place of fresh processes, which would not know the small set."""
    return ((number, work(*arguments)) for number, arguments in enumerate(calls) if minutes > 0)


def test_a_command_goes_on_where_it_was_stopped(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "in_fresh_processes", _here)
    words = ["--data", "small", "--contestants", "exact", "--out", str(tmp_path)]
    assert command.main([*words, "--minutes", "0"]) == 0
    assert "1 cells to go" in capsys.readouterr().out
    assert command.main(words) == 0
    assert "exact GP (scikit-learn)" in (tmp_path / "validation.md").read_text()
    assert (tmp_path / "validation.png").stat().st_size > 0
    assert len(stored("validation", tmp_path)) == 1
    monkeypatch.setattr(command, "compute", lambda *_: pytest.fail("there is a result"))
    assert command.main(words) == 0


def test_missing_data_and_packages_that_do_not_work_are_not_run(small, monkeypatch):
    def missing(*_):
        raise InputError("no such file")

    broken = replace(CONTESTANTS["exact"], package="json")
    monkeypatch.setitem(CONTESTANTS, "exact", broken)
    monkeypatch.setattr(contestants.importlib, "import_module", lambda name: exec("import no_such_part"))
    assert compute(Cell("validation", "small", "exact", 0))["not_run"] == "No module named 'no_such_part'"
    monkeypatch.setattr(cells, "split_of", missing)
    record = compute(Cell("validation", "step", "quick", 0))
    assert record["not_run"] == "no such file"
    assert "not run: no such file" in markdown([record], "validation")


def test_a_cell_that_dies_is_told_and_the_others_are_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "in_fresh_processes", lambda *_, **__: iter([(0, "no result: BrokenProcessPool")]))
    assert command.main(["--data", "step", "--contestants", "quick", "exact", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "step quick 0: no result: BrokenProcessPool" in out
    assert "1 cells to go" in out


def test_efforts_before_are_efforts_with_the_same_sizes():
    for name in ("quick", "standard"):
        now, before = CONTESTANTS[name].options, CONTESTANTS[f"{name}-before"].options
        assert {**now, "labels": "subset"} == before
    assert cells.BUDGETS == (3.0, 10.0, 30.0, 100.0, 300.0)
