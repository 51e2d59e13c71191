"""``sodgp fit --stream``: the rows stay on the disk, and nothing else changes."""

import json

import numpy as np
import pandas as pd
import pytest

from sodgp import DeepGPRegressor
from sodgp.cli import rows
from sodgp.cli.columns import Reading

FEW = ("--max-iter", 5, "--subset-size", 8, "--batch-size", 30, "--n-layers", 1, "--quiet")
FEW = (*FEW, "--objective", "predictive")


@pytest.fixture
def big(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "city": rng.choice(["Rome", "Oslo", "Bonn"], 300)})
    frame["y"] = 5 + frame["a"] + (frame["city"] == "Rome")
    frame.loc[[3, 250], "y"] = np.nan
    (tmp_path / "parts").mkdir()
    for number in range(3):
        frame[100 * number : 100 * number + 100].to_parquet(tmp_path / "parts" / f"{number}.parquet")
    frame.to_csv(tmp_path / "big.csv", index=False)
    return frame


def test_files_are_streamed_as_they_would_be_read(go, big, tmp_path):
    go("fit", "parts/*.parquet", "--target", "y", "--out", "one.sodgp", *FEW, "--stream", "--cache", "cache")
    told = go("fit", "parts", "--target", "y", "--out", "two.sodgp", *FEW)
    assert "Note: parts" in told.stderr
    assert "2 rows without a target are left out." in told.stderr
    go("fit", "big.csv", "--target", "y", "--out", "text.sodgp", *FEW, "--stream")
    one, two, text = (DeepGPRegressor.load(tmp_path / f"{name}.sodgp") for name in ("one", "two", "text"))
    assert one.fitted_.n_rows == 298
    assert one.columns_["city"].startswith("category of 3 levels")
    new = big[["a", "city"]]
    assert (one.predict(new) == two.predict(new)).all()
    np.testing.assert_allclose(text.predict(new), one.predict(new), atol=1.0)
    go("predict", "one.sodgp", "big.csv", "--out", "p.csv")
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_config_file_may_say_it(go, big, tmp_path):
    (tmp_path / "fit.toml").write_text(
        'data = "big.csv"\ntarget = "y"\nout = "m.sodgp"\nstream = true\ncache = "kept"\nmax_iter = 3\nn_layers = 1\n'
        "subset_size = 5\nverbose = false\n"
    )
    go("fit", "--config", "fit.toml")
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert json.loads(go("info", "m.sodgp", "--json").stdout)["rows"] == 298


def test_the_task_is_seen_in_all_rows(go, big, tmp_path):
    frame = big.dropna().assign(y=np.where(big.dropna()["a"] > 0, "up", "down")).sort_values("y")
    frame.to_parquet(tmp_path / "c.parquet")
    told = go("fit", "c.parquet", "--target", "y", "--out", "c.sodgp", *FEW[:-2], "--stream")
    assert "'y' has 2 classes, 'down', 'up': this is a classification" in told.stderr
    assert "bernoulli" in go("info", "c.sodgp").output
    message = go("fit", "c.parquet", "--target", "y", "--out", "d.sodgp", "--stream", "--task", "regression", code=1)
    assert "the target 'y' holds text" in message.stderr


def test_large_tables_are_streamed_unasked(big, tmp_path, monkeypatch, capsys):
    from sodgp.system import memory

    said = {"data": str(tmp_path / "parts" / "0.parquet"), "target": ["y"]}
    assert not rows._streams(tmp_path / "parts" / "0.parquet", said)
    monkeypatch.setattr(memory, "available_memory", lambda: 5000)
    assert rows._streams(tmp_path / "parts" / "0.parquet", said)
    assert "its rows are read from the disk as they are needed" in capsys.readouterr().err
    assert not rows._streams(tmp_path / "parts" / "0.parquet", {**said, "stream": False})
    assert rows._streams(tmp_path / "parts" / "0.parquet", {**said, "cache": "folder"})
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert not rows._streams(tmp_path / "parts" / "0.parquet", said)
    X, y, task, _ = rows.rows_of_fit({**said, "stream": True}, Reading(), None)
    assert (y, task) == (None, "regression")
    assert sum(map(len, X.batches())) == 99
    assert X.state()["task"] == "regression"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("big.csv", "--target", "y", "--no-stream", "--cache", "c"), 2, "--cache keeps rows of --stream"),
        (("none-*.parquet", "--target", "y", "--stream"), 1, "no such file, nor one that fits this pattern"),
        (("parts", "--target", "z", "--stream"), 1, "lacks the columns 'z'"),
        (("parts", "--target", "y", "--target", "a", "--stream", "--task", "classification"), 2, "has one target"),
        (("parts", "--target", "y", "--stream", "--inference", "mean_field"), 2, "needs all rows in every step"),
    ],
)
def test_what_cannot_be_streamed_is_told(go, big, arguments, code, message):
    found = go("fit", *arguments, "--out", "m.sodgp", code=code)
    assert message in " ".join(found.stderr.split())
