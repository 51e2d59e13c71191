"""Splits and comparisons on the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

N = 48
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "patient": [f"p{i % 8}" for i in range(N)],
        "when": pd.date_range("2020-01-01", periods=N).strftime("%d.%m.%Y")[RNG.permutation(N)],
        "dose": RNG.normal(size=N),
    }
)
TABLE["y"] = TABLE["dose"] + 0.1 * RNG.normal(size=N)
TABLE.loc[5, "y"] = np.nan
QUICK = ("--max-iter", "5", "--subset-size", "8", "--layers", "1", "--quiet")


@pytest.fixture
def fitted(go):
    TABLE.to_csv("t.csv", index=False)
    go("fit", "t.csv", "--target", "y", "--drop", "patient", *QUICK, "--out", "m")
    return "m"


def test_evaluate_warns_of_training_rows_and_cross_validates(go, fitted):
    seen = go("evaluate", fitted, "t.csv", "--bootstrap", "0")
    assert "Warning: 47 of the 47 training rows that the model keeps are in t.csv" in seen.stderr
    found = json.loads(go("evaluate", fitted, "t.csv", "--cv", "3", "--group", "patient", "--json").stdout)
    assert (found["rows"], found["folds"], found["training_rows"]) == (47, 3, 0)


def test_reports_in_order_of_time_and_with_a_training_table(go, fitted, tmp_path):
    result = go("report", fitted, "t.csv", "--cv", "3", "--time", "when", "--out", "r.html")
    assert "Report on 33 rows" in result.stderr
    assert "3 folds in order of when" in (tmp_path / "r.html").read_text(encoding="utf-8")
    TABLE[:20].to_csv("new.csv", index=False)
    go("report", fitted, "new.csv", "--train", "t.csv", "--out", "r.html")
    assert "boosting" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_table_alone_is_fitted_first(go, monkeypatch, tmp_path):
    from sodgp import DeepGPClassifier

    honest = DeepGPClassifier.__init__
    few = {"max_iter": 3, "subset_size": 8, "n_layers": 1}
    monkeypatch.setattr("sodgp.cli.judge.estimator_for", lambda task, options: DeepGPClassifier(**options, **few))
    assert honest is DeepGPClassifier.__init__
    TABLE.assign(y=np.where(TABLE["dose"] > 0, "high", "low")).to_csv("t.csv", index=False)
    go("report", "t.csv", "--target", "y", "--cv", "2", "--drop", "when", "--group", "patient", "--out", "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "groups in one fold" in page
    assert "Brier score" in page


def test_compare_prints_one_table(go, monkeypatch):
    from sodgp import DeepGPRegressor

    few = {"max_iter": 3, "subset_size": 8}
    monkeypatch.setattr("sodgp.cli.judge.estimator_for", lambda task, options: DeepGPRegressor(**options, **few))
    TABLE.to_csv("t.csv", index=False)
    shown = go("compare", "t.csv", "--target", "y", "--drop", "patient", "--cv", "2")
    for name in ("one layer", "default", "linear", "boosting", "without inputs", "seconds", "NLPP"):
        assert name in shown.stdout
    assert "…" not in shown.stdout
    found = json.loads(go("compare", "t.csv", "--target", "y", "--group", "patient", "--cv", "2", "--json").stdout)
    assert found["models"]["linear"]["targets"]["y"]["rmse"]["value"] < 0.3
    assert found["task"] == "regression"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("report", "t.csv"), 2, "needs a model and a table, or a table with --target and --cv"),
        (("report", "m", "t.csv", "--group", "patient"), 2, "give --cv 5, too"),
        (("report", "m", "t.csv", "--cv", "2", "--group", "a", "--time", "b"), 2, "choose one of the two"),
        (("report", "m", "t.csv", "--cv", "2", "--train", "t.csv"), 2, "--train is for held-out rows"),
        (("report", "m", "t.csv", "--drop", "a"), 2, "the model knows its own"),
        (("evaluate", "m", "t.csv", "--cv", "2", "--group", "nowhere"), 2, "no column 'nowhere'"),
        (("evaluate", "m", "t.csv", "--cv", "2", "--time", "patient"), 1, "neither numbers nor dates"),
        (("evaluate", "m", "t.csv", "--cv", "30", "--time", "when"), 2, "needs at least 62 rows"),
        (("compare", "t.csv"), 2, "sodgp compare needs --target"),
    ],
)
def test_what_makes_no_sense(go, fitted, arguments, code, words):
    assert words in " ".join(go(*arguments, code=code).stderr.split())
