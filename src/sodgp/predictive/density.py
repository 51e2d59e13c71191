"""The mathematics of mixtures: the log density, for training and prediction, and the rest for one block of cells.

A cell is one row and output. Means, variances and relative weights are ``[T, C]`` for T components and C cells;
targets, levels and results are ``[C]``.

References
----------
Grimit, Gneiting, Berrocal, Johnson (2006). The continuous ranked probability score for circular variables and its
application to mesoscale forecast ensemble verification. QJRMS 132. (Closed form of a mixture's CRPS.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.errors import InputError

CHUNK_ELEMENTS = 2**17
"""Elements of the largest temporary tensor: 1 MiB in float64, which fits into the CPU's caches."""

_QUANTILE_TOLERANCE = 1e-12  # of the cdf, relative to the smaller tail; rounding far in the tails allows no less
_QUANTILE_MAX_STEPS = 300  # bisection alone needs fewer; about ten are used


Components = Float[Tensor, "T C"]
Cells = Float[Tensor, " C"]


def blocks(n_cells: int, depth: int) -> Iterator[slice]:
    """Slices of cells such that depth x slice stays within ``CHUNK_ELEMENTS``."""
    size = max(1, CHUNK_ELEMENTS // depth)
    return (slice(start, min(start + size, n_cells)) for start in range(0, n_cells, size))


def tail_probability(level: float) -> float:
    """Probability below a central interval of the given level, ``(1 - level) / 2``; InputError outside (0, 1)."""
    if not 0 < level < 1:
        hint = f"; for {level:g} per cent write {level / 100:g}" if 1 < level < 100 else ""
        raise InputError(f"level must lie strictly between 0 and 1; got {level!r}{hint}")
    return (1 - level) / 2


def log_mixture(
    log_densities: Float[Tensor, "..."], weights: Float[Tensor, "..."] | None = None, *, dim: int = -3
) -> Float[Tensor, "..."]:
    """Log density of a mixture, the log of the mean density of its components: never the mean of their logs.

    Parameters
    ----------
    log_densities : Tensor of shape [..., T, N, P]
        Of the components, whose axis is `dim`.
    weights : Tensor of the same shape, optional
        Relative to one another; equal if left out.

    Examples
    --------
    >>> log_mixture(torch.tensor([0.25, 0.75]).log(), dim=0).exp()
    tensor(0.5000)
    """
    if weights is None:
        return log_densities.logsumexp(dim) - math.log(log_densities.shape[dim])
    return (log_densities + weights.log()).logsumexp(dim) - weights.sum(dim).log()


def log_density(mu: Components, var: Components, w: Components, y: Cells) -> Cells:
    """Log density of the mixture at y."""
    return log_mixture(-0.5 * ((y - mu).square() / var + var.log() + math.log(2 * math.pi)), w, dim=0)


def cdf(mu: Components, var: Components, w: Components, y: Cells) -> Cells:
    """Probability below y."""
    return _average(w, _normal_cdf((y - mu) / var.sqrt()))


def _average(w: Components, values: Components) -> Cells:
    return (w * values).sum(0) / w.sum(0)


def _normal_cdf(z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    # erfc keeps the relative accuracy in the lower tail that (1 + erf) / 2 loses below 1e-16.
    return 0.5 * torch.erfc(z * -math.sqrt(0.5))


def crps(mu: Components, var: Components, w: Components, y: Cells) -> Cells:
    """E|Y - y| - E|Y - Y'| / 2 in closed form (Grimit et al. 2006)."""
    spread = (w.square() * _mean_abs(torch.zeros_like(mu), 2 * var)).sum(0)
    # One component against all later ones at a time: T^2/2 terms without a [T, T, C] tensor.
    for t in range(len(mu) - 1):
        later = _mean_abs(mu[t + 1 :] - mu[t], var[t + 1 :] + var[t])
        spread += 2 * w[t] * (w[t + 1 :] * later).sum(0)
    return _average(w, _mean_abs(y - mu, var)) - spread / (2 * w.sum(0).square())


def _mean_abs(mu: Components, var: Components) -> Components:
    """E|X| of X ~ N(mu, var): the function A of Grimit et al."""
    sigma = var.sqrt()
    z = mu / sigma
    return math.sqrt(2 / math.pi) * sigma * torch.exp(-0.5 * z.square()) + mu * torch.erf(z * math.sqrt(0.5))


def quantile(mu: Components, var: Components, w: Components, q: Cells) -> Cells:
    """Root of the mixture's cdf, found in the smaller tail (the upper one by reflection), where it is accurate."""
    return _tail_quantile(mu, var, w, torch.where(q > 0.5, 1 - q, q), torch.where(q > 0.5, -1.0, 1.0).to(mu))


def quantile_at_score(mu: Components, var: Components, w: Components, score: Cells) -> Cells:
    """The same for levels given as normal scores, which are as accurate in the upper tail as in the lower one."""
    return _tail_quantile(mu, var, w, _normal_cdf(-score.abs()), torch.where(score > 0, -1.0, 1.0).to(mu))


def _tail_quantile(mu: Components, var: Components, w: Components, tail: Cells, sign: Cells) -> Cells:
    inner = torch.where(tail > 0, tail, 0.5)  # a root to look for where the answer is infinite
    x = _lower_quantile(sign * mu, var.sqrt(), w, inner)
    x[tail == 0] = -math.inf
    return sign * x


def _lower_quantile(mu: Components, sigma: Components, w: Components, q: Cells) -> Cells:
    """Newton's method on log cdf (nearly concave, so that it hardly overshoots), bisecting whenever it is not safe."""
    at_q: Components = mu + sigma * torch.special.ndtri(q)
    # The mixture's quantile lies between those of its components; the margin covers the rounding of ndtri.
    lower, upper, x = (at_q - 1e-8 * sigma).amin(0), (at_q + 1e-8 * sigma).amax(0), _average(w, at_q)
    step = upper - lower
    result = x.clone()
    open_cells = torch.arange(len(q), device=q.device)
    for _ in range(_QUANTILE_MAX_STEPS):
        z = (x - mu) / sigma
        F = _average(w, _normal_cdf(z))
        density = _average(w, torch.exp(-0.5 * z.square()) / sigma) / math.sqrt(2 * math.pi)
        lower, upper = torch.where(q > F, x, lower), torch.where(q > F, upper, x)
        middle = lower + 0.5 * (upper - lower)
        done = ((F - q).abs() <= _QUANTILE_TOLERANCE * q) | (middle <= lower) | (middle >= upper)
        result[open_cells] = x

        newton = x - torch.log(F / q) * F / density
        # NaN (cdf or density underflows) compares false, and so bisects; so do steps that do not shrink.
        safe = (newton > lower) & (newton < upper) & ((newton - x).abs() <= 0.5 * step.abs())
        x, step = torch.where(safe, newton, middle), torch.where(safe, newton - x, upper - lower)
        if bool(done.any()):
            left = ~done
            if not bool(left.any()):
                break
            mu, sigma, w, open_cells = mu[:, left], sigma[:, left], w[:, left], open_cells[left]
            q, lower, upper, x, step = q[left], lower[left], upper[left], x[left], step[left]
    return result
