"""Model files of every format version: read, and predicting what they predicted when they were written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sodgp import DeepGPRegressor
from sodgp.errors import ModelFileError
from sodgp.estimator.files.records import load_any
from sodgp.estimator.options.fields import LIKELIHOODS, METHODS
from sodgp.system.container import FORMAT_VERSION, read_record, write_record

FIXTURES = Path(__file__).parents[2] / "fixtures"
VERSIONS = range(3, FORMAT_VERSION + 1)
EXPECTED = {v: json.loads((FIXTURES / f"model-v{v}-predictions.json").read_text(encoding="utf-8")) for v in VERSIONS}
FILES = [(version, name) for version in VERSIONS for name in EXPECTED[version]["files"]]


def test_every_version_has_a_file_of_every_method_and_likelihood():
    for version in VERSIONS:
        models = [load_any(FIXTURES / f"model-v{v}-{name}") for v, name in FILES if v == version]
        assert {model.inference_.name for model in models} == set(METHODS)
        assert {model.likelihood_.name for model in models} == {*LIKELIHOODS, "known_noise"}
        assert {model.n_layers for model in models if model.inference_.name == "dsvi"} == {1, 2}


@pytest.mark.parametrize(("version", "name"), FILES)
def test_a_file_predicts_what_it_always_did(version, name, tmp_path):
    stored = EXPECTED[version]["files"][name]
    model = load_any(FIXTURES / f"model-v{version}-{name}")
    rows = pd.DataFrame(EXPECTED[version]["rows"], columns=["temperature", "slope"])
    tolerance = 1e-4 if model.dtype == "float32" else 1e-8
    dist = model.predict_distribution(rows)
    mean, std = dist.mean, dist.std
    # Of a mean near zero the digits are those of the targets' spread.
    error = np.abs(mean - stored["mean"]) / (np.abs(stored["mean"]) + np.std(stored["mean"], axis=0))
    assert error.max() <= tolerance
    np.testing.assert_allclose(std, stored["std"], rtol=tolerance)
    assert model.history_.bound == stored["bound"]
    assert model.n_parameters_ == stored["n_parameters"]
    assert list(model.feature_names_in_) == ["temperature", "slope"]
    assert hasattr(model, "diagnostics_") == (model.objective_ == "posterior")
    # Saved again, it is of the present version.
    model.save(tmp_path / "again.sodgp")
    again = load_any(tmp_path / "again.sodgp")
    np.testing.assert_array_equal(again.predict_distribution(rows).mean, mean)
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


@pytest.mark.parametrize("version", [1, 2])
def test_files_from_before_the_first_release_are_refused(version, tmp_path, monkeypatch):
    record = read_record(FIXTURES / f"model-v{FORMAT_VERSION}-sod.sodgp")
    monkeypatch.setattr("sodgp.system.container.FORMAT_VERSION", version)
    for place in ("old.sodgp", "old"):
        write_record(tmp_path / place, record)
    monkeypatch.undo()
    for place in ("old.sodgp", "old"):
        with pytest.raises(ModelFileError, match=f"format version {version}, .*Fit the model again"):
            DeepGPRegressor.load(tmp_path / place)


def test_an_old_model_is_overwritten_like_any_other(tmp_path):
    for name in ("model-v3-sod.sodgp", "model-v3-sod-options"):
        source = FIXTURES / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
        DeepGPRegressor.load(tmp_path / name).save(tmp_path / name)
        assert DeepGPRegressor.load(tmp_path / name).n_iter_ == 60
