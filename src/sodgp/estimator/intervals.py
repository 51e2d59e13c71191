"""Intervals of predictions, for every regressor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sodgp.predictive.mixture import GaussianMixture
    from sodgp.system.validation import FloatArray

__all__ = ["Intervals"]


class Intervals:
    """`predict_interval`, of an estimator that has `predict_distribution`."""

    if TYPE_CHECKING:

        def predict_distribution(self, X: Any, *, latent: bool = False) -> GaussianMixture:
            """Of the estimator."""

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Central intervals of y: so often below the lower end as above the upper one.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        coverage : float, default=0.9
            Probability of the interval, between 0 and 1.

        Returns
        -------
        low, high : ndarray of shape [N] or [N, P]

        Raises
        ------
        InputError
            `coverage` is not between 0 and 1, or X cannot be used.

        Examples
        --------
        >>> import numpy as np
        >>> from sodgp import DeepGPRegressor
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> low, high = model.predict_interval(X[:4], coverage=0.5)
        >>> bool((low < model.predict(X[:4])).all() and (model.predict(X[:4]) < high).all())
        True
        """
        low, high = self.predict_distribution(X).interval(coverage)
        return low, high
