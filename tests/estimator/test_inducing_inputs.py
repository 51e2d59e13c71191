"""Inducing inputs of DSVI through the estimator."""

import numpy as np
import pytest
import torch

from sodgp import DSVI, DeepGPRegressor


@pytest.mark.parametrize("learn", [True, False], ids=["DSVI", "DSVI*"])
def test_a_fit_with_few_distinct_rows(learn):
    X = np.repeat(np.linspace(-1.0, 1.0, 5)[:, None], 6, axis=0)
    model = DeepGPRegressor(
        inference=DSVI(learn_inducing_inputs=learn), subset_size=12, max_iter=20, random_state=0
    ).fit(X, np.sin(3.0 * X[:, 0]))
    assert np.isfinite(model.predict(X)).all()
    assert model.model_.layers[0].inducing_inputs.shape == (12, 1)


def test_a_fit_moves_the_inducing_inputs_of_dsvi_and_not_those_of_its_starred_sister():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    options = {"subset_size": 6, "random_state": 0}
    moved = {}
    for learn in (True, False):
        early, late = (
            DeepGPRegressor(**options, max_iter=n, inference=DSVI(learn_inducing_inputs=learn)).fit(X, np.sin(X[:, 0]))
            for n in (1, 30)
        )
        moved[learn] = [
            not torch.equal(a.inducing_inputs, b.inducing_inputs)
            for a, b in zip(early.model_.layers, late.model_.layers, strict=True)
        ]
    assert moved == {True: [True] * 3, False: [False] * 3}
