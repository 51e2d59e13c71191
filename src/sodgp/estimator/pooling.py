"""Predictions of several models as those of their equal mixture; finite, or a NumericalError.

Every function takes a factor `spread`, by which the law of each member is first drawn in around its own mean: the
spread-adjusted linear pool of [1]_, with means in place of medians. A mixture of members that are right about their own
errors is too wide, since it adds their disagreement to those errors, while their common mean errs less than each does.

References
----------
.. [1] T. Gneiting and R. Ranjan, "Combining predictive distributions", Electronic Journal of Statistics 7 (2013).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sodgp.errors import NumericalError
from sodgp.estimator.options.fields import checked_spread
from sodgp.predictive.mixture import GaussianMixture
from sodgp.system.arrays import FloatArray
from sodgp.system.validation import check_predict_data

__all__ = [
    "Together",
    "pooled_covariance",
    "pooled_draws",
    "pooled_mean",
    "pooled_mixture",
    "pooled_std",
    "spread_of",
    "usual_spread",
]


_DISAGREEMENT = 0.37


def usual_spread(n_members: int) -> float:
    """The factor `spread` where a user gives none.

    Chosen on validation rows for four members of SoD-VI (``docs/accuracy.md``). What a mixture adds grows with the
    number of members as the variance of so many draws does, and there is nothing to add to a single one.

    Examples
    --------
    >>> [round(usual_spread(n), 2) for n in (1, 2, 3, 4, 100)]
    [1.0, 0.9, 0.87, 0.85, 0.8]
    """
    return math.sqrt(1.0 - _DISAGREEMENT * (n_members - 1) / n_members)


def spread_of(estimator: Any, n_members: int) -> float:
    """The factor `spread` of so many members with the options of an estimator.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> spread_of(DeepGPRegressor(member_spread=0.7), 4), spread_of(DeepGPRegressor(member_spread=0.7), 1)
    (0.7, 1.0)
    """
    given = checked_spread(estimator.member_spread)
    if n_members == 1:
        return 1.0
    if given is not None:
        return given
    # Members of the other methods were not measured.
    return usual_spread(n_members) if estimator.inference == "sod" else 1.0


def pooled_mean(means: Sequence[FloatArray]) -> FloatArray:
    """Mean of the mixture, from those of its members.

    Examples
    --------
    >>> pooled_mean([np.array([0.0]), np.array([8.0])]).tolist()
    [4.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.stack(means).mean(0)
    return _finite(mean, mean)[0]


def pooled_std(moments: Sequence[tuple[FloatArray, FloatArray]], spread: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the mixture, from those of its members.

    Examples
    --------
    >>> mean, std = pooled_std([(np.array([0.0]), np.array([3.0])), (np.array([8.0]), np.array([3.0]))])
    >>> mean.tolist(), std.tolist()  # 3^2 within and 4^2 between the members
    ([4.0], [5.0])
    """
    means, stds = (np.stack(values) for values in zip(*moments, strict=True))
    with np.errstate(over="ignore", invalid="ignore"):
        return _finite(means.mean(0), np.sqrt(((spread * stds) ** 2).mean(0) + means.var(0)))


def pooled_covariance(
    moments: Sequence[tuple[FloatArray, FloatArray]], spread: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Mean [N] or [N, P] and covariance [N, N] or [P, N, N] of the mixture, from those of its members.

    Examples
    --------
    >>> parts = [(np.array([0.0, 0.0]), np.eye(2)), (np.array([2.0, 4.0]), np.eye(2))]
    >>> pooled_covariance(parts)[1].tolist()
    [[2.0, 2.0], [2.0, 5.0]]
    """
    means, covariances = (np.stack(values) for values in zip(*moments, strict=True))
    with np.errstate(over="ignore", invalid="ignore"):
        # Members last, so that a matrix product is over them: [N, K] or [P, N, K].
        centred = np.moveaxis(means - means.mean(0), (0, 1), (-1, -2))
        between = centred @ np.swapaxes(centred, -1, -2) / len(means)
        return _finite(means.mean(0), spread**2 * covariances.mean(0) + between)


def pooled_mixture(mixtures: Iterable[GaussianMixture], spread: float = 1.0) -> GaussianMixture:
    """All components of all members.

    Examples
    --------
    >>> one = GaussianMixture(np.zeros((2, 3)), np.ones((2, 3)))
    >>> pooled_mixture([one, one])
    GaussianMixture(n_components=4, n_rows=3, n_outputs=1)
    """
    pooled = GaussianMixture.pool([mixture.around_mean(spread) for mixture in mixtures])
    _finite(pooled.mean, pooled.variance)
    return pooled


def pooled_draws(
    members: Sequence[Any], X: Any, n_samples: int, seed: int, *, latent: bool, spread: float = 1.0
) -> FloatArray:
    """Draws [..., n_samples] of whole functions, each from a member that was drawn first.

    Parameters
    ----------
    members : sequence of fitted estimators
    X : array, data frame or tensor of shape [N, D]
    n_samples, seed : int
    latent : bool
        Without observation noise.
    spread : float

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, n_members=2, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
    >>> pooled_draws(model.members_, X[:4], 10, 0, latent=True).shape
    (4, 10)
    """
    rng = np.random.default_rng(seed)
    whose = rng.integers(len(members), size=n_samples)
    seeds = rng.integers(2**31 - 1, size=len(members))
    parts = {
        number: members[number].sample_y(X, int((whose == number).sum()), int(seeds[number]), latent=latent)
        for number in np.unique(whose)
    }
    first = next(iter(parts.values()))
    draws = np.empty((*first.shape[:-1], n_samples))
    for number, values in parts.items():
        if spread != 1.0:
            mean = members[number].predict(X)[..., None]
            values = mean + spread * (values - mean)
        draws[..., whose == number] = values
    return draws


class Together(NamedTuple):
    """Members that predict as one, and the factor `spread` of their laws.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, n_members=2, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
    >>> Together(model.members_, spread=1.0).predict(X[:4]).shape
    (4,)
    """

    members: Sequence[Any]
    spread: float

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """As `DeepGPRegressor.predict`."""
        if return_cov:
            return pooled_covariance([member.predict(X, return_cov=True) for member in self.members], self.spread)
        if return_std:
            return pooled_std([member.predict(X, return_std=True) for member in self.members], self.spread)
        return pooled_mean([member.predict(X) for member in self.members])

    def predict_distribution(self, X: Any, *, latent: bool) -> GaussianMixture:
        """As `DeepGPRegressor.predict_distribution`; room for all components is asked for first."""
        self.members[0]._check_room(
            len(check_predict_data(self.members[0], X)), latent=latent, members=len(self.members)
        )
        return pooled_mixture((m.predict_distribution(X, latent=latent) for m in self.members), self.spread)

    def sample_y(self, X: Any, n_samples: int, seed: int, *, latent: bool) -> FloatArray:
        """As `DeepGPRegressor.sample_y`."""
        return pooled_draws(self.members, X, n_samples, seed, latent=latent, spread=self.spread)


def _finite(mean: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same, unless members that are finite each are too far apart for their mixture to be."""
    if not (np.isfinite(mean).all() and np.isfinite(spread).all()):
        raise NumericalError(
            "the prediction of the members together is not finite: they are too far apart for floating-point numbers."
            " Look at the members one by one; the units of a row, or a parameter, are too extreme."
        )
    return mean, spread
