"""Large tables: predicted in parts that equal the whole, in many processes, and continued after an interruption."""

import joblib
import numpy as np
import pandas as pd
import pytest

from sodgp import DeepGPClassifier, DeepGPRegressor
from sodgp.cli import parts
from sodgp.cli.columns import Reading
from sodgp.cli.parts import Shown, predict_in_parts
from sodgp.cli.predictions import predictions
from sodgp.cli.tables import with_columns, write_table
from sodgp.errors import InputError
from sodgp.estimator.files.records import load_any
from sodgp.system.files import alone_in
from sodgp.tables.files import read_table

RNG = np.random.default_rng(0)
NEW = pd.DataFrame(RNG.standard_normal((25, 2)), columns=["a", "b"])
LEVELS = [0.1, 0.9]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    X = pd.DataFrame(RNG.standard_normal((40, 2)), columns=["a", "b"])
    options = {"max_iter": 3, "subset_size": 10, "n_predict_samples": 5, "random_state": 0}
    path = tmp_path_factory.mktemp("model") / "m.sodgp"
    DeepGPRegressor(**options).fit(X, np.sin(X["a"])).save(path)
    return path


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False, row_group_size=7)
    else:
        frame.to_csv(path, index=False)
    return path


def read(path):
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, sep=None, engine="python")


def run(model, data, out, jobs=1, wanted=LEVELS, keep=("none",), reading=None):
    shown = Shown(wanted, None if keep is None else list(keep))
    with joblib.parallel_config(backend="threading"):  # processes take seconds to start
        return predict_in_parts(load_any(model), model, data, out, shown, jobs, reading or Reading(), rows=10)


@pytest.fixture
def predicted(monkeypatch):
    """First rows of the pieces that are predicted in this process."""
    starts, honest = [], parts._predict_part

    def noted(model, threads, piece, part, shown):
        starts.append(piece.start)
        honest(model, threads, piece, part, shown)

    monkeypatch.setattr(parts, "_predict_part", noted)
    return starts


@pytest.mark.parametrize(("source", "target"), [("t.parquet", "p.parquet"), ("t.csv", "p.csv"), ("t.csv", "p.tsv.gz")])
def test_parts_are_the_whole_in_order(model, tmp_path, source, target):
    data, out = write(NEW.assign(more=1), tmp_path / source), tmp_path / target
    rows, columns = run(model, data, out)
    found = pd.read_csv(out, sep="\t") if target.endswith(".gz") else read(out)
    whole = predictions(DeepGPRegressor.load(model), NEW, LEVELS)
    assert (rows, columns) == (25, list(whole))
    np.testing.assert_allclose(found[list(whole)], whole, rtol=1e-10)
    assert not (tmp_path / f".{target}.parts").exists()


def test_many_workers_write_the_same_bytes(model, tmp_path):
    data = write(NEW, tmp_path / "t.parquet")
    run(model, data, tmp_path / "one.csv")
    run(model, data, tmp_path / "two.csv", jobs=2)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_an_interrupted_run_is_continued(model, tmp_path, monkeypatch, capsys, predicted):
    data, out = write(NEW, tmp_path / "t.parquet"), tmp_path / "p.csv"
    honest = parts.write_table

    def interrupted(frame, path):
        if len(predicted) == 2:
            raise KeyboardInterrupt
        honest(frame, path)

    with monkeypatch.context() as patch:
        patch.setattr(parts, "write_table", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(model, data, out)
    assert not out.exists()
    assert "1 parts are kept" in capsys.readouterr().err
    run(model, data, out)
    assert predicted == [0, 10, 10, 20]
    assert "Continuing: 1 part of" in capsys.readouterr().err
    assert len(read(out)) == 25


@pytest.mark.parametrize("change", ["table", "quantiles"])
def test_parts_of_another_task_are_not_used(model, tmp_path, monkeypatch, predicted, change):
    data, out = write(NEW, tmp_path / "t.csv"), tmp_path / "p.csv"
    with monkeypatch.context() as patch:
        patch.setattr(parts, "_join", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(model, data, out)
    if change == "table":
        write(NEW + 1.0, data)
    run(model, data, out, wanted=[0.5] if change == "quantiles" else LEVELS)
    assert predicted == [0, 10, 20] * 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_bad_row_is_counted_from_the_beginning_of_the_table(model, tmp_path, jobs):
    frame = NEW.copy()
    frame.loc[13, "b"] = np.nan
    with pytest.raises(InputError, match="missing or infinite values in 'b', first in row 14 below the header"):
        run(model, write(frame, tmp_path / "t.parquet"), tmp_path / "p.csv", jobs)
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_table_that_ends_badly_is_an_error(model, tmp_path, jobs):
    data = write(NEW, tmp_path / "t.csv")
    with data.open("a") as file:
        file.write("1,2,3,4\n")
    with pytest.raises(InputError, match=r"t\.csv cannot be read after row 20"):
        run(model, data, tmp_path / "p.csv", jobs)


def test_one_process_at_a_time(model, tmp_path):
    folder = tmp_path / ".p.csv.parts"
    folder.mkdir()
    with alone_in(folder), pytest.raises(InputError, match="another process seems to be writing"):
        run(model, write(NEW, tmp_path / "t.csv"), tmp_path / "p.csv")


def test_the_command_takes_parts_for_large_tables(model, tmp_path, go, monkeypatch):
    write(NEW.assign(id=1), tmp_path / "t.csv")
    monkeypatch.setattr("sodgp.tables.pieces.is_large", lambda path: True)
    result = go("predict", model, "t.csv", "--out", "p.parquet", "--jobs", "1")
    assert "25 predictions written to p.parquet" in result.stderr
    assert result.stderr.count("column 'id' is no input") == 1
    assert len(read(tmp_path / "p.parquet")) == 25


@pytest.mark.parametrize("target", ["p.parquet", "p.csv"])
@pytest.mark.parametrize("wanted", [None, [0.5]])
def test_parts_of_a_classifier(tmp_path, target, wanted):
    X = pd.DataFrame(RNG.standard_normal((40, 2)), columns=["a", "b"])
    options = {"n_layers": 1, "max_iter": 3, "subset_size": 10, "n_predict_samples": 5, "random_state": 0}
    model = DeepGPClassifier(**options).fit(X, np.where(X["a"] > 0, "right", "left"))
    model.save(tmp_path / "m.sodgp")
    data, out = write(NEW, tmp_path / "t.parquet"), tmp_path / target
    rows, columns = run(tmp_path / "m.sodgp", data, out, wanted=wanted)
    found, whole = read(out), predictions(model, NEW, wanted)
    assert (rows, columns) == (25, list(whole))
    assert found["y_label"].tolist() == whole["y_label"].tolist()
    np.testing.assert_allclose(found.drop(columns="y_label"), whole.drop(columns="y_label"), rtol=1e-10)


def test_a_folder_whose_lock_is_a_file_keeps_the_file(model, tmp_path):
    folder = tmp_path / ".p.csv.parts"
    folder.mkdir()
    (folder / ".sodgp-lock").touch()
    (folder / "part-0000000.csv").write_text("of another task")
    run(model, write(NEW, tmp_path / "t.csv"), tmp_path / "p.csv")
    assert len(read(tmp_path / "p.csv")) == 25


# Columns that look otherwise in some parts than in the whole: codes among names, gaps, leading zeros.
MIXED = pd.DataFrame(
    {
        "a": [str(n) if n % 3 else "" for n in range(25)],
        "city": ["01", "02"] * 6 + ["Köln", "Bonn, west"] * 6 + ["01"],
        "is_new": ["True", "False"] * 5 + ["True", ""] * 7 + [""],
        "when": [f"2024-01-{n + 1:02d}" for n in range(25)],
        "id": [str(n) for n in range(12)] + ["x"] * 13,
        "note": [""] * 10 + ["two\nlines"] * 15,
    }
)


@pytest.fixture(scope="module")
def table_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    MIXED.to_csv(folder / "fit.csv", index=False)
    X = read_table(folder / "fit.csv")
    options = {"n_layers": 1, "max_iter": 3, "subset_size": 10, "n_predict_samples": 5, "random_state": 0}
    model = DeepGPRegressor(**options, columns={"id": "keep", "note": "drop"}).fit(X, np.arange(25.0))
    model.save(folder / "m.sodgp")
    return folder / "m.sodgp"


@pytest.mark.parametrize("source", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("target", ["p.csv", "p.parquet"])
def test_parts_of_a_table_of_all_kinds_are_the_whole(table_model, tmp_path, source, target):
    MIXED.to_csv(tmp_path / "t.csv", index=False)
    frame = read_table(tmp_path / "t.csv")
    if source == "t.parquet":
        frame.to_parquet(tmp_path / source, row_group_size=7)
    model = load_any(table_model)
    keep = ["id", "a", "city", "note"]
    whole = with_columns(model, frame, predictions(model, frame, LEVELS), keep, is_json=False)
    rows, columns = run(table_model, tmp_path / source, tmp_path / target, keep=keep)
    write_table(whole, tmp_path / f"whole-{target}")
    found, wanted = read(tmp_path / target), read(tmp_path / f"whole-{target}")
    assert (rows, columns) == (25, list(whole))
    pd.testing.assert_frame_equal(found, wanted, rtol=1e-10)


def test_columns_of_the_fit_are_kept_unless_others_are_named(table_model, tmp_path):
    data = write(MIXED, tmp_path / "t.csv")
    assert run(table_model, data, tmp_path / "p.csv", keep=None)[1][0] == "id"


def test_cells_that_cannot_be_read_are_counted_from_the_beginning_of_the_table(table_model, tmp_path):
    data = write(MIXED.assign(when=MIXED["when"].mask(MIXED.index == 17, "soon")), tmp_path / "t.csv")
    with pytest.raises(InputError, match="'when' holds 'soon' in row 18, not a date"):
        run(table_model, data, tmp_path / "p.csv")


def test_a_file_is_read_as_the_flags_say(model, tmp_path, capsys):
    text = "a;b\n" + "".join(f"{n},5;{n}\n" for n in range(25))
    (tmp_path / "t.csv").write_text(text)
    assert run(model, tmp_path / "t.csv", tmp_path / "p.csv")[0] == 25
    assert "a decimal comma" in capsys.readouterr().err
    (tmp_path / "t2.csv").write_text("a|b\n" + "".join(f"{n},5|{n}\n" for n in range(25)))
    reading = Reading(separator="|", decimal=",")
    run(model, tmp_path / "t2.csv", tmp_path / "p2.csv", reading=reading)
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "p2.csv").read_bytes()
