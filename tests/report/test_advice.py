"""What residuals and hidden layers say."""

from __future__ import annotations

import numpy as np
import pytest
from report_data import texts

from sodgp import DeepGPRegressor, SoD
from sodgp.report import held_out
from sodgp.report.advice import bend_of, spreads, straight_layers

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(300, 2))
QUICK = {"n_layers": 1, "max_iter": 60, "subset_size": 15, "random_state": 0}


def about(y, **options):
    model = DeepGPRegressor(**{**QUICK, **options}).fit(X[:150], y[:150])
    return held_out(model, X[150:], y[150:])


@pytest.mark.parametrize(
    ("y", "fix"),
    [
        (np.exp(X[:, 0] + 0.5 * RNG.normal(size=300)), "target_transform='log'"),
        (RNG.poisson(np.exp(1 + 1.5 * X[:, 0])).astype(float), "negative_binomial"),
        (X[:, 0] + np.exp(2 * X[:, 1]) * RNG.normal(size=300), "likelihood='heteroscedastic'"),
    ],
)
def test_changing_noise_is_found_with_the_option_that_models_it(y, fix):
    found = [f for f in about(y).findings if "spread of the residuals" in f.text]
    assert fix in found[0].fix


def test_level_noise_is_left_alone():
    report = about(X[:, 0] + 0.1 * RNG.normal(size=300))
    assert "spread of the residuals" not in texts(report.findings)
    assert {each.name for each in spreads(report, 0)} == {"the predicted mean", "x0", "x1"}


def test_a_straight_layer_is_told_from_a_bent_one():
    options = {"n_layers": 2, "inference": SoD(objective="bound")}
    straight = about(X[:, 0], max_iter=1, **options)
    assert "The hidden layer is straight" in texts(straight_layers(straight))
    bent = about(np.sign(X[:, 0]) + np.sin(6 * X[:, 1]), max_iter=150, **options)
    assert bend_of(bent, 1, X[150:]) > 2 * bend_of(straight, 1, X[150:])
    assert not list(straight_layers(about(X[:, 0])))
