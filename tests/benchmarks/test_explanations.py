"""What explains the gap to the paper: resumable, all splits of a variant together."""

import json

import numpy as np
from benchmarks import explanations

from sodgp.data import DataSet


def test_variants_are_scored_once(monkeypatch, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    data = DataSet("energy", X, np.sin(X[:, 0]), ("a", "b"), "y")
    monkeypatch.setattr(explanations, "load", lambda name: data)
    command = ["--data", "energy", "--variants", "SVGP, ARD", "SoD-DGP1, ARD", "--splits", "2", "--iterations", "2"]
    assert explanations.main([*command, "--out", str(tmp_path)]) == 0
    first = capsys.readouterr().out
    record = json.loads((tmp_path / "energy-SVGP-ARD.json").read_text())
    assert len(record["nlpp"]) == len(record["rmse"]) == 2
    assert f"energy SVGP, ARD: NLPP {np.mean(record['nlpp']):.3f}" in first
    monkeypatch.setattr(explanations, "score", None)  # what is there is not computed again
    assert explanations.main([*command, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == first
    assert explanations.main([*command[:-1], "3", "--out", str(tmp_path)]) == 2
    assert "has 2 splits and 2 iterations, and is not overwritten" in capsys.readouterr().err
