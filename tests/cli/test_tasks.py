"""Classes and counts on the command line, from a table to predictions."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from sodgp import DeepGPClassifier, DeepGPRegressor
from sodgp.cli.tasks import task_of
from sodgp.errors import ConfigurationError

QUICK = ["--n-layers", "1", "--max-iter", "10", "--subset-size", "10", "--out", "m"]


@pytest.mark.parametrize(
    ("values", "likelihood", "said", "task"),
    [
        (["a", "b", "c"] * 5, None, None, "classification"),
        ([True, False, True], None, None, "classification"),
        ([0, 1, 1, 0], None, None, "classification"),
        ([0.0, 1.0, 2.0], None, None, "regression"),
        ([0, 1, 1, 0], None, "regression", "regression"),
        ([0, 1, 2, 0], None, "classification", "classification"),
        ([0, 1, 2, 0], None, "counts", "counts"),
        ([0, 1, 2, 0], "poisson", None, "counts"),
        ([0, 1, 2, 0], "softmax", None, "classification"),
        ([0, 1, 1, 0], "gaussian", None, "regression"),
        # Mistakes in a column of numbers are no classes.
        ([1.0, 2.0, 3.0, 4.0, "?"], None, None, "regression"),
        (["1,5", "2,5", "3,5"], None, None, "regression"),
    ],
)
def test_what_a_target_is_taken_for(values, likelihood, said, task, capsys):
    assert task_of(pd.DataFrame({"y": values}), likelihood, said) == task
    told = capsys.readouterr().err
    assert ("this is a classification" in told) == (task == "classification" and likelihood is None and said is None)
    assert ("--task regression takes them as numbers" in told) == ("Note" in told and "a" not in values)


def test_several_targets_are_numbers_and_contradictions_are_refused():
    frame = pd.DataFrame({"y": [0, 1], "z": [1, 0]})
    assert task_of(frame, None, None) == "regression"
    with pytest.raises(ConfigurationError, match="--task counts does not go with --likelihood gaussian"):
        task_of(frame, "gaussian", "counts")


def test_classes(go, table, tmp_path):
    table["kind"] = np.where(table["a"] > 0, "high", "low")
    table[["a", "b", "kind"]].to_csv("kinds.csv", index=False)
    fit = go("fit", "kinds.csv", "--target", "kind", *QUICK)
    assert "Note: 'kind' has 2 classes, 'high', 'low': this is a classification." in fit.stderr
    assert "classes     2 (high, low)" in fit.stdout
    assert "noise std" not in fit.stdout
    model = DeepGPClassifier.load("m")
    go("predict", "m", "kinds.csv", "--out", "p.csv", "--quantiles", "0.1,0.9")
    found = pd.read_csv("p.csv")
    ends = [f"p_{k}{end}" for k in ("high", "low") for end in ("", "_q0.1", "_q0.9")]
    assert list(found) == ["a", "b", "kind", *(f"kind_{name}" for name in ("label", *ends))]
    np.testing.assert_allclose(found[["kind_p_high", "kind_p_low"]], model.predict_proba(table[["a", "b"]]))
    assert found["kind_label"].tolist() == model.predict(table[["a", "b"]]).tolist()
    go("predict", "m", "kinds.csv", "--out", "p.csv", "--keep", "none")
    assert list(pd.read_csv("p.csv")) == ["kind_label", "kind_p_high", "kind_p_low"]
    scores = json.loads(go("evaluate", "m", "kinds.csv", "--json", "--bootstrap", "20").stdout)["targets"]["kind"]
    assert scores["accuracy"]["value"] == model.score(table[["a", "b"]], table["kind"])
    assert "calibration error" in go("evaluate", "m", "kinds.csv", "--bootstrap", "0").stdout
    assert json.loads(go("info", "m", "--json").stdout)["classes"] == ["high", "low"]
    go("report", "m", "kinds.csv", "--out", "r.html")
    assert "Brier score" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_labels_that_are_missing(go, table):
    kind = np.where(table.index % 2, "a", "b")
    table.assign(kind=np.where(table.index < 4, "?", kind)).to_csv("gaps.csv", index=False)
    said = go("fit", "gaps.csv", "--target", "kind", *QUICK)
    assert "gaps.csv: 4 rows without a target are left out" in said.stderr
    assert "classes     2 (a, b)" in said.stdout
    assert "rows        26" in said.stdout
    said = go("fit", "data.csv", "--target", "y", "--target", "z", "--task", "classification", *QUICK, code=2).stderr
    assert "one target" in said


def test_counts_and_a_config_file(go, table, tmp_path):
    table.assign(n=np.random.default_rng(0).poisson(3.0, size=30)).drop(columns="z").to_csv("n.csv", index=False)
    (tmp_path / "fit.toml").write_text('task = "counts"\ndata = "n.csv"\ntarget = "n"\n')
    out = go("fit", "--config", "fit.toml", *QUICK).stdout
    assert "negative_binomial" in out
    assert "outliers" not in out
    model = DeepGPRegressor.load("m")
    go("predict", "m", "n.csv", "--out", "p.csv")
    found = pd.read_csv("p.csv")
    assert list(found)[-5:] == ["n_mean", "n_std", "n_q0.05", "n_q0.5", "n_q0.95"]
    np.testing.assert_allclose(found["n_mean"], model.predict(table[["a", "b", "y"]]))
    assert (found["n_q0.95"] % 1 == 0).all()
    (tmp_path / "bad.toml").write_text('task = "guess"\n')
    assert "task must be regression, classification or counts" in go("fit", "--config", "bad.toml", code=2).stderr
