"""Tables that the commands read and write."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from sodgp import DeepGPRegressor
from sodgp.cli.tables import refuse_unusable
from sodgp.errors import InputError

QUICK = ["--max-iter", "3", "--subset-size", "10"]


@pytest.mark.parametrize("suffix", [".parquet", ".tsv", ".csv.gz"])
def test_two_targets_and_other_tables(go, table, suffix):
    table.to_parquet("data.parquet")
    go("fit", "data.parquet", "--target", "y", "--target", "z", "--out", "m.sodgp", "--quiet", *QUICK)
    go("predict", "m.sodgp", "data.csv", "--out", f"p{suffix}", "--quantiles", "0.1,0.9")
    found = (
        pd.read_parquet("p.parquet") if suffix == ".parquet" else pd.read_csv(f"p{suffix}", sep=None, engine="python")
    )
    assert list(found)[:4] == ["a", "b", "y", "z"]
    assert list(found)[4:] == [f"{target}_{name}" for target in "yz" for name in ("mean", "std", "q0.1", "q0.9")]
    assert len(found) == 30


def test_dropped_columns_play_no_part(go, table, tmp_path):
    table.assign(id="x", when="2020-01-01").to_csv("more.csv", index=False)
    go("fit", "more.csv", "--target", "y", "--drop", "id", "--drop", "when", "--drop", "id", "--out", "m", *QUICK)
    assert DeepGPRegressor.load("m").feature_names_in_.tolist() == ["a", "b", "z"]
    assert "column 'id' is no input of the model; ignored" in go("predict", "m", "more.csv", "--json").stderr
    go("evaluate", "m", "more.csv")
    (tmp_path / "fit.toml").write_text('data = "more.csv"\ntarget = "y"\ndrop = ["id", "when", "z"]\nout = "n"\n')
    go("fit", "--config", "fit.toml", *QUICK)
    assert DeepGPRegressor.load("n").feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "holds text instead of numbers, such as '2020-01-01 00:00:00'"),
        (pd.Categorical(["u", "v"]), "such as 'u' in row 1"),
        ([[1.0], [2.0]], "such as '[1.0]' in row 1"),
        (["7", "8"], "'a' holds numbers stored as text. Store them as numbers."),
        ([None, None], "missing or infinite values in 'a'"),
        (["1,000", "1,001"], "Commas may stand for thousands or decimals: write plain numbers, 1234.5."),
        (["1,5", "2,25"], "It looks like a decimal comma"),
        (["v" * 100, "8"], "'vvvvvvvvvvvvvvvvvvvvvvvvvvvvv…'"),
    ],
)
def test_other_columns_that_are_no_numbers(cells, message):
    with pytest.raises(InputError, match=re.escape(message)):
        refuse_unusable(pd.DataFrame({"a": cells}, index=[5, 6]), Path("t.parquet"))


def test_a_model_without_names_takes_columns_by_order(go, table):
    DeepGPRegressor(max_iter=2).fit(table[["a", "b"]].to_numpy(), table["y"]).save("m")
    table[["a", "b"]].to_csv("new.csv", index=False)
    go("predict", "m", "new.csv", "--out", "p.csv", "--quantiles", "")
    assert list(pd.read_csv("p.csv")) == ["a", "b", "y_mean", "y_std"]
    assert "takes 2 inputs" in go("predict", "m", "data.csv", "--out", "p.csv", code=1).stderr


def test_names_of_quantiles_are_as_different_as_their_levels(go, table):
    go("fit", "data.csv", "--target", "y", "--out", "m", "--quiet", *QUICK)
    levels = "0.1,0.9999999,0.99999991"
    printed = json.loads(go("predict", "m", "data.csv", "--json", "--quantiles", levels).stdout)
    assert list(printed["predictions"]) == ["y_mean", "y_std", "y_q0.1", "y_q0.9999999", "y_q0.99999991"]
