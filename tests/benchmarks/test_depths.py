"""What depth is worth: a cell runs, and the table has the means and the range over splits."""

import json

import numpy as np
import pytest
from benchmarks import depths


def test_draws_have_the_rows_that_their_names_say():
    for name in ("gp-300", "linear-300", "warped-300"):
        first, second = depths.rows_of(name, 0), depths.rows_of(name, 1)
        assert first.X_train.shape[0] == 300
        assert len(first.y_test) == 1000
        assert not np.array_equal(first.y_train, second.y_train)
    assert len(depths.rows_of("friedman1-280", 0).y_train) == 280


def test_a_cell_and_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(depths, "FITS", {f"{n} layer{'s' * (n - 1)}": {"n_layers": n, "max_iter": 2} for n in (1, 2)})
    monkeypatch.setattr(depths, "SHORT", (depths.Short(5, 2, 2),))
    monkeypatch.setattr(
        depths, "in_fresh_processes", lambda work, calls, **_: ((i, work(*c)) for i, c in enumerate(calls))
    )
    words = ["--data", "step", "--splits", "1", "--out", str(tmp_path)]
    assert depths.main(words) == 0
    record = json.loads((tmp_path / "step-0.json").read_text())
    assert set(record["fits"]) == {"1 layer", "2 layers", "exact GP"}
    assert np.isfinite(record["gain"])
    (short,) = record["short"].values()
    assert np.isfinite(short["values"]).all()
    gain = short["values"][1] - short["values"][0]
    assert f"{gain:.3f} to {gain:.3f}" in capsys.readouterr().out
    monkeypatch.setattr(depths, "compute", lambda *_: pytest.fail("there is a result"))
    assert depths.main(words) == 0
