"""Joint laws: what follows from a subset drawn first has the law of the method's own draws over subset and rows."""

import numpy as np
import pytest
import torch
from sodgp.inference.functions import draws_subset_first, joint_moments

from sodgp import DeepGPRegressor
from sodgp.linalg.draws import FreshDraws

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (40, 2))
Y = np.stack([np.sign(X[:, 0]), X[:, 1]], 1) + 0.1 * RNG.standard_normal((40, 2))
NEW = RNG.uniform(-1.5, 1.5, (4, 2))
T = 8000
MODELS = {
    "one layer": {"n_layers": 1},
    "two layers": {},
    "three layers": {"n_layers": 3},
    "separate kernels": {"n_layers": 3, "separate_kernels": True},
    "the paper's family": {"n_layers": 3, "parameterization": "paper", "hidden_width": 3, "jitter": "program"},
    "joint": {"coupling": "joint"},
}


def mixture(mean, covariance):
    """Mean [q, P] and covariance [P, q, q] of the mixture of all components."""
    centred = (mean - mean.mean(0)).permute(2, 1, 0)
    return mean.mean(0), covariance.mean(0) + centred @ centred.mT / len(mean)


@pytest.mark.parametrize("name", MODELS)
def test_rows_after_a_subset_have_the_law_of_both_together(name):
    options = {"n_layers": 2, "subset_size": 10, "max_iter": 40, "random_state": 0, **MODELS[name]}
    model = DeepGPRegressor(**options).fit(X, Y)
    assert draws_subset_first(model._method)
    rows = model._scaled_rows(NEW)
    given = (model.model_, model._X_s, model._y_s)
    with torch.no_grad():
        draws = [FreshDraws(torch.Generator().manual_seed(seed), T, dtype=rows.dtype) for seed in (1, 2)]
        mean, covariance = joint_moments(given[0], model._method, *given[1:], rows, draws[0])
        ours = mixture(mean, covariance)
        theirs = mixture(*predict_joint(model._method, *given, rows.unsqueeze(0), draws[1]))
    assert mean.shape == (1 if name == "one layer" else T, 4, 2)
    assert covariance.shape == (len(mean), 2, 4, 4)
    scale = theirs[1].diagonal(dim1=-2, dim2=-1).max().item()
    tolerance = 1e-12 if name == "one layer" else 0.06
    torch.testing.assert_close(ours[0], theirs[0], rtol=0, atol=tolerance * scale**0.5)
    torch.testing.assert_close(ours[1], theirs[1], rtol=0, atol=tolerance * scale)


def test_a_subset_that_is_drawn_with_the_rows_is_left_to_the_method():
    model = DeepGPRegressor(coupling="marginal", subset_size=10, max_iter=2, random_state=0).fit(X, Y)
    assert not draws_subset_first(model._method)
    draws = [FreshDraws(torch.Generator().manual_seed(1), 5, dtype=torch.float64) for _ in range(2)]
    rows, given = model._scaled_rows(NEW), (model._X_s, model._y_s)
    ours = joint_moments(model.model_, model._method, *given, rows, draws[0])
    theirs = predict_joint(model._method, model.model_, *given, rows.unsqueeze(0), draws[1])
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
