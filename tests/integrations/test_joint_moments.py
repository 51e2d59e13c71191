"""Joint moments in the units of the targets, against the estimator's own predictions."""

import numpy as np
import pytest
import torch

from sodgp import SGHMC, DeepGPRegressor, SoD
from sodgp.integrations.joint_moments import JointMoments

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (30, 2))
Y = np.stack([100 + 10 * np.sign(X[:, 0]), X[:, 1]], 1)
NOISY = np.stack([np.sign(X[:, 0]), X[:, 1]], 1) + 0.1 * RNG.standard_normal((30, 2))
METHODS = {
    "sod": {},
    "separate": {"inference": SoD(separate_kernels=True)},
    "paper": {"inference": SoD(parameterization="paper"), "hidden_width": 3},
    "dsvi": {"inference": "dsvi"},
    "sghmc": {"inference": SGHMC(n_posterior_samples=4, thinning=2), "n_samples": 10},
    "mean_field": {"inference": "mean_field", "n_samples": 10},
}
POINTS = torch.tensor(RNG.uniform(-1, 1, (3, 2, 2)))


@pytest.fixture(scope="module")
def estimator():
    return DeepGPRegressor(n_layers=1, max_iter=15, n_predict_samples=4, random_state=0).fit(X, Y)


def test_shapes_and_the_estimators_prediction(estimator):
    mean, covariance, noise = JointMoments(estimator)(POINTS)
    assert (mean.shape, covariance.shape, noise.shape) == ((3, 4, 2, 2), (3, 4, 2, 2, 2), (3, 4, 2, 2))
    latent, observed = (estimator.predict_distribution(POINTS.reshape(-1, 2), latent=flag) for flag in (True, False))
    np.testing.assert_allclose(mean.detach().mean(1).reshape(-1, 2), latent.mean, atol=1e-7)
    variance = covariance.detach().diagonal(dim1=-2, dim2=-1).mT
    np.testing.assert_allclose(variance.mean(1).reshape(-1, 2), latent.variance, rtol=1e-6)
    np.testing.assert_allclose((variance + noise.detach()).mean(1).reshape(-1, 2), observed.variance, rtol=1e-6)


def test_the_precision_of_the_points_is_kept_and_gradients_flow(estimator):
    points = POINTS[0].float().requires_grad_()
    mean, covariance, noise = JointMoments(estimator)(points)
    assert {mean.dtype, covariance.dtype, noise.dtype} == {torch.float32}
    mean.sum().backward()
    assert bool(points.grad.any())


@pytest.mark.parametrize("name", METHODS)
def test_points_are_independent_of_company_and_gradients_are_finite_differences(name):
    options = {"n_layers": 2, "subset_size": 10, "max_iter": 15, "n_predict_samples": 5, "random_state": 0}
    moments = JointMoments(DeepGPRegressor(**options, **METHODS[name]).fit(X, NOISY))
    mean, covariance, _ = moments(POINTS)
    first, alone, _ = moments(POINTS[1, :1])
    torch.testing.assert_close(first, mean[1, :, :1], rtol=0, atol=1e-9)
    torch.testing.assert_close(alone, covariance[1, :, :, :1, :1], rtol=0, atol=1e-9)
    points = torch.tensor(X[:2] + 0.3).requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: moments(rows)[:2], points, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["sod", "separate"])
def test_two_points_of_one_draw_belong_together(name):
    """The covariance over rows of the estimator, which has other random numbers."""
    options = {"n_layers": 2, "subset_size": 10, "max_iter": 15, "n_predict_samples": 4000, "random_state": 0}
    model = DeepGPRegressor(**options, **METHODS[name]).fit(X, NOISY)
    rows = torch.tensor(X[:1] + np.array([[0.2], [0.3]]))
    with torch.no_grad():
        mean, covariance, noise = JointMoments(model)(rows)
    spread = torch.stack([torch.cov(mean[..., p].T) for p in range(2)])
    ours = covariance.mean(0) + spread
    their_mean, theirs = model.predict(rows.numpy(), return_cov=True)
    theirs = theirs - torch.diag_embed(noise.mean(0).mT).numpy()
    scale = float(ours.diagonal(dim1=-2, dim2=-1).sqrt().max())
    np.testing.assert_allclose(mean.mean(0), their_mean, atol=0.06 * scale)
    np.testing.assert_allclose(ours, theirs, atol=0.06 * scale**2)
    # Without the rows in one draw their covariance would be another one.
    assert float(ours[0, 0, 1].abs()) > 0.15 * scale**2
