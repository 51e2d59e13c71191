"""The example of a table and its report, with few steps."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from sodgp import DeepGPRegressor

SCRIPT = Path(__file__).parents[2] / "examples" / "tabular_report.py"


def test_from_a_table_to_a_report(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("tabular_report", SCRIPT)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    report = example.main(example.diabetes_table(tmp_path), "progression", tmp_path, max_iter=20)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h1>progression from diabetes.csv</h1>" in text
    assert len(report.evaluation) == 111
    assert DeepGPRegressor.load(tmp_path / "model.sodgp").target_names_.tolist() == ["progression"]
    assert "rmse" in capsys.readouterr().out
