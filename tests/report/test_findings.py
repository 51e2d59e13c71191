"""What a report warns of."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from report_data import FRAME, NASTY, Y, texts

from sodgp import DeepGPRegressor, SoD
from sodgp.report import held_out
from sodgp.report.findings import _training


def test_a_good_model_has_no_serious_warning(report):
    assert "bad" not in {finding.level for finding in report.findings}


def test_the_training_table_is_recognised(model):
    found = held_out(model, FRAME[:140], Y[:140]).findings
    assert found[0].level == "bad"
    assert "looks like the training table" in found[0].text
    mixed = held_out(model, FRAME[120:], Y[120:]).findings
    assert "shares rows with the training table" in texts(mixed)


def test_extrapolation_shift_and_outliers(model):
    X = FRAME[140:].copy()
    X["a"] += 8
    found = held_out(model, X, Y[140:] + 200)
    assert "rows are outside of what the model was trained on" in texts(found.findings)
    assert "the mean has moved by more than 0.5 standard deviations in a" in texts(found.findings)
    assert "more than five standard deviations off" in texts(found.findings)
    assert "extrapolated" in found.html()


def test_overconfidence_timidity_and_worthlessness(model):
    noisy = held_out(model, FRAME[140:], Y[140:] + 4 * np.random.default_rng(1).normal(size=100))
    assert "overconfident" in texts(noisy.findings)
    assert noisy.findings[0].level == "bad"
    mean = model.predict(FRAME[140:])
    assert "underconfident" in texts(held_out(model, FRAME[140:], mean).findings)
    shuffled = held_out(model, FRAME[140:], Y[140:].to_numpy()[::-1])
    assert "not clearly better than the mean" in texts(shuffled.findings)


@pytest.mark.parametrize(
    ("objective", "fix"),
    [
        ("predictive", "inference__objective='bound'"),
        ("leave_one_out", "inference__objective='collapsed'"),
        ("bound", "Train longer"),
        ("collapsed", "Train longer"),
    ],
)
def test_what_to_try_against_overconfidence(objective, fix):
    X, y = FRAME[["a"]], Y + 20 * np.random.default_rng(1).normal(size=240)
    options = {"inference": SoD(objective=objective), "n_layers": 2, "max_iter": 5, "subset_size": 10}
    model = DeepGPRegressor(**options, random_state=0).fit(X[:60], Y[:60])
    (found,) = (f for f in held_out(model, X[60:], y[60:]).findings if "overconfident" in f.text)
    assert found.fix.startswith("Train")
    assert fix in found.fix


def test_tails_that_are_too_heavy(model):
    """Errors of a few rows many times those of the rest: intervals right at 90 % and too wide in the middle."""
    mean, std = model.predict(FRAME[140:], return_std=True)
    error = np.where(np.arange(100) % 10 == 0, 3.0, 0.05) * std * np.where(np.arange(100) % 2, 1, -1)
    assert "wrong shape" in texts(held_out(model, FRAME[140:], mean + error).findings)


def test_noise_is_not_taken_for_a_rise():
    model = DeepGPRegressor(max_iter=5, random_state=0).fit(FRAME[["a"]][:60], Y[:60])
    noise = 10.0 * np.random.default_rng(0).standard_normal((20, 30))
    for bound in noise:
        model.history_.bound = list(bound)
        assert "still rising" not in texts(held_out(model, FRAME[["a"]][60:90], Y[60:90]).findings)
    model.history_.bound = list(noise[0] + 20.0 * np.arange(30))
    assert "still rising" in texts(held_out(model, FRAME[["a"]][60:90], Y[60:90]).findings)


@pytest.mark.parametrize(
    ("steps", "bound", "rising"),
    [
        ([1, 50, 100], [-900.0, -300.0, -100.0], True),
        ([1, 50, 100], [-900.0, -101.0, -100.0], False),
        ([1, 10], [-900.0, -400.0], True),
        ([1, 50, 100, 150, 155], [-900.0, -300.0, -101.0, -100.1, -100.0], False),
        ([1], [-900.0], False),
    ],
)
def test_short_runs_can_still_be_rising(steps, bound, rising):
    model = DeepGPRegressor(max_iter=5, random_state=0).fit(FRAME[["a"]][:60], Y[:60])
    model.history_.iteration[:], model.history_.bound[:] = steps, bound
    model.history_.terms.clear()
    assert ("still rising" in texts(_training(held_out(model, FRAME[["a"]][60:90], Y[60:90])))) == rising


def test_training_trouble_and_few_rows():
    X = FRAME[["a"]].assign(fixed=1.0)
    model = DeepGPRegressor(max_iter=5, random_state=0).fit(X[:20], Y[:20])
    model.history_.rollbacks, model.history_.stopped = 2, "interrupted"
    model.history_.bound = list(np.linspace(-100, 0, 20))
    found = texts(held_out(model, X[20:30], Y[20:30]).findings)
    for words in (
        "Training diverged 2 times",
        "was interrupted",
        "still rising",
        "trained on 20 rows with 2 inputs",
        "Only 10 rows were evaluated",
        "nothing was learned from fixed",
    ):
        assert words in found
    model.history_.stopped = "failed"
    assert "Training failed" in texts(held_out(model, X[20:30], Y[20:30]).findings)


@pytest.mark.parametrize("columns", [["a"], ["a", "b"]])
def test_one_row_and_a_few(columns):
    X = FRAME.rename(columns={NASTY: "b"})[columns]
    model = DeepGPRegressor(n_layers=2, max_iter=5, subset_size=10, random_state=0).fit(X[:60], Y[:60])
    for count, words in ((1, "Only 1 row was evaluated: the intervals say little."), (4, "Only 4 rows were evaluated")):
        found = held_out(model, X[60 : 60 + count], 100 + Y[60 : 60 + count])  # as wrong as can be, on too few rows
        assert words in texts(found.findings)
        assert "90 % intervals hold" not in texts(found.findings)
        assert "not clearly better" not in texts(found.findings)
        assert "predictive density is worse" not in texts(found.findings)
        assert "nan to nan" not in found.html()
    found = texts(held_out(model, X[60:65], 100 + Y[60:65]).findings)
    assert "90 % intervals hold 0 %" in found
    assert "not clearly better" in found or "predictive density is worse" in found


def test_findings_are_plain_data(report):
    for finding in report.findings:
        assert set(dataclasses.asdict(finding)) == {"level", "text", "fix"}
        assert finding.text.endswith((".", ")"))
