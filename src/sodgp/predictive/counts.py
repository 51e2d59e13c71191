"""The predictive distribution of counts: a mixture of Poisson or negative binomial distributions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import trapezoid
from scipy.special import betainc, gammaincc, gammaln

from sodgp.errors import InputError
from sodgp.predictive.weighted import Cells, WeightedMixture, per_component
from sodgp.system.validation import FloatArray, Numbers, refuse_entries, to_array

__all__ = ["CountMixture"]

# Probability outside the range of counts that a score sums over.
_TAIL = 1e-13
# Counts that are summed one by one; of a wider range so many stand for all.
_MOST_COUNTS = 512
_CRPS_ELEMENTS = 2**21

Further = tuple[FloatArray, ...]


class CountMixture(WeightedMixture):
    r"""Mixture of C Poisson distributions for every row and output, or of negative binomials with a dispersion.

    .. math:: P(y_{np} = k) = \sum_c w_c\, \mathrm{Poisson}(k;\, \lambda_{cnp})

    A negative binomial has the mean rate and the variance ``rate + dispersion * rate^2``.

    Parameters
    ----------
    log_weights : array of shape [C]
    rate : array of shape [C, N, P]
        Means of the components.
    dispersion : array of shape [P], float or None
        None for Poisson.

    Raises
    ------
    InputError
        If shapes do not fit, or a number is not finite or not positive.

    Examples
    --------
    >>> dist = CountMixture([0.0], [[[2.0]]])
    >>> dist.mean, dist.variance, dist.quantile(0.5)
    (array([[2.]]), array([[2.]]), array([[2.]]))
    >>> np.exp(dist.log_prob([[0]])).round(4)
    array([[0.1353]])
    """

    _least = 0.0

    def __init__(self, log_weights: Numbers, rate: Numbers, dispersion: Numbers | None = None) -> None:
        values = to_array(rate, "rate")
        refuse_entries(~(np.isfinite(values) & (values >= 0)), "rate", "no rates", values)
        further: Further = ()
        if dispersion is not None:
            further = (per_component(dispersion, "dispersion", len(values), values.shape[-1]),)
        super().__init__(to_array(log_weights, "log_weights"), values, further)

    def around_mean(self, factor: float) -> CountMixture:
        """The distribution itself: counts cannot be scaled around their mean, and `factor` must be 1."""
        if factor != 1.0:
            raise InputError(f"counts have no spread to be scaled by {factor!r}; use 1")
        return self

    def pit(self, y: Numbers, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Randomised probability integral transform: uniform between P(Y < y) and P(Y <= y).

        It is uniform if the distribution is right, which the cdf of a discrete variable is not.

        Examples
        --------
        >>> bool(0.1353 < CountMixture([0.0], [[[2.0]]]).pit([[1]], random_state=0) < 0.4061)
        True
        """
        counts = self.align(y)
        below, up_to = self.cdf(counts - 1.0), self.cdf(counts)
        return below + np.random.default_rng(random_state).random(counts.shape) * (up_to - below)

    def _moments(self, centre: FloatArray, further: Further) -> tuple[FloatArray, FloatArray]:
        return centre, centre + further[0] * centre**2 if further else centre

    def _log_density(self, y: FloatArray, centre: FloatArray, further: Further) -> FloatArray:
        is_count = (y >= 0) & (y == np.floor(y))
        k = np.where(is_count, y, 0.0)
        # Logs of the components alone: the counts may have a further axis.
        rate = np.maximum(centre, np.finfo(np.float64).tiny)
        if further:
            r = 1.0 / further[0]
            log_odds, start = np.log(rate) - np.log(r + rate), r * np.log1p(rate / r)
            values = gammaln(k + r) - gammaln(r) + k * log_odds - start
        else:
            values = k * np.log(rate) - rate
        return np.where(is_count, values - gammaln(k + 1.0), -np.inf)

    def _cdf(self, y: FloatArray, centre: FloatArray, further: Further) -> FloatArray:
        k = np.floor(np.maximum(y, 0.0))
        if further:
            r = 1.0 / further[0]
            values = betainc(r, k + 1.0, r / (r + centre))
        else:
            values = gammaincc(k + 1.0, centre)
        return np.where(y < 0, 0.0, values)

    def _draw(self, rng: np.random.Generator, centre: FloatArray, further: Further) -> NDArray[np.float64]:
        rate = rng.gamma(1.0 / further[0], further[0] * centre) if further else centre
        # NumPy's limit; a count there has the rounding of the rate.
        return rng.poisson(np.minimum(rate, 9e18)).astype(np.float64)

    def _quantile_of_cells(self, q: float, cells: Cells) -> FloatArray:
        """The smallest count whose cdf is at least q, by bisection."""
        mean, variance = (cells.average(values) for values in self._moments(*cells.components))
        low, high = np.full(len(mean), -1.0), np.ceil(mean + 10.0 * np.sqrt(variance) + 10.0)
        q = q * (1.0 - 1e-14)  # rounding of a cdf that is q

        def is_below(count: FloatArray) -> NDArray[np.bool_]:
            return cells.average(self._cdf(count, *cells.components)) < q

        while (short := is_below(high)).any():
            low, high = np.where(short, high, low), np.where(short, 2.0 * high, high)
        while (high - low > 1.0).any():
            middle = np.floor(0.5 * (low + high))
            short = is_below(middle)
            low, high = np.where(short, middle, low), np.where(short, high, middle)
            if (middle + 1.0 == middle).any():  # counts beyond 2^53 are not whole numbers in float64
                break
        return high

    def _crps_of_cells(self, y: FloatArray, cells: Cells) -> FloatArray:
        """E|Y - y| - sum_k F(k) (1 - F(k)); the sum over a wide range by the trapezoidal rule."""
        low, high = (self._quantile_of_cells(q, cells) for q in (_TAIL, 1.0 - _TAIL))
        spread = np.empty(len(y))
        order = np.argsort(high - low)
        size = max(1, _CRPS_ELEMENTS // (_MOST_COUNTS * len(cells.weights)))
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            spread[chosen] = self._spread(cells.of(chosen), low[chosen], high[chosen])
        return self._mean_distance(y, cells) - spread

    def _spread(self, cells: Cells, low: FloatArray, high: FloatArray) -> FloatArray:
        """Sum over k of F(k) (1 - F(k)), which is E|Y - Y'| / 2."""
        centre, further = cells.components
        width = float((high - low).max()) + 1.0
        if width <= _MOST_COUNTS:
            # Sums of probabilities cost less than as many cdfs.
            k = low + np.arange(width)[:, None]
            p = (cells.weights * np.exp(self._log_density(k[:, None], centre, further))).sum(1)
            F = (p.cumsum(0) + cells.average(self._cdf(low - 1.0, centre, further))).clip(0.0, 1.0)
            return np.asarray((F * (1.0 - F)).sum(0))
        # Closer to each other where counts are small, and so narrow components can be.
        steps = np.linspace(0.0, 1.0, _MOST_COUNTS)[:, None]
        k = low + np.floor(np.expm1(steps * np.log1p(high - low + 1.0)))
        F = np.stack([cells.average(self._cdf(each, centre, further)) for each in k])
        return np.asarray(trapezoid(F * (1.0 - F), k, axis=0))

    def _mean_distance(self, y: FloatArray, cells: Cells) -> FloatArray:
        """E|Y - y| = E Y - y + 2 E(y - Y)^+, where E[Y; Y < y] of a count is that of the mean-biased one."""
        centre, further = cells.components
        k = np.ceil(y)
        below = self._cdf(k - 1.0, centre, further)
        if further:
            r = 1.0 / further[0]
            biased = np.where(k >= 2, betainc(r + 1.0, np.maximum(k - 1.0, 1.0), r / (r + centre)), 0.0)
        else:
            biased = self._cdf(k - 2.0, centre, further)
        return cells.average(centre - y + 2.0 * (y * below - centre * biased))
