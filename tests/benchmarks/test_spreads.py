"""``python -m benchmarks.spreads`` fits what is missing, and names the spread that the validation rows choose."""

import json

import numpy as np
import pytest
from benchmarks import spreads

from sodgp.data import DataSet


def test_it_goes_on_where_it_was_and_chooses(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    table = DataSet("energy", X, X[:, 0] + 0.1 * rng.normal(size=60), ("a", "b"), "y")
    monkeypatch.setattr(spreads, "load", lambda name: table)
    short = {"n_layers": 2, "subset_size": 10, "max_iter": 2, "n_predict_samples": 3}
    fits = []

    def shortened(**options):
        return DeepGPRegressor(**{**options, **short})

    def counted(models, data):
        fits.append(len(models))
        return fit_replicates(models, data)

    DeepGPRegressor, fit_replicates = spreads.DeepGPRegressor, spreads.fit_replicates
    monkeypatch.setattr(spreads, "DeepGPRegressor", shortened)
    monkeypatch.setattr(spreads, "fit_replicates", counted)
    arguments = ["--splits", "2", "--out", str(tmp_path / "s.json")]
    assert spreads.main([*arguments, "--data", "energy"]) == 0
    assert spreads.main([*arguments, "--data", "energy", "concrete"]) == 0
    assert fits == [2, 2]
    records = json.loads((tmp_path / "s.json").read_text())
    scores = records["energy"]["scores"]
    assert len(scores["1"]["nlpp"]) == 8
    assert len(scores["4 at 1.0"]["nlpp"]) == 2
    assert np.mean(scores["4 at 0.7"]["coverage_90"]) <= np.mean(scores["4 at 1.0"]["coverage_90"])
    assert np.mean(scores["4 at 1.0"]["crps"]) <= np.mean(scores["1"]["crps"])
    assert f"median of the best: {spreads.chosen(records):.2f}" in capsys.readouterr().out


def test_the_median_set_decides():
    def best_at(best):
        return {"scores": {f"4 at {spread}": {"nlpp": [abs(spread - best)]} for spread in spreads.SPREADS}}

    records = {name: best_at(best) for name, best in (("a", 0.7), ("b", 0.9), ("c", 0.94))}
    assert spreads.chosen(records) == 0.9
    assert spreads.mean_over_sets(records, "4 at 0.9", "nlpp") == pytest.approx((0.2 + 0.0 + 0.04) / 3)
