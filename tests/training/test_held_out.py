"""The score of held-out rows is the mean log predictive density of a row, in original units."""

import numpy as np
import pytest

from sodgp import DeepGPRegressor

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 2))
Y = 5.0 * np.sin(3 * X[:, 0]) + 0.3 * RNG.standard_normal(60)


@pytest.mark.parametrize("likelihood", ["gaussian", "heavy_tailed"])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_last_score_is_that_of_predictions(likelihood, n_layers):
    model = DeepGPRegressor(
        likelihood=likelihood, n_layers=n_layers, max_iter=5, validation_fraction=0.2, subset_size=8, random_state=0
    ).fit(X, Y)
    rows = model.validation_indices_
    density = model.predict_distribution(X[rows]).log_prob(Y[rows]).mean()
    assert model.history_.validation[-1] == pytest.approx(density, abs=1e-8)
