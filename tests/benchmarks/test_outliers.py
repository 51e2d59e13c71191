"""``python -m benchmarks.outliers`` runs what is missing, and says what it found."""

import json

import numpy as np
from benchmarks import outliers

from sodgp.data import DataSet


def test_it_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    table = DataSet("energy", X, X[:, 0] + 0.1 * rng.normal(size=60), ("a", "b"), "y")
    monkeypatch.setattr(outliers, "load", lambda name: table)
    fits = []

    class Short(outliers.DeepGPRegressor):
        def fit(self, X, y):
            fits.append(len(X))
            return self.set_params(max_iter=2, n_predict_samples=3, inference__objective="predictive").fit_short(X, y)

        fit_short = outliers.DeepGPRegressor.fit

    monkeypatch.setattr(outliers, "DeepGPRegressor", Short)
    out = tmp_path / "o.json"
    assert outliers.main(["--data", "energy", "--splits", "1", "--out", str(out)]) == 0
    assert outliers.main(["--data", "energy", "--splits", "2", "--out", str(out)]) == 0
    assert fits == [43, 43]
    found = json.loads(out.read_text())["splits"]["energy"]
    assert set(found) == {"0", "1"}
    assert found["0"]["none"]["nlpp"] != found["0"]["1 %"]["nlpp"]
    assert "energy (2 splits)" in capsys.readouterr().out
