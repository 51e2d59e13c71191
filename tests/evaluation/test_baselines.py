"""Linear models, boosting and no inputs."""

from __future__ import annotations

import numpy as np
import pytest

from sodgp.evaluation.baselines import BASELINES, Task, judge_baseline, judge_baselines

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 2))
TRAIN, TEST = slice(0, 160), slice(160, 240)


def nlpp(found, name, target=0):
    return found[name].scores(target, n_bootstrap=0)["nlpp"].value


def test_a_straight_line_is_the_linear_models_and_its_spread_that_of_new_errors():
    y = np.stack([X @ [1.0, -2.0] + 0.5 * RNG.normal(size=240), 1e6 * X[:, 0]], axis=1)
    found = judge_baselines(Task("regression", ("a", "b")), X[TRAIN], y[TRAIN], X[TEST], y[TEST])
    assert list(found) == list(BASELINES)
    assert nlpp(found, "linear") < nlpp(found, "boosting") < nlpp(found, "without inputs")
    assert found["linear"].std[0, 0] == pytest.approx(0.5, rel=0.2)
    assert found["boosting"].scores(0, n_bootstrap=0)["coverage_90"].value > 0.8
    # No inputs: the Gaussian that every evaluation has beside it.
    scores = found["without inputs"].scores(0, n_bootstrap=0)
    assert scores["nlpp"].value == pytest.approx(scores["base_nlpp"].value)


def test_counts_are_counts():
    y = RNG.poisson(np.exp(1 + X[:, 0]))[:, None].astype(float)
    found = judge_baselines(Task("counts", ("n",)), X[TRAIN], y[TRAIN], X[TEST], y[TEST])
    assert nlpp(found, "linear") < nlpp(found, "without inputs")
    assert all(each.is_count for each in found.values())
    far = judge_baseline("linear", Task("counts", ("n",)), X[TRAIN], y[TRAIN], X[TEST] + 1e4, y[TEST])
    assert np.isfinite(far.evaluation.mean).all()


def test_classes_that_training_lacks_have_no_probability():
    y = np.where(X[:, 0] > 0, "b", "a")
    task = Task("classification", ("k",), np.array(["a", "b", "c"]))
    found = judge_baselines(task, X[TRAIN], y[TRAIN], X[TEST], y[TEST])
    for each in found.values():
        np.testing.assert_allclose(each.probability.sum(1), 1.0)
        assert (each.probability[:, 2] == 0).all()
    assert found["linear"].scores(n_bootstrap=0)["accuracy"].value > 0.9


def test_few_rows():
    found = judge_baselines(Task("regression", ("y",)), X[:3], X[:3, :1], X[3:5], X[3:5, :1])
    assert all(np.isfinite(each.log_prob).all() for each in found.values())
