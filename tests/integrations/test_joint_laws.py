"""Joint laws over a few rows: the same law as the method's own joint prediction, smooth, and independent of company."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sodgp.inference.functions import ByMethod, GivenSubset, joint_law

from sodgp import DeepGPRegressor
from sodgp.linalg.draws import PositionDraws

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (30, 2))
Y = np.stack([np.sign(X[:, 0]), X[:, 1]], 1) + 0.1 * RNG.standard_normal((30, 2))
METHODS = {
    "sod": {},
    "separate": {"separate_kernels": True},
    "paper": {"parameterization": "paper", "hidden_width": 3},
    "dsvi": {"inference": "dsvi"},
    "sghmc": {"inference": "sghmc", "n_posterior_samples": 4, "thinning": 2},
    "mean_field": {"inference": "mean_field"},
}


def fitted(n_layers=2, **options):
    if n_layers == 1:
        options.pop("hidden_width", None)
    return DeepGPRegressor(n_layers=n_layers, subset_size=10, max_iter=15, random_state=0, **options).fit(X, Y)


def law_of(model, n_samples=5, seed=3, kind=None):
    if kind is ByMethod:
        return ByMethod(model.model_, model._method, model._X_s, model._y_s, n_samples=n_samples, seed=seed)
    return joint_law(model.model_, model._method, model._X_s, model._y_s, n_samples=n_samples, seed=seed)


@pytest.mark.parametrize("name", METHODS)
def test_shapes_company_and_gradients(name):
    law = law_of(fitted(**METHODS[name]))
    rows = torch.tensor(X[:6]).reshape(3, 2, 2).requires_grad_()
    mean, cov = law(rows)
    assert mean.shape == (3, 5, 2, 2)
    assert cov.shape == (3, 5, 2, 2, 2)
    first, first_cov = law(rows[1, :1])
    torch.testing.assert_close(first, mean[1, :, :1], rtol=0, atol=1e-9)
    torch.testing.assert_close(first_cov, cov[1, :, :, :1, :1], rtol=0, atol=1e-9)
    assert torch.autograd.gradcheck(law, torch.tensor(X[:2] + 0.3).requires_grad_(), atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["sod", "separate", "paper"])
def test_one_row_is_the_ancestral_prediction_with_the_same_numbers(name):
    model = fitted(n_layers=3, **METHODS[name])
    rows = torch.tensor(X[:4])

    class SameForAllRows(PositionDraws):
        def rest(self, rows, width):
            return super().rest(1, width)

    draws = SameForAllRows(3, 5, dtype=torch.float64)
    mean, variance = model._method.predict(model.model_, model._X_s, model._y_s, rows.unsqueeze(0), draws)
    ours, cov = law_of(model)(rows.unsqueeze(1))
    torch.testing.assert_close(ours.squeeze(2), mean.transpose(0, 1), rtol=0, atol=1e-8)
    torch.testing.assert_close(cov[..., 0, 0], variance.transpose(0, 1), rtol=0, atol=1e-8)


def test_one_layer_is_exactly_the_methods_joint_prediction():
    model = fitted(n_layers=1)
    rows = torch.tensor(X[:4])
    for ours, theirs in zip(law_of(model)(rows), law_of(model, kind=ByMethod)(rows), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["sod", "separate"])
def test_rows_drawn_given_the_subset_have_the_joint_law(name):
    """Moments of the mixture over many samples, against the draw over subset and rows together."""
    model = fitted(n_layers=2, **METHODS[name])
    assert isinstance(law_of(model), GivenSubset)
    rows = torch.tensor(X[:2] + 0.2)
    totals = []
    for kind in (None, ByMethod):
        mean, cov = law_of(model, n_samples=4000, kind=kind)(rows)
        spread = torch.stack([torch.cov(mean[..., p].T) for p in range(2)])
        totals.append((mean.mean(0), cov.mean(0) + spread))
    (ours, our_cov), (theirs, their_cov) = totals
    scale = our_cov.diagonal(dim1=-2, dim2=-1).sqrt().max()
    assert_allclose(ours, theirs, atol=0.06 * scale)
    assert_allclose(our_cov, their_cov, atol=0.06 * scale**2)
    # Two rows of one draw belong together: without that their covariance would be another one.
    assert float(our_cov[0, 0, 1].abs() / scale**2) > 0.15
