"""Names from files of strangers do not drive the terminal: control characters are printed as escapes."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from cli_runner import run

from sodgp import DeepGPClassifier, DeepGPRegressor
from sodgp.errors import InputError, NumericalWarning, printable

CLEAR, TITLE = "\x1b[2J\x1b[H", "\x1b]0;owned\x07"
# Clears the screen; sets the title; CSI as one character; rubs out; turns the direction; forges a line.
NAMES = [f"a{CLEAR}", f"b{TITLE}", "c\x9b31m", "d\x7f\x08", "e\u202egnp", "f\nsaved to   /etc"]
TARGET = f"y{CLEAR}"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
ROWS = np.random.default_rng(0).normal(size=(20, len(NAMES)))
FRAME = pd.DataFrame(ROWS, columns=NAMES)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("model") / "m.sodgp"
    fitted = DeepGPRegressor(n_layers=1, max_iter=2, subset_size=5, n_predict_samples=2, random_state=0)
    fitted.fit(FRAME, pd.Series(ROWS[:, 0], name=TARGET)).save(place)
    return place


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data.parquet"
    FRAME.assign(**{TARGET: ROWS[:, 0], f"more{CLEAR}": 1.0}).to_parquet(path)
    return path


def assert_harmless(*texts):
    for text in texts:
        assert not CONTROL.search(text), CONTROL.search(text)


def test_info(model):
    result = run("info", model)
    assert_harmless(result.stdout, result.stderr)
    assert "a\\u001b[2J\\u001b[H" in result.stdout
    assert not re.search("^saved to", result.stdout, re.MULTILINE)


def test_json_says_the_names_as_they_are(model):
    result = run("info", model, "--json")
    assert_harmless(result.stdout)
    assert json.loads(result.stdout)["inputs"] == NAMES
    assert json.loads(result.stdout)["targets"] == [TARGET]


def test_evaluate_and_predict(model, table, tmp_path):
    scores = run("evaluate", model, table, "--bootstrap", "0")
    assert scores.exit_code == 0, scores.stderr
    assert "y\\u001b[2J" in scores.stdout
    predictions = run("predict", model, table, "--out", tmp_path / "p.csv")
    assert "more\\" in predictions.stderr
    assert_harmless(scores.stdout, scores.stderr, predictions.stdout, predictions.stderr)


def test_labels_of_classes(tmp_path):
    labels = [f"yes{CLEAR}", "no\u202e"] * 10
    model = DeepGPClassifier(n_layers=1, max_iter=2, subset_size=5, n_predict_samples=2, random_state=0)
    model.fit(FRAME, pd.Series(labels, name=TARGET)).save(tmp_path / "m.sodgp")
    FRAME.assign(**{TARGET: labels}).to_parquet(tmp_path / "data.parquet")
    for arguments in (["info"], ["info", "--json"], ["evaluate", tmp_path / "data.parquet", "--bootstrap", "0"]):
        result = run(arguments[0], tmp_path / "m.sodgp", *arguments[1:])
        assert result.exit_code == 0, result.stderr
        assert_harmless(result.stdout, result.stderr)


def test_fit_and_its_errors(table, tmp_path):
    fitted = run("fit", table, "--target", TARGET, "--out", tmp_path / "m.sodgp", "--max-iter", "2", "--layers", "1")
    assert fitted.exit_code == 0, fitted.stderr
    FRAME.assign(**{TARGET: ROWS[:, 0], f"text{CLEAR}": "red"}).to_parquet(table)
    numbers = f"text{CLEAR}:number"
    refused = run("fit", table, "--target", TARGET, "--out", tmp_path / "n.sodgp", "--columns", numbers)
    unknown = run("fit", table, "--target", f"no{TITLE}", "--out", tmp_path / "n.sodgp")
    assert refused.exit_code == unknown.exit_code == 1
    assert_harmless(*(text for each in (fitted, refused, unknown) for text in (each.stdout, each.stderr)))


def test_messages_of_the_library():
    with pytest.raises(InputError, match=r"columns a\\u001b\[2J") as caught:
        DeepGPRegressor().fit(FRAME.assign(**{NAMES[0]: np.inf}), ROWS[:, 0])
    assert_harmless(str(caught.value))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn(f"column {NAMES[1]}", NumericalWarning, stacklevel=1)
    assert_harmless(warnings.formatwarning(seen[0].message, seen[0].category, "file", 1))


def test_text_that_is_harmless_stays_as_it_is():
    text = "Größe \u00b5m \u6e29\u5ea6 \U0001f600 a\tb\nc \\x1b"
    assert printable(text) == text
    assert printable("\ud800").encode() == b"\\ud800"
