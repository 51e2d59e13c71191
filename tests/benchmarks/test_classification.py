"""Classes and counts: resumable, honest about who was not run, scored as by the library. No time is asserted."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.classification import __main__ as command
from benchmarks.classification import cells, contestants, counts, report, sets
from benchmarks.classification.cells import CONTESTANTS, Cell, compute, finished, store, stored
from benchmarks.classification.report import losses, markdown, verdicts
from benchmarks.classification.scores import calibration, of_classes
from benchmarks.classification.sets import SETS, Set, split_of

from sodgp.errors import NumericalError
from sodgp.evaluation.classes import ClassEvaluation

ROWS = 30


@pytest.fixture
def small(monkeypatch):
    """A set of two classes, one of three, and one of counts."""

    def drawn(levels):
        def table(rows, seed):
            rng = np.random.default_rng(seed)
            X = rng.standard_normal((rows, 2))
            y = np.floor(levels / (1.0 + np.exp(-2.0 * X[:, 0] - 0.1 * rng.standard_normal(rows))))
            y[:levels] = np.arange(levels)
            return X, y

        return table

    monkeypatch.setitem(SETS, "two", Set("two", drawn=drawn(2), rows=ROWS))
    monkeypatch.setitem(SETS, "three", Set("three", drawn=drawn(3), rows=ROWS))
    monkeypatch.setitem(SETS, "some", Set("some", task="counts", drawn=drawn(5), rows=ROWS))
    monkeypatch.setattr(sets, "_SCORED_ROWS", 20)


@pytest.fixture
def short(monkeypatch):
    """Fits of three steps."""
    for module, name in ((contestants, "DeepGPClassifier"), (counts, "DeepGPRegressor")):
        plain = getattr(module, name)
        monkeypatch.setattr(module, name, lambda plain=plain, **options: plain(**{"max_iter": 3, **options}))
    for name in ("variational", "deep"):
        of = CONTESTANTS["classes"][name]
        options = {**of.options, "steps": 2, "inducing": 8}
        monkeypatch.setitem(CONTESTANTS["classes"], name, replace(of, options=options))


@pytest.mark.parametrize("data", ["two", "three"])
@pytest.mark.parametrize("name", [name for name in CONTESTANTS["classes"] if name not in ("catboost", "sod3")])
def test_every_contestant_is_scored(small, short, name, data):
    record = compute(Cell("validation", data, name, 0))
    scores = record["scores"]
    assert 0.0 < scores["log_loss"] < 5.0
    assert 0.0 <= scores["accuracy"] <= 1.0
    assert sum(rows for _, rows, *_ in scores["bins"]) == 20
    assert record["seconds"] > 0.0
    assert record["n_rows"] == ROWS
    assert json.loads(json.dumps(record)) == record


@pytest.mark.parametrize("name", ["sod1-poisson", "sod-negative", "poisson", "boosting"])
def test_counts_are_scored(small, short, name):
    record = compute(Cell("validation", "some", name, 0))
    assert np.isfinite([record["scores"][score] for score in ("nlpp", "crps", "rmse")]).all()


@pytest.mark.parametrize(("name", "package"), [("negative", "statsmodels"), ("ngboost", "ngboost")])
def test_counts_with_other_packages(small, monkeypatch, name, package):
    pytest.importorskip(package)
    of = CONTESTANTS["counts"]
    monkeypatch.setitem(of, "ngboost", replace(of["ngboost"], options={"estimators": 5}))
    assert np.isfinite(compute(Cell("validation", "some", name, 0))["scores"]["nlpp"])


def test_the_global_random_numbers_are_left_alone(small, short):
    state = torch.random.get_rng_state()
    compute(Cell("validation", "two", "variational", 0))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_gpytorch_stops_when_its_time_is_up(small, monkeypatch):
    of = CONTESTANTS["classes"]["variational"]
    options = {**of.options, "steps": 10**9, "most_seconds": 0.0}
    monkeypatch.setitem(CONTESTANTS["classes"], "variational", replace(of, options=options))
    assert compute(Cell("validation", "two", "variational", 0))["scores"]["log_loss"] == pytest.approx(
        np.log(2), rel=0.1
    )


@pytest.mark.parametrize("data", ["twonorm1000", "ringnorm1000"])
def test_the_best_possible_score_is_known(data):
    """Log losses of 0.0604 and 0.0355: labels are drawn from what is called the truth."""
    described = SETS[data]
    X, y = described.drawn(40_000, 7)
    found = of_classes(described.truth(X), y)
    assert found["log_loss"] == pytest.approx({"twonorm1000": 0.0604, "ringnorm1000": 0.0355}[data], abs=0.004)
    error, chance, rows = calibration([found["bins"]])
    assert rows == 40_000
    assert error < 1.5 * chance


def test_rates_of_the_sets_of_counts_are_their_means():
    for name in ("poisson", "overdispersed"):
        X, y = SETS[name].drawn(200_000, 1)
        assert (y - SETS[name].truth(X)[:, 0]).mean() == pytest.approx(0.0, abs=0.05)


def test_scores_are_those_of_the_library():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 500)
    y = np.array([rng.choice(3, p=each) for each in p])
    found = of_classes(p, y.astype(float))
    theirs = ClassEvaluation(("y",), np.arange(3), y, p, np.full(3, 1 / 3)).scores(n_bootstrap=0)
    for name in ("log_loss", "brier", "accuracy"):
        assert found[name] == pytest.approx(theirs[name].value)
    error, chance, _ = calibration([found["bins"]])
    assert error == pytest.approx(theirs["ece"].value, abs=1e-6)
    assert chance == pytest.approx(theirs["ece_chance"].value, rel=0.1)
    # Rows of two cells are pooled, not their errors.
    halves = [of_classes(p[rows], y[rows].astype(float))["bins"] for rows in (slice(250), slice(250, None))]
    assert calibration(halves)[0] == pytest.approx(error, abs=1e-6)


def test_probabilities_of_zero_have_a_finite_score():
    assert of_classes(np.array([[1.0, 0.0]]), np.array([1.0]))["log_loss"] == pytest.approx(-np.log(1e-12))


def test_what_is_missing_or_too_large_is_not_run(small, tmp_path, monkeypatch):
    of = CONTESTANTS["classes"]
    monkeypatch.setitem(of, "laplace", replace(of["laplace"], most_rows=20))
    monkeypatch.setitem(of, "catboost", replace(of["catboost"], package="no_such_package"))
    monkeypatch.setenv("SODGP_DATA", str(tmp_path))
    wanted = [("two", "laplace"), ("two", "catboost"), ("banana", "logistic")]
    records = [compute(Cell("validation", data, name, 0)) for data, name in wanted]
    assert records[0]["not_run"] == "more than 20 rows"
    assert records[1]["not_run"] == "no_such_package is not installed"
    assert "SODGP_DATA" in records[2]["not_run"]
    assert "not run: more than 20 rows" in markdown(records, "validation")
    # It may be installed next time.
    store(records[1], Cell("validation", "two", "catboost", 0).path(tmp_path))
    assert finished(Cell("validation", "two", "catboost", 0), tmp_path) is None


def test_tables_are_read_with_text_as_numbers(tmp_path, monkeypatch):
    import gzip

    for name, text in {
        "classification/ionosphere.csv.gz": "a,label\n1,g\n2,b\n",
        "tables/abalone.csv.gz": "sex,length,rings\nM,0.5,3\nF,0.25,4\n",
    }.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    monkeypatch.setenv("SODGP_DATA", str(tmp_path))
    X, y = SETS["ionosphere"].table()
    assert (X.tolist(), y.tolist()) == ([[1.0], [2.0]], [1.0, 0.0])
    X, y = SETS["abalone"].table()
    assert (X.tolist(), y.tolist()) == ([[0, 1, 0, 0.5], [1, 0, 0, 0.25]], [3.0, 4.0])


def test_large_sets_are_cut_for_everyone(monkeypatch):
    table = np.arange(6000.0)[:, None], np.arange(6000.0)
    monkeypatch.setitem(SETS, "magic", replace(SETS["magic"], table=lambda: table))
    validation, test = (split_of("magic", 0, stage) for stage in ("validation", "test"))
    assert len(validation.y_train) == len(test.y_train) == 3000
    assert not {*validation.y_train, *validation.y_test} & {*test.y_test}


def test_failures_are_recorded(small, monkeypatch):
    def fails(*_):
        raise NumericalError("ran away")

    of = CONTESTANTS["classes"]
    monkeypatch.setitem(of, "logistic", replace(of["logistic"], fit=fails))
    record = compute(Cell("validation", "two", "logistic", 0))
    assert record["error"] == "ran away"
    assert "failed on split 0: ran away" in markdown([record], "validation")


def test_other_options_are_another_result(small, tmp_path, monkeypatch):
    cell, of = Cell("validation", "two", "default", 0), CONTESTANTS["classes"]
    record = {"cell": vars(cell), "options": of["default"].options}
    store(record, cell.path(tmp_path))
    assert finished(cell, tmp_path) == record
    monkeypatch.setitem(of, "default", replace(of["default"], options={"effort": "quick"}))
    assert finished(cell, tmp_path) is None


def _record(name, split, loss, data="two", right=True):
    cell = Cell("test", data, name, split)
    scores = {"log_loss": loss, "brier": 0.1, "accuracy": 0.9, "bins": [[95, 100, 95.0, 95 if right else 50]]}
    return {"cell": vars(cell), "options": {}, "scores": scores, "seconds": 2.0, "truth": {"log_loss": 0.25}}


def test_ours_is_compared_split_by_split(small):
    records = [_record("default", split, 0.30 + 0.1 * split) for split in range(2)]
    records += [_record("variational", split, 0.29 + 0.1 * split) for split in range(2)]
    records += [_record("deep", split, 0.40 + 0.1 * split) for split in range(2)]
    text = verdicts(records)
    assert "| two | variational GP (GPyTorch) | 0.0100 ± 0.0000 | no | 0.1000 |" in text
    assert "mean of 1 sets: -0.1000" in text
    assert "| SoD, defaults | 0.3500 ± 0.0500 |" in losses(records)
    assert "| best possible | 0.2500 |" in losses(records)
    # A rival without all of our splits is no rival.
    assert "variational" not in verdicts(records[:3] + records[4:])


def test_calibration_that_falls_short_is_marked(small):
    text = report.calibrations([_record("default", 0, 0.3), _record("sod1", 0, 0.3, right=False)])
    good, bad = text.splitlines()[2:]
    assert "\\*" not in good
    assert "\\*" in bad


def test_a_command_goes_on_where_it_was_stopped(small, tmp_path, monkeypatch, capsys):
    words = ["--data", "two", "some", "--contestants", "logistic", "poisson", "--splits", "1", "--out", str(tmp_path)]
    assert command.main([*words, "--minutes", "0"]) == 0
    assert "2 cells to go" in capsys.readouterr().out
    # In the place of other processes, which would not know the small sets.
    monkeypatch.setattr(
        command, "in_fresh_processes", lambda work, calls, **_: enumerate(work(*call) for call in calls)
    )
    assert command.main(words) == 0
    assert "logistic regression" in (tmp_path / "validation.md").read_text()
    assert len(stored("validation", tmp_path)) == 2
    monkeypatch.setattr(command, "compute", lambda *_: pytest.fail("there is a result"))
    assert command.main(words) == 0


def test_results_say_what_the_effort_means():
    options = cells.CLASSES["default"].options
    assert options["max_iter"] > 0
    assert options["subset_size"] > 0
