"""Joint moments of a fitted estimator in the units of its targets, as differentiable functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.inference.joint import JointDistribution

# On the diagonal of a component's covariance, relative to its mean: draws from it are by Cholesky.
_JITTER = 1e-8


class JointMoments:
    """The estimator's prediction at q points: a mixture of T joint Gaussians, with noise variances."""

    def __init__(self, estimator: DeepGPRegressor) -> None:
        self.estimator, self.n_samples = estimator, estimator.n_predict_samples
        fitted = estimator.fitted_
        self._like = fitted.model.last.q_mean
        self._joint = JointDistribution(
            fitted.model, fitted.method, *fitted.given_on_device(), n_samples=self.n_samples, seed=fitted.predict_seed
        )

    def __call__(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean [*b, T, q, m], covariance [*b, T, m, q, q] and noise variances [*b, T, q, m] at X [*b, q, d]."""
        shift, scale, y_shift, y_scale = (
            torch.as_tensor(values).to(self._like)
            for scaler in (self.estimator.fitted_.x_scaler, self.estimator.fitted_.y_scaler)
            for values in (scaler.mean_, scaler.scale_)
        )
        rows = (X.to(self._like) - shift) / scale
        mean, covariance = self._joint(rows)
        jitter = _JITTER * covariance.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
        covariance = covariance + jitter * torch.eye(X.shape[-2], dtype=rows.dtype, device=rows.device)
        variance = self._joint.noise_variance(rows).expand_as(mean) * y_scale.square()
        scaled = (mean * y_scale + y_shift, covariance * y_scale.square()[:, None, None], variance)
        first, second, third = (values.to(X) for values in scaled)
        return first, second, third
