"""The predictive distribution of positive numbers whose log, or another power of Box and Cox, is a Gaussian mixture."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

from sodgp.errors import InputError, NumericalError
from sodgp.predictive import density as mixtures
from sodgp.predictive.derived import Derived
from sodgp.predictive.mixture import GaussianMixture
from sodgp.predictive.power import PowerTransform
from sodgp.system.running import cpu_threads
from sodgp.system.validation import FloatArray, Numbers, to_numpy

__all__ = ["TransformedMixture"]

# Nodes of the integral over one Gaussian, and how many standard deviations it reaches to both sides.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_REACH = 9.0
# Draws below the smallest z are drawn anew so often, and are quantiles of random levels after that.
_MOST_DRAWS = 20
# Smaller powers are the log, to rounding.
_LEAST_POWER = 1e-9
_ROOT = math.sqrt(0.5)


class TransformedMixture(Derived):
    r"""Distribution of y > 0 where z = transform(y) is a mixture of Gaussians, cut off where y would be zero.

    .. math:: p(y) = \frac{p_z(z(y))}{P(z > z_0)}\, \frac{dz}{dy}, \qquad F(y) = P(z \le z(y) \mid z > z_0)

    z_0 = z(0) is minus infinity for the log. For other powers the mixture has some probability below, as a rule next to
    none. Quantiles are those of z mapped back; the mean is not the mean of z mapped back, but that of y: closed for the
    log (a mixture of lognormal distributions), else an integral over every component to rounding.

    Parameters
    ----------
    base : GaussianMixture
        Of z.
    transform : PowerTransform

    Examples
    --------
    >>> log = PowerTransform("log", np.zeros(1), np.ones(1))
    >>> dist = TransformedMixture(GaussianMixture(torch.zeros(1, 1), torch.ones(1, 1)), log)
    >>> dist.mean.round(4), dist.quantile(0.5), dist.log_prob([1.0]).round(4)
    (array([1.6487]), array([1.]), array([-0.9189]))
    """

    base: GaussianMixture

    def __init__(self, base: GaussianMixture, transform: PowerTransform) -> None:
        super().__init__(base)
        if len(transform.power) != base.n_outputs:
            raise InputError(f"a transform of {len(transform.power)} outputs does not fit {base!r}")
        self.transform = transform
        self._is_cut = bool((transform.power > 0).any())

    def _with(self, base: Any) -> TransformedMixture:
        return TransformedMixture(base, self.transform)

    def around_mean(self, factor: float) -> TransformedMixture:
        """With the deviations of z from its mean multiplied by `factor`."""
        return self if factor == 1.0 else self._with(self.base.around_mean(factor))

    def log_prob(self, y: Numbers) -> FloatArray:
        """Log density of every row and output at y, [N] or [N, P]; minus infinity where y is not positive."""
        at = self.align(y)
        inside = np.where(at > 0, at, self.transform.centre)
        found = self.base.log_prob(self.transform.forward(inside)) + self.transform.log_slope(inside)
        return np.where(at > 0, found - np.log(self._above), -np.inf)

    def cdf(self, y: Numbers) -> FloatArray:
        """Probability of a value up to y, in the shape of `log_prob`."""
        at = self.align(y)
        z = self.transform.forward(at)
        if not self._is_cut:
            return self.base.cdf(z)
        above = self._above
        return np.where(at > 0, np.maximum(self.base.cdf(z) - self._below, 0.0) / above, 0.0)

    def sf(self, y: Numbers) -> FloatArray:
        """Probability of a value above y, accurate where it is small."""
        return np.minimum(self.base.sf(self.transform.forward(self.align(y))) / self._above, 1.0)

    def quantile_at(self, scores: FloatArray) -> FloatArray:
        """Quantiles at levels of every row and output, as normal scores [..., N] or [..., N, P]."""
        if not self._is_cut:
            return self.transform.inverse(self.base.quantile_at(scores))
        # Each tail by its own probability, where it is accurate.
        lower, upper = ndtri(self._below + ndtr(scores) * self._above), -ndtri(ndtr(-scores) * self._above)
        inner = np.where(self._below > 0, np.where(scores > 0, upper, lower), scores)
        return np.where(np.isneginf(scores), 0.0, self.transform.inverse(self.base.quantile_at(inner)))

    def sample(self, n_samples: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Draws, [n_samples, N] or [n_samples, N, P]; one draw takes all its rows and outputs from one component.

        A z below the smallest one is drawn anew.
        """
        rng = np.random.default_rng(random_state)
        z, least = self.base.sample(n_samples, rng), self.transform.least
        for _ in range(_MOST_DRAWS):
            if not (z <= least).any():
                break
            z = np.where(z <= least, self.base.sample(n_samples, rng), z)
        else:
            return np.where(z <= least, self.quantile_at(rng.standard_normal(z.shape)), self.transform.inverse(z))
        return self.transform.inverse(z)

    @property
    def mean(self) -> FloatArray:
        """Mean of y, [N] or [N, P]."""
        return self._moment(1)

    @property
    def variance(self) -> FloatArray:
        """Variance of y, [N] or [N, P]."""
        first = self._moment(1)
        return np.maximum(self._moment(2) - first**2, np.finfo(np.float64).tiny)

    def crps(self, y: Numbers) -> FloatArray:
        """Continuous ranked probability score, in the units of y: closed for the log, else by quadrature."""
        if self._is_cut:
            return super().crps(y)
        at = torch.from_numpy(np.maximum(self.align(y) / self.transform.centre, 0.0).reshape(-1))
        found = self._over_cells(lambda cells, _: _lognormal_crps(*self.base._components(cells), at[cells]))
        # Below zero the score grows with the distance.
        return np.asarray(found * self.transform.centre + np.maximum(-self.align(y), 0.0))

    def _moment(self, order: int) -> FloatArray:
        """E y^order, [N] or [N, P]."""

        def of_block(cells: slice, outputs: Tensor) -> Tensor:
            mu, var, w = self.base._components(cells)
            if self._is_cut:
                power = torch.from_numpy(self.transform.power)[outputs].clamp_min(_LEAST_POWER)
                found = _power_moment(mu, var, power, order)
            else:
                found = torch.exp(order * mu + 0.5 * order**2 * var)
            return (w * found).sum(0) / w.sum(0)

        found = np.asarray(self._over_cells(of_block) / self._above * self.transform.centre**order)
        if not np.isfinite(found).all():
            row = int(np.argwhere(~np.isfinite(found))[0, 0])
            raise NumericalError(
                f"y has no finite {'mean' if order == 1 else 'variance'} in row {row}: the transformed y is too"
                " uncertain there. Ask for quantiles, which are finite; check the row's units."
            )
        return found

    @cached_property
    def _below(self) -> FloatArray:
        """Probability of z below its smallest value, [N] or [N, P]."""
        if not self._is_cut:
            return np.zeros(self.shape)
        return self.base.cdf(np.broadcast_to(self.transform.least, self.shape))

    @cached_property
    def _above(self) -> FloatArray:
        return np.maximum(1.0 - self._below, np.finfo(np.float64).tiny)

    def _over_cells(self, function: Callable[[slice, Tensor], Tensor]) -> FloatArray:
        """A function of blocks of cells and of the outputs that they belong to."""
        count = math.prod(self.shape)
        result = torch.empty(count, dtype=torch.float64)
        with cpu_threads(self.base.n_threads):
            for cells in mixtures.blocks(count, self.n_components):
                result[cells] = function(cells, torch.arange(cells.start, cells.stop) % self.n_outputs)
        return to_numpy(result.reshape(self.shape))


def _lognormal_crps(
    mu: mixtures.Components, var: mixtures.Components, w: mixtures.Components, y: mixtures.Cells
) -> mixtures.Cells:
    """E|Y - y| - E|Y - Y'| / 2 of a mixture of lognormal distributions, in closed form."""
    total = w.sum(0)
    mean, log_y = torch.exp(mu + 0.5 * var), torch.log(y)
    sigma = var.sqrt()
    distance = mean * torch.erf((mu + var - log_y) / sigma * _ROOT) + y * torch.erf((log_y - mu) / sigma * _ROOT)
    spread = (w.square() * 2.0 * mean * torch.erf(0.5 * sigma)).sum(0)
    for t in range(len(mu) - 1):
        later = slice(t + 1, None)
        s = (var[later] + var[t]).sqrt()
        first = mean[t] * torch.erf((mu[t] + var[t] - mu[later]) / s * _ROOT)
        second = mean[later] * torch.erf((mu[later] + var[later] - mu[t]) / s * _ROOT)
        spread += 2.0 * w[t] * (w[later] * (first + second)).sum(0)
    return (w * distance).sum(0) / total - spread / (2.0 * total.square())


def _power_moment(
    mu: mixtures.Components, var: mixtures.Components, power: mixtures.Cells, order: int
) -> mixtures.Components:
    """E[y^order; z > z_0] of Gaussian components of z for powers above zero, by quadrature.

    The integrand is largest where order log(y) - (z - mu)^2 / (2 var) is.
    """
    start = 1.0 + power * mu
    root = torch.sqrt(start.square() + 4.0 * order * power * var)
    # The positive root of a quadratic equation, without cancellation.
    shift = torch.where(start > 0, 2.0 * order * var / (root + start), (root - start) / (2.0 * power))
    sigma, least = var.sqrt(), -1.0 / power
    low = torch.maximum(least.expand_as(mu), mu - _REACH * sigma)
    high = torch.maximum(mu + shift.clamp_min(0.0) + _REACH * sigma, low)
    total = torch.zeros_like(mu)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        # The square makes the root of z - z_0, which y may be, a smooth function.
        place = 0.5 * (1.0 + float(node))
        z = low + (high - low) * place**2
        y = torch.exp(order * torch.log1p((power * z).clamp_min(-1.0)) / power)
        total += float(weight) * place * y * torch.exp(-0.5 * ((z - mu) / sigma).square())
    return total * (high - low) / (sigma * math.sqrt(2.0 * math.pi))
