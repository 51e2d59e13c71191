"""Scores of `sodgp evaluate`, as a table and as JSON."""

from __future__ import annotations

import json
import re

import pytest

from sodgp import DeepGPRegressor

QUICK = ["--max-iter", "3", "--subset-size", "10"]


def test_evaluate(go, table):
    go("fit", "data.csv", "--target", "z", "--target", "y", "--out", "m", "--quiet", *QUICK)
    text = go("evaluate", "m", "data.csv").stdout
    for word in ("y: 30 rows", "z: 30 rows", "NLPP", "RMSE", "90 % coverage", "95 % interval", " to "):
        assert word in text
    # The model's order of targets counts, whatever the order of the flags.
    found = json.loads(go("evaluate", "m", "data.csv", "--json", "--target", "y", "--target", "z").stdout)
    assert list(found["targets"]) == ["z", "y"]
    model = DeepGPRegressor.load("m")
    dist = model.predict_distribution(table[["a", "b"]])
    nlpp = -dist.log_prob(table[["z", "y"]].to_numpy()).mean(0)
    for column, name in enumerate(("z", "y")):
        score = found["targets"][name]["nlpp"]
        assert score["value"] == pytest.approx(nlpp[column])
        assert score["low"] < score["value"] < score["high"]
    alone = json.loads(go("evaluate", "m", "data.csv", "--json", "--bootstrap", "0").stdout)
    assert alone["targets"]["y"]["nlpp"] == {"value": found["targets"]["y"]["nlpp"]["value"]}


def test_one_row_has_no_intervals(go, table):
    go("fit", "data.csv", "--target", "y", "--out", "m", "--quiet", *QUICK)
    table[:1].to_csv("one.csv", index=False)
    text = go("evaluate", "m", "one.csv").stdout
    assert "y: 1 row\n" in re.sub(" +\n", "\n", text)
    assert "nan" not in text
    score = json.loads(go("evaluate", "m", "one.csv", "--json").stdout)["targets"]["y"]["rmse"]
    assert score == {"value": score["value"], "low": None, "high": None}
    assert "Report on 1 row written" in go("report", "m", "one.csv").stderr


@pytest.mark.parametrize("bootstrap", [0, 100])
def test_a_score_that_does_not_exist_is_a_dash_and_null(go, table, bootstrap):
    go("fit", "data.csv", "--target", "y", "--out", "m", "--quiet", *QUICK)
    table[:1].assign(y=table["y"].mean()).to_csv("one.csv", index=False)
    text = go("evaluate", "m", "one.csv", "--bootstrap", bootstrap).stdout
    assert "nan" not in text
    assert "inf" not in text
    scores = json.loads(go("evaluate", "m", "one.csv", "--json", "--bootstrap", bootstrap).stdout)["targets"]["y"]
    assert scores["r2"]["value"] is None
    assert scores["rmse"]["value"] >= 0


def test_evaluate_needs_the_target(go, table):
    go("fit", "data.csv", "--target", "y", "--out", "m", "--quiet", *QUICK)
    table.drop(columns="y").to_csv("new.csv", index=False)
    assert "no column 'y'" in go("evaluate", "m", "new.csv", code=1).stderr
    table.rename(columns={"y": "truth"}).to_csv("new.csv", index=False)
    assert "truth: 30 rows" in go("evaluate", "m", "new.csv", "--target", "truth").stdout
    for command in ("evaluate", "report"):
        wrong = go(command, "m", "data.csv", "--target", "a", code=2).stderr
        assert wrong == "Error: 'a' is an input of the model; name the column of its target.\n"
    assert "names 2" in go("evaluate", "m", "data.csv", "--target", "y", "--target", "z", code=2).stderr
    DeepGPRegressor(max_iter=1).fit(table[["a", "b", "z"]], table["y"].to_numpy()).save("nameless")
    assert "say it with --target" in go("evaluate", "nameless", "data.csv", code=2).stderr
