"""Diagnostics of Markov chains: effective sample size and R-hat.

References
----------
Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021). Rank-normalization, folding, and localization: an improved R-hat
for assessing convergence of MCMC. Bayesian Analysis 16(2). (Split R-hat and effective sample size: section 3; ranks and
folding: section 4.)
Geyer (1992). Practical Markov chain Monte Carlo. Statistical Science 7(4). (Initial monotone sequence.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sodgp.system.validation import FloatArray

__all__ = ["SamplerDiagnostics", "effective_sample_size", "r_hat"]


# Draws of half a chain below which nothing is estimated.
_SHORTEST = 4


@dataclass(frozen=True)
class SamplerDiagnostics:
    """Convergence diagnostics of a fit with SGHMC; predictions do not need them.

    Arrays have the axes of the replicates in front, if there are any.

    Attributes
    ----------
    n_draws, n_chains, thinning : int
        Posterior draws over all chains, chains, and transitions between two draws.
    step_size, friction : float
        Of the sampler when the draws were taken; the step size is halved when a sampler diverges.
    potential : ndarray of shape [*replicates, C, n]
        U(u) at every draw, estimated from the batch.
    ess_potential, r_hat_potential : ndarray of shape [*replicates]
        Effective sample size and R-hat of the potential.
    ess_prediction, r_hat_prediction : ndarray of shape [*replicates, rows]
        The same of the mean of f^L at some training rows, with the hidden layers at their means.
    temperature : ndarray of shape [*replicates]
        Mean of p^2 relative to its stationary variance: about 1 in equilibrium, larger for a sampler that is too hot.
    noise_share : ndarray of shape [*replicates]
        Largest share of the noise to inject that the noise of the gradients replaces. Above 1 the sampler is too hot.

    Examples
    --------
    >>> from sodgp import SGHMC, DeepGPRegressor
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = DeepGPRegressor(inference=SGHMC(n_posterior_samples=8, thinning=1), max_iter=5)
    >>> model.fit(X, X[:, 0]).diagnostics_.potential.shape
    (1, 8)
    """

    n_draws: int
    n_chains: int
    thinning: int
    step_size: float
    friction: float
    potential: FloatArray
    ess_potential: FloatArray
    r_hat_potential: FloatArray
    ess_prediction: FloatArray
    r_hat_prediction: FloatArray
    temperature: FloatArray
    noise_share: FloatArray

    def of_replicate(self, index: int) -> SamplerDiagnostics:
        """The diagnostics of one replicate."""
        chosen = {k: np.asarray(v[index]) for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        return SamplerDiagnostics(**{**vars(self), **chosen})


def r_hat(chains: FloatArray) -> float:
    """Rank-normalised split R-hat: the larger of that of the draws and that of their distance from the median.

    With W the mean variance within half-chains of n draws and B / n the variance of their means,
    R-hat = sqrt(((n - 1)/n W + B/n) / W). Above 1.01 the chains have not converged.

    Parameters
    ----------
    chains : ndarray of shape [C, n]
        Every chain is split in two, so one chain is enough.

    Returns
    -------
    float
        ``nan`` for chains that are too short, constant or not finite.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(4, 500))
    >>> r_hat(x) < 1.01, r_hat(x + np.arange(4.0)[:, None]) > 1.5
    (True, True)
    """
    if not _usable(chains):
        return math.nan
    halves = _split(chains)
    folded = np.abs(halves - np.median(halves))
    return max(_plain_r_hat(rank_normalise(halves)), _plain_r_hat(rank_normalise(folded)))


def effective_sample_size(chains: FloatArray, *, ranks: bool = True) -> float:
    """Effective sample size of the mean, C n / tau with tau = 1 + 2 sum_t rho_t over all half-chains.

    rho_t = 1 - (W - mean autocovariance at lag t) / var_plus is summed in pairs until one is negative; the pairs are
    made monotone (Geyer's initial monotone sequence).

    Parameters
    ----------
    chains : ndarray of shape [C, n]
    ranks : bool
        Of the rank-normalised draws (the "bulk" size, also for distributions without moments) or of the draws.

    Returns
    -------
    float
        ``nan`` for chains that are too short, constant or not finite. At most C n log10(C n): draws that are negatively
        correlated can be worth more than independent ones, but not without limit.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(2, 500))
    >>> 700 < effective_sample_size(x) < 1300, effective_sample_size(np.cumsum(x, axis=1)) < 50
    (True, True)
    """
    if not _usable(chains):
        return math.nan
    halves = _split(chains)
    z = rank_normalise(halves) if ranks else halves
    n, total = z.shape[1], z.size
    autocovariance = _autocovariance(z)
    within = autocovariance[:, 0].mean() * n / (n - 1)
    var_plus = within * (n - 1) / n + z.mean(1).var(ddof=1)
    rho = 1.0 - (within - autocovariance.mean(0)) / var_plus
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(1)
    positive = len(pairs) if np.all(pairs > 0) else int(np.argmax(pairs <= 0))
    monotone = np.minimum.accumulate(pairs[: max(positive, 1)])
    tau = -1.0 + 2.0 * monotone.sum()
    # The first term of the pair that ended the sum may still be positive; adding it lowers the estimate's variance.
    if positive < len(pairs):
        tau += max(rho[2 * positive], 0.0)
    return float(total / max(tau, 1.0 / math.log10(total)))


def rank_normalise(draws: FloatArray) -> FloatArray:
    """Normal quantiles of the ranks over all chains, Phi^-1((r - 3/8) / (S + 1/4)); ties have their mean rank."""
    _, inverse, counts = np.unique(draws, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - 0.5 * (counts - 1)
    quantile = NormalDist().inv_cdf
    levels = (mean_rank - 0.375) / (draws.size + 0.25)
    return np.array([quantile(level) for level in levels])[inverse].reshape(draws.shape)


def over_chains(chains: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Effective sample size and R-hat of many quantities: [..., C, n] -> two arrays [...]."""
    flat = chains.reshape(-1, *chains.shape[-2:])
    sizes, r_hats = [effective_sample_size(c) for c in flat], [r_hat(c) for c in flat]
    return np.array(sizes).reshape(chains.shape[:-2]), np.array(r_hats).reshape(chains.shape[:-2])


def _usable(chains: FloatArray) -> bool:
    return bool(chains.shape[1] >= 2 * _SHORTEST and np.isfinite(chains).all() and np.ptp(chains) > 0)


def _split(chains: FloatArray) -> FloatArray:
    """Both halves of every chain as chains; the middle draw of an odd number is left out."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def _plain_r_hat(chains: FloatArray) -> float:
    n = chains.shape[1]
    within, between = chains.var(axis=1, ddof=1).mean(), chains.mean(1).var(ddof=1)
    return float(np.sqrt((n - 1) / n + between / within)) if within > 0 else math.inf


def _autocovariance(chains: FloatArray) -> FloatArray:
    """Autocovariance of every chain at lags 0 .. n - 1, divided by n, by the fast Fourier transform."""
    n = chains.shape[1]
    spectrum = np.fft.rfft(chains - chains.mean(1, keepdims=True), n=2 * n, axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, n=2 * n, axis=1)[:, :n] / n
