"""The predictive distribution of numbers with outliers: a mixture of Student distributions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, stdtr, stdtrit

from sodgp.errors import InputError
from sodgp.predictive.contract import Units
from sodgp.predictive.weighted import Cells, WeightedMixture, per_component
from sodgp.system.validation import FloatArray, Numbers, to_array

__all__ = ["StudentMixture"]

# Nodes of the integral of F (1 - F), and how far they reach: beyond is about this much of it.
_NODES = 257
_TAIL = 1e-7
_LEAST_REACH = 12.0
# Bisections of a quantile, at most.
_STEPS = 200

Further = tuple[FloatArray, ...]


class StudentMixture(WeightedMixture):
    r"""Mixture of C Student distributions for every row and output.

    .. math:: p(y_{np}) = \sum_c w_c\, t(y_{np};\, \mathrm{location}_{cnp}, \mathrm{scale}_p, \mathrm{df}_p)

    Parameters
    ----------
    log_weights : array of shape [C]
    location : array of shape [C, N, P]
    scale, df : array of shape [P], or float
        The degrees of freedom are above 2, so that there is a variance.

    Raises
    ------
    InputError
        If shapes do not fit, or a number is not finite or out of range.

    Examples
    --------
    >>> dist = StudentMixture([0.0], [[[1.0]]], scale=1.0, df=4.0)
    >>> dist.mean, dist.variance, dist.cdf([[1.0]])
    (array([[1.]]), array([[2.]]), array([[0.5]]))
    """

    def __init__(self, log_weights: Numbers, location: Numbers, scale: Numbers, df: Numbers) -> None:
        values = to_array(location, "location")
        further = tuple(
            per_component(each, name, len(values), values.shape[-1]) for name, each in (("scale", scale), ("df", df))
        )
        if (further[1] <= 2.0).any():
            raise InputError(f"df must be above 2, or there is no variance; got {further[1].min():g}")
        super().__init__(to_array(log_weights, "log_weights"), values, further)

    def in_units(self, units: Units) -> StudentMixture:
        """With the location and the scale of y."""
        scale, df = self._further
        centre = self._centre * units.scale + units.shift
        return self._with(self._log_w, centre, (scale * np.abs(units.scale), df), is_vector=units.is_vector)

    def around_mean(self, factor: float) -> StudentMixture:
        """Mixture of ``m + factor * (Y - m)``, m the mean of the row."""
        if not (np.isfinite(factor) and factor > 0):
            raise InputError(f"factor must be finite and positive; got {factor!r}")
        mean = self.mean.reshape(self._centre.shape[1:])
        scale, df = self._further
        return self._with(self._log_w, mean + factor * (self._centre - mean), (factor * scale, df))

    def _moments(self, centre: FloatArray, further: Further) -> tuple[FloatArray, FloatArray]:
        scale, df = further
        return centre, np.broadcast_to(scale**2 * df / (df - 2.0), centre.shape)

    def _log_density(self, y: FloatArray, centre: FloatArray, further: Further) -> FloatArray:
        scale, df = further
        constant = gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * np.log(np.pi * df) - np.log(scale)
        return np.asarray(constant - 0.5 * (df + 1.0) * np.log1p(((y - centre) / scale) ** 2 / df))

    def _cdf(self, y: FloatArray, centre: FloatArray, further: Further) -> FloatArray:
        scale, df = further
        return np.asarray(stdtr(df, (y - centre) / scale))

    def _sf(self, y: FloatArray, centre: FloatArray, further: Further) -> FloatArray:
        return self._cdf(-y, -centre, further)

    def quantile_at(self, scores: FloatArray) -> FloatArray:
        """Quantiles at levels of every row and output, as normal scores [..., N] or [..., N, P]."""

        def of_cells(cells: Cells, score: FloatArray) -> FloatArray:
            # The upper tail by reflection, where its probability is accurate.
            sign = np.where(score > 0, -1.0, 1.0)
            centre, further = cells.components
            reflected = Cells(cells.log_weights[:, 0], sign * centre, further)
            return np.asarray(sign * self._quantile_of_cells(ndtr(-np.abs(score)), reflected))

        rows = scores.reshape(-1, *self.shape)
        found = [self._over_cells(of_cells, row) for row in rows]
        return np.reshape(found, scores.shape)

    def _draw(self, rng: np.random.Generator, centre: FloatArray, further: Further) -> NDArray[np.float64]:
        scale, df = further
        return centre + scale * rng.standard_t(np.broadcast_to(df, centre.shape))

    def _quantile_of_cells(self, q: float | FloatArray, cells: Cells) -> FloatArray:
        """The root of the cdf, between the quantiles of the components, by bisection."""
        centre, (scale, df) = cells.components
        each = centre + scale * stdtrit(df, q)
        low, high = each.min(0), each.max(0)
        for _ in range(_STEPS):
            middle = 0.5 * (low + high)
            if ((middle <= low) | (middle >= high) | (high - low <= 1e-13 * np.abs(middle))).all():
                break
            short = cells.average(self._cdf(middle, *cells.components)) < q
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return 0.5 * (low + high)

    def _crps_of_cells(self, y: FloatArray, cells: Cells) -> FloatArray:
        """E|Y - y| - E|Y - Y'| / 2; the first is closed, the second the integral of F (1 - F) by quadrature."""
        centre, (scale, df) = cells.components
        z = (y - centre) / scale
        density = np.exp(self._log_density(y, centre, (scale, df))) * scale
        distance = scale * (z * (2.0 * stdtr(df, z) - 1.0) + 2.0 * density * (df + z**2) / (df - 1.0))
        return cells.average(distance) - self._spread(cells)

    def _spread(self, cells: Cells) -> FloatArray:
        """The integral of F (1 - F), by the trapezoidal rule at x = middle + width sinh(u)."""
        centre, (scale, df) = cells.components
        middle = cells.average(centre)
        width = np.sqrt(cells.average(scale**2) + cells.average(np.square(centre - middle)))
        # Tails fall like |x|^-df and have to reach where they are negligible.
        reach = float(np.arcsinh(max(_LEAST_REACH, _TAIL ** (-1.0 / (df.min() - 1.0)))))
        tables = [(value, Table(value)) for value in np.unique(df)]
        total = np.zeros(len(middle))
        for u in np.linspace(-reach, reach, _NODES):
            z = (middle + width * np.sinh(u) - centre) / scale
            F = tables[0][1](z)
            for value, table in tables[1:]:
                F = np.where(df == value, table(z), F)
            below = cells.average(F)
            total += np.cosh(u) * below * (1.0 - below)
        return np.asarray(total * width * (2.0 * reach / (_NODES - 1)))


class Table:
    """The cdf of Student's distribution by linear interpolation in arcsinh(z), to 1e-7 and much faster.

    Examples
    --------
    >>> bool(abs(Table(3.0)(np.array([0.7])) - stdtr(3.0, 0.7)) < 1e-7)
    True
    """

    _HALF, _FINENESS = 30.0, 500.0

    def __init__(self, df: float) -> None:
        u = np.arange(-self._HALF, self._HALF + 2.0 / self._FINENESS, 1.0 / self._FINENESS)
        self._values = stdtr(df, np.sinh(u))
        self._steps = np.diff(self._values)

    def __call__(self, z: FloatArray) -> FloatArray:
        """The cdf at z."""
        place = (np.arcsinh(z).clip(-self._HALF, self._HALF) + self._HALF) * self._FINENESS
        index = place.astype(np.int64)
        return np.asarray(self._values[index] + (place - index) * self._steps[index])
