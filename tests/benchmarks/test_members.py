"""``python -m benchmarks.members`` runs what is missing, and says what it found."""

import json

import numpy as np
from benchmarks import members

from sodgp.data import DataSet


def test_it_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    table = DataSet("energy", X, X[:, 0] + 0.1 * rng.normal(size=60), ("a", "b"), "y")
    monkeypatch.setattr(members, "load", lambda name: table)
    short = {"n_layers": 2, "subset_size": 10, "max_iter": 2, "n_predict_samples": 3}
    monkeypatch.setattr(members, "FITS", {"a": short, "b": short})
    fits = []

    def counted(models, data):
        fits.append(len(models))
        return fit_replicates(models, data)

    fit_replicates = members.fit_replicates
    monkeypatch.setattr(members, "fit_replicates", counted)
    arguments = ["--data", "energy", "--splits", "2", "--out", str(tmp_path / "m.json")]
    assert members.main([*arguments, "--fits", "a"]) == 0
    assert members.main([*arguments, "--fits", "a", "b"]) == 0
    assert fits == [8, 8]
    scores = json.loads((tmp_path / "m.json").read_text())["a"]["energy"]["scores"]
    assert {name: len(values["nlpp"]) for name, values in scores.items()} == {"1": 2, "2": 2, "3": 2, "4": 2, "each": 8}
    assert np.mean(scores["4"]["crps"]) <= np.mean(scores["each"]["crps"])
    assert "a, energy (2 splits), members 4: nlpp" in capsys.readouterr().out
