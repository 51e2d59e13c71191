"""Reports of counts."""

from __future__ import annotations

import numpy as np
from report_data import FRAME, Elements, figures

from sodgp import DeepGPRegressor
from sodgp.report import cross_validated, held_out

COUNTS = np.random.default_rng(0).poisson(np.exp(1.0 + 0.5 * FRAME["a"]))


def test_counts_have_a_rootogram_and_whole_numbers():
    model = DeepGPRegressor(likelihood="poisson", n_layers=1, max_iter=40, subset_size=15, random_state=0)
    report = held_out(model.fit(FRAME[:140], COUNTS[:140]), FRAME[140:], COUNTS[140:])
    found = Elements(report.html())
    assert figures(found)[:4] == ["rootogram-0", "pit-0", "predictions-0", "residuals-0"]
    np.testing.assert_allclose(report.frequencies.seen.sum(), 100)
    np.testing.assert_allclose(report.frequencies.expected.sum(), 100, rtol=0.01)
    worst = report.kind.worst(report, 0).rows[0]
    assert worst[1] == str(COUNTS[140:][int(worst[0]) - 1])
    assert "likelihood" in found.words
    assert "poisson" in found.words


def test_folds_add_up_to_one_rootogram():
    model = DeepGPRegressor(likelihood="poisson", n_layers=1, max_iter=5, subset_size=10, random_state=0)
    model.fit(FRAME[["a"]][:60], COUNTS[:60])
    report = cross_validated(model, FRAME[["a"]][:60], COUNTS[:60], cv=2)
    seen = np.bincount(COUNTS[:60], minlength=len(report.frequencies.seen))
    np.testing.assert_array_equal(report.frequencies.seen[:, 0], seen)
