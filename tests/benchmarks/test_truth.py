"""The benchmark against the truth: its densities are those of its rows, and it scores what is fitted."""

import json

import numpy as np
import pytest
from benchmarks.reliability import truth
from scipy.integrate import quad


@pytest.mark.parametrize("law", truth.LAWS)
def test_the_density_of_a_law_is_that_of_its_rows(law):
    X, y, distribution = truth.LAWS[law].rows(50, seed=3)
    assert X.shape == (50, 2)
    assert np.isfinite(distribution.logpdf(y)).all()
    _, again, _ = truth.LAWS[law].rows(50, seed=3)
    np.testing.assert_array_equal(y, again)


def test_zero_inflated_rows_have_a_density_of_their_own():
    f = np.array([1.5])
    distribution = truth._ZeroInflated(f)
    mass, _ = quad(lambda y: float(np.exp(distribution.logpdf(np.array([y])))[0]), -0.5, 2.0, points=[0.0, 1.5])
    assert mass == pytest.approx(1.0)
    drawn = truth._ZeroInflated(np.full(4000, 1.5)).rvs(np.random.default_rng(0))
    assert np.mean(drawn < 0.75) == pytest.approx(0.4, abs=0.03)


def test_the_command_writes_what_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(truth, "N_ROWS", 40)
    monkeypatch.setattr(truth, "N_NEW", 30)
    monkeypatch.setitem(truth.WAYS, "quick", ({"effort": "quick", "max_iter": 2, "n_layers": 1}, None))
    out = tmp_path / "truth.json"
    given = ["--laws", "noise 0.1", "--ways", "quick", "--seeds", "1", "--out", str(out)]
    assert truth.main(given) == 0
    (fit,) = json.loads(out.read_text())["fits"]
    assert fit["nlpp"] - fit["truth"] > 0.0
    assert 0.0 <= fit["coverage_90"] <= 1.0
    assert "| noise 0.1 | quick |" in out.with_suffix(".md").read_text()
