"""``python -m benchmarks.calibration`` compares maps of levels, and goes on where it was."""

import json

import numpy as np
from benchmarks import calibration
from benchmarks.paper.splits import Split


def test_it_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    y = X[:, 0] + rng.normal(size=200)
    monkeypatch.setattr(calibration, "split_of", lambda *_: Split(X[:150], y[:150], X[150:], y[150:]))
    short = {"n_layers": 1, "max_iter": 3, "n_predict_samples": 3}
    model = calibration.DeepGPRegressor
    monkeypatch.setattr(calibration, "DeepGPRegressor", lambda **options: model(**options, **short))
    monkeypatch.setattr(
        calibration, "in_fresh_processes", lambda work, calls, **_: ((i, work(*c)) for i, c in enumerate(calls))
    )
    arguments = ["--data", "energy", "--out", str(tmp_path)]
    assert calibration.main([*arguments, "--splits", "1"]) == 0
    assert calibration.main([*arguments, "--splits", "2"]) == 0
    records = [json.loads((tmp_path / f"energy-{split}.json").read_text()) for split in (0, 1)]
    assert records[0]["apart"] == 30
    assert set(records[0]["scores"]) == set(calibration.MAPS)
    assert all(np.isfinite(list(each.values())).all() for each in records[0]["scores"].values())
    assert "| energy | 2 | 30 | 100 |" in capsys.readouterr().out
