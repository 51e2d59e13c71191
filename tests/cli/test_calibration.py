"""``sodgp calibrate``."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from sodgp import DeepGPRegressor


def test_a_saved_model_is_calibrated(go):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90)})
    frame["y"] = frame["a"] + rng.normal(size=90)
    frame[:30].to_csv("train.csv", index=False)
    frame[30:].to_csv("apart.csv", index=False)
    go("fit", "train.csv", "--target", "y", "--out", "model/", "--max-iter", "3", "--quiet")
    said = go("calibrate", "model/", "apart.csv", "--out", "other/").stderr
    assert "y: 90 % intervals held" in said
    assert "Saved to other" in said
    assert not hasattr(DeepGPRegressor.load("model"), "calibration_")
    assert DeepGPRegressor.load("other").calibration_.n_rows == 60
    assert "on 60 rows; 90 % intervals of y held" in go("info", "other").stdout
    found = json.loads(go("calibrate", "model/", "apart.csv", "--json").stdout)
    assert found["calibration"]["rows"] == 60
    assert DeepGPRegressor.load("model").calibration_.n_rows == 60
    assert "was trained on rows" in go("calibrate", "model/", "train.csv", code=1).stderr
    assert "does not exist" in go("calibrate", "nowhere/", "train.csv", code=1).stderr


def test_classes(go):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90)})
    frame["kind"] = np.where(frame["a"] + rng.normal(size=90) > 0, "up", "down")
    frame[:30].to_csv("train.csv", index=False)
    frame[30:].to_csv("apart.csv", index=False)
    go("fit", "train.csv", "--target", "kind", "--out", "m.sodgp", "--max-iter", "3", "--quiet")
    assert "to the power" in go("calibrate", "m.sodgp", "apart.csv").stderr
    assert "probabilities to the power" in go("info", "m.sodgp").stdout
