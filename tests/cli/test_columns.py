"""Tables as people have them, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sodgp import DeepGPRegressor
from sodgp.cli.columns import kinds_of, marks_of
from sodgp.errors import ConfigurationError

QUICK = ["--max-iter", "2", "--subset-size", "8", "--layers", "1"]
N = 40


@pytest.fixture
def shop(tmp_path):
    """A German table: semicolons, decimal commas, Latin-1, gaps, dates, rows without a target."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "Nr": np.arange(1, N + 1),
            "Größe": [f"{v:.2f}".replace(".", ",") for v in rng.normal(size=N)],
            "Ort": rng.choice(["Köln", "Bonn", "Ulm"], N),
            "Tag": [f"{1 + i % 28:02}.{1 + i % 12:02}.2020" for i in range(N)],
            "neu": rng.choice(["ja", "nein"], N),
            "Menge": np.where(np.arange(N) % 7 == 3, -9, rng.integers(1, 5, N)),
            "Preis": [f"{v:.1f}".replace(".", ",") for v in 10 + rng.normal(size=N)],
        }
    )
    frame.loc[[4, 9], "Preis"] = "k.A."
    frame.loc[[5, 6], "Größe"] = "?"
    frame.to_csv(tmp_path / "shop.csv", sep=";", index=False, encoding="latin-1")
    return frame


def test_a_table_as_it_is(go, shop):
    said = go("fit", "shop.csv", "--target", "Preis", "--missing", "k.A.,-9", "--keep", "Nr", "--out", "m", *QUICK)
    note = "Note: shop.csv: columns separated by a semicolon; a decimal comma; encoding cp1252."
    assert said.stderr.splitlines()[:2] == [note, "Note: shop.csv: 2 rows without a target are left out."]
    for line in (
        "Nr: left out: kept for the predictions",
        "Größe: number with a decimal comma; 2 missing: median",
        "Ort: category of 3 levels: Bonn, Köln, Ulm",
        "Tag: date (read as %d.%m.%Y): days since 2020-01-01",
        "neu: category of 2 levels: ja, nein",
        "Menge: number; 6 missing: median",
    ):
        assert line in said.stdout
    assert "rows        38" in said.stdout
    assert go("info", "m").stdout.splitlines()[2] in said.stdout
    about = json.loads(go("info", "m", "--json").stdout)
    assert about["inputs"] == ["Größe", "Ort", "Tag", "neu", "Menge"]
    assert about["columns"]["Nr"].startswith("left out")


def test_predictions_carry_columns_along(go, shop):
    go("fit", "shop.csv", "--target", "Preis", "--missing", "k.A.", "--keep", "Nr", "--out", "m", "--quiet", *QUICK)
    common = ("predict", "m", "shop.csv", "--quantiles", "")
    go(*common, "--out", "p.csv")
    found = pd.read_csv("p.csv")
    assert list(found) == ["Nr", "Preis_mean", "Preis_std"]
    assert found["Nr"].tolist() == shop["Nr"].tolist()
    go(*common, "--out", "p.csv", "--keep", "Ort", "--keep", "Tag")
    assert list(pd.read_csv("p.csv")) == ["Ort", "Tag", "Preis_mean", "Preis_std"]
    assert go(*common, "--keep", "none").stdout.startswith("Preis_mean,Preis_std\n")
    assert list(json.loads(go(*common, "--json").stdout)["predictions"]) == ["Nr", "Preis_mean", "Preis_std"]
    assert "--keep names 'Datum', which the table has not" in go(*common, "--keep", "Datum", code=2).stderr
    shop.assign(Preis_mean=1).to_csv("twice.csv", index=False)
    said = go("predict", "m", "twice.csv", "--keep", "Preis_mean", code=2).stderr
    assert "columns with the names of predictions, 'Preis_mean'" in said


def test_json_holds_every_cell(go, table):
    table.assign(when=pd.Timestamp("2020-01-01"), gap=None).to_parquet("t.parquet")
    go("fit", "t.parquet", "--target", "y", "--out", "m", "--quiet", *QUICK)
    keep = ["--keep", "when", "--keep", "gap"]
    found = json.loads(go("predict", "m", "t.parquet", "--json", *keep).stdout)["predictions"]
    assert found["when"][0] == "2020-01-01 00:00:00"
    assert found["gap"][0] is None


def test_evaluate_and_report_read_as_fit_did(go, shop):
    go("fit", "shop.csv", "--target", "Preis", "--missing", "k.A.", "--out", "m", "--quiet", *QUICK)
    found = go("evaluate", "m", "shop.csv", "--json", "--bootstrap", "0")
    assert json.loads(found.stdout)["rows"] == 38
    assert "2 rows without a target are left out" in found.stderr
    new = shop.assign(Ort="Rom")
    new.to_csv("new.csv", sep=";", index=False)
    said = go("report", "m", "new.csv", "--out", "r.html").stderr
    assert said.count("'Ort' has levels that training had not ('Rom') in 38 rows") == 1
    page = Path("r.html").read_text(encoding="utf-8")
    assert "category of 3 levels: Bonn, Köln, Ulm" in page
    assert "Columns of the table" in page
    go("report", "m", "shop.csv", "--cv", "2", "--out", "cv.html")
    assert (
        "lacks input columns of the model: 'Größe'" in go("evaluate", "m", "data.csv", "--target", "z", code=1).stderr
    )


@pytest.fixture(autouse=True)
def _other_table(table):
    """Beside the shop's table there is one of numbers."""


def test_what_a_file_is_can_be_said(go, tmp_path, table):
    (tmp_path / "odd.txt.csv").write_bytes("a#y\n1,5#1,234\n2,5#2,345\n3,5#4,5\n1,25#2\n".encode("cp437"))
    options = ["--separator", "#", "--decimal", ",", "--encoding", "cp437"]
    go(
        "fit",
        "odd.txt.csv",
        "--target",
        "y",
        "--out",
        "m",
        "--quiet",
        *options,
        "--max-iter",
        "2",
        "--subset-size",
        "2",
    )
    lines = go("predict", "m", "odd.txt.csv", *options, "--quantiles", "").stdout.splitlines()
    assert lines[1].startswith("1.5,1.234,")
    (tmp_path / "fit.toml").write_text(
        'data = "data.csv"\ntarget = "y"\nout = "n"\nmissing = ["?"]\nkeep = "b"\nseparator = ","\ndecimal = "."\n'
        'encoding = "utf-8"\n[columns]\na = "number"\nz = ["1", "2"]\n'
    )
    said = go("fit", "--config", "fit.toml", *QUICK, code=1).stderr
    assert "not one of 1, 2" in said
    go("fit", "--config", "fit.toml", "--columns", "z:drop,a:number", *QUICK)
    assert DeepGPRegressor.load("n").columns_ == {
        "a": "number",
        "b": "left out: kept for the predictions",
        "z": "left out: as asked",
    }
    (tmp_path / "bad.toml").write_text("[columns]\na = 3\n")
    assert "columns must be a table of names and kinds" in go("fit", "--config", "bad.toml", code=2).stderr


@pytest.mark.parametrize(
    ("texts", "kinds"),
    [
        (["a:drop"], {"a": "drop"}),
        (["a:drop, b c:category", "d:date,"], {"a": "drop", "b c": "category", "d": "date"}),
        (["x:y:number"], {"x:y": "number"}),
        (["s: S < M<L"], {"s": ("S", "M", "L")}),
        ([], {}),
    ],
)
def test_kinds_of_columns(texts, kinds):
    assert kinds_of(texts) == kinds


@pytest.mark.parametrize("text", ["a", ":drop", "a:", "a:drop,a:date"])
def test_kinds_that_cannot_be_read(text):
    with pytest.raises(ConfigurationError, match="--columns"):
        kinds_of([text])


def test_marks():
    assert marks_of("?, -,N/A") == ("?", "-", "N/A")
    assert marks_of(["a,b", " "]) == ("a,b",)
    assert marks_of(None) == ()
