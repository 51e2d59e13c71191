"""Large tables: predicted in parts that equal the whole, in many processes, and continued after an interruption."""

import joblib
import numpy as np
import pandas as pd
import pytest

from sodgp import DeepGPRegressor
from sodgp.cli import parts
from sodgp.cli.parts import predict_in_parts
from sodgp.cli.predictions import predictions
from sodgp.errors import InputError
from sodgp.system.files import alone_in

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


def run(model, data, out, jobs=1, wanted=LEVELS):
    with joblib.parallel_config(backend="threading"):  # processes take seconds to start
        return predict_in_parts(DeepGPRegressor.load(model), model, data, out, wanted, jobs, rows=10)


@pytest.fixture
def predicted(monkeypatch):
    """First rows of the pieces that are predicted in this process."""
    starts, honest = [], parts._predict_part

    def noted(model, threads, piece, part, wanted):
        starts.append(piece.start)
        honest(model, threads, piece, part, wanted)

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
