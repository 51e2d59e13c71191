"""Predictions of several models as those of their equal mixture; finite, or a NumericalError.

Every function takes a factor `spread`, by which the distribution of each member is first shrunk towards its mean: the
spread-adjusted linear pool of [1]_, with means in place of medians. A mixture of calibrated members is too wide: it
adds their disagreement, although their common mean has smaller errors than each of them.

References
----------
.. [1] T. Gneiting and R. Ranjan, "Combining predictive distributions", Electronic Journal of Statistics 7 (2013).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from sodgp.errors import NumericalError
from sodgp.predictive.contract import Predictive
from sodgp.system.validation import FloatArray

__all__ = ["pooled_covariance", "pooled_draws", "pooled_mean", "pooled_mixture", "pooled_std"]


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


def pooled_mixture(mixtures: Iterable[Predictive], spread: float = 1.0) -> Predictive:
    """All components of all members.

    Examples
    --------
    >>> from sodgp.predictive.mixture import GaussianMixture
    >>> one = GaussianMixture(np.zeros((2, 3)), np.ones((2, 3)))
    >>> pooled_mixture([one, one])
    GaussianMixture(n_components=4, n_rows=3, n_outputs=1)
    """
    members = [mixture.around_mean(spread) for mixture in mixtures]
    pooled = type(members[0]).pool(members)
    _finite(pooled.mean, pooled.variance)
    return pooled


def pooled_draws(
    sample: Sequence[Callable[[int, int], FloatArray]],
    mean: Sequence[Callable[[], FloatArray]],
    n_samples: int,
    seed: int,
    spread: float = 1.0,
) -> FloatArray:
    """Draws [..., n_samples] of whole functions, each from a member that is drawn first.

    The functions of `sample` give draws [..., count] of a member for a count and a seed, those of `mean` its means
    [...], called only where `spread` is not 1.

    Examples
    --------
    >>> sample = [lambda count, seed: np.zeros((4, count)), lambda count, seed: np.ones((4, count))]
    >>> pooled_draws(sample, [], n_samples=10, seed=0).shape
    (4, 10)
    """
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(sample), size=n_samples)
    seeds = rng.integers(2**31 - 1, size=len(sample))
    parts = {k: sample[k](int((chosen == k).sum()), int(seeds[k])) for k in np.unique(chosen)}
    draws = np.empty((*next(iter(parts.values())).shape[:-1], n_samples))
    for k, values in parts.items():
        if spread != 1.0:
            centre = mean[k]()[..., None]
            values = centre + spread * (values - centre)
        draws[..., chosen == k] = values
    return draws


def _finite(mean: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same, unless members that are finite each are too far apart for their mixture to be."""
    if not (np.isfinite(mean).all() and np.isfinite(spread).all()):
        raise NumericalError(
            "the mixture of the members is not finite: they are too far apart for floating-point numbers."
            " Look at the members one by one; the units of a row, or a parameter, are too extreme."
        )
    return mean, spread
