"""Joint moments in the units of the targets, against the estimator's own predictions."""

import numpy as np
import pytest
import torch

from sodgp import DeepGPRegressor
from sodgp.integrations.joint_moments import JointMoments

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (30, 2))
Y = np.stack([100 + 10 * np.sign(X[:, 0]), X[:, 1]], 1)
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
