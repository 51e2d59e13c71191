"""The predictive distribution of a deep GP: a mixture of Gaussians, one component per Monte Carlo sample.

T components (Monte Carlo samples), N rows, P outputs. Rows and outputs are flattened to C = N P *cells*, since marginal
quantities of a cell depend on no other; `sodgp.predictive.density` has the mathematics of a block of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from sodgp.errors import InputError
from sodgp.predictive import density as mixtures
from sodgp.predictive.contract import aligned, check_draws, checked_levels
from sodgp.predictive.outliers import Outliers
from sodgp.system.running import cpu_threads, in_own_threads
from sodgp.system.validation import FloatArray, Numbers, check_threads, refuse_entries, to_numpy, to_tensor

CellFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@in_own_threads
class GaussianMixture:
    r"""Equally weighted mixture of T Gaussians for every row and output.

    .. math:: p(y_{np}) = \frac1T \sum_{t=1}^T N(y_{np};\, \mu_{tnp},\, \sigma^2_{tnp})

    Component t of one row belongs to component t of every other row and output. Results are marginal, per row and
    output; `sample` keeps the joint distribution. With `outlier_probability` every observation is an outlier with that
    probability, independently, and then normal with the mean of the mixture and ten times its standard deviation.

    Computation is float64 on the device of `means`; results are NumPy arrays, ``[N]`` for `means` of shape ``[T, N]``
    and ``[N, P]`` for ``[T, N, P]``. Temporary memory does not grow with N.

    Parameters
    ----------
    means, variances : torch.Tensor of shape [T, N] or [T, N, P]
        Of the components.
    outlier_probability : float, default=0
        From 0 to below 1.
    n_threads : int, "auto" or None, default=1
        CPU threads of every method, as of `sodgp.DeepGPRegressor`, whose predictions have its number.

    Raises
    ------
    InputError
        If the shapes differ, or a number is not finite or out of range.
    ConfigurationError
        If `n_threads` is none of these.

    Examples
    --------
    >>> dist = GaussianMixture(torch.tensor([[-1.0], [1.0]]), torch.tensor([[1.0], [1.0]]))
    >>> dist.mean, dist.variance
    (array([0.]), array([2.]))
    >>> careful = GaussianMixture(torch.zeros(1, 1), torch.ones(1, 1), outlier_probability=0.001)
    >>> careful.log_prob(15.0).round(1), careful.interval(0.9)[1].round(3)  # -113.4 and 1.645 without outliers
    (array([-11.3]), array([1.649]))
    """

    def __init__(
        self,
        means: Numbers,
        variances: Numbers,
        *,
        outlier_probability: float = 0.0,
        n_threads: int | str | None = 1,
    ) -> None:
        self.n_threads = check_threads(n_threads)
        with cpu_threads(n_threads):
            mu = to_tensor(means, "means")
            var = to_tensor(variances, "variances", mu.device)
            if mu.shape != var.shape or mu.ndim not in (2, 3) or mu.shape[0] == 0:
                raise InputError(
                    "means and variances must have one shape, [T, N] or [T, N, P] with T >= 1 components; "
                    f"got {list(mu.shape)} and {list(var.shape)}"
                )
            refuse_entries(~torch.isfinite(mu), "means", "not finite", mu)
            refuse_entries(~(torch.isfinite(var) & (var > 0)), "variances", "not finite and positive", var)
            if not 0.0 <= outlier_probability < 1.0:
                raise InputError(f"outlier_probability must be from 0 to below 1; got {outlier_probability!r}")
            self._shape = tuple(mu.shape[1:])
            self._mu, self._var = mu.flatten(1), var.flatten(1)
            self._outliers = Outliers.of(self._mu, self._var, float(outlier_probability))

    @property
    def n_components(self) -> int:
        """Number T of mixture components."""
        return int(self._mu.shape[0])

    @property
    def outlier_probability(self) -> FloatArray:
        """Probability that an observation is an outlier, shape [N] or [N, P]."""
        return self._result(self._outliers.probability.sum(0))

    @property
    def n_outputs(self) -> int:
        """Number P of outputs."""
        return self._shape[1] if len(self._shape) == 2 else 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of results, (N,) or (N, P)."""
        return self._shape

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        sizes = f"n_components={self.n_components}, n_rows={len(self)}, n_outputs={self.n_outputs}"
        return f"{type(self).__name__}({sizes})"

    def __getitem__(self, rows: Any) -> GaussianMixture:
        """Mixture of some rows (int, slice, integer or boolean array); an int keeps the row axis, with length 1."""
        rows = rows.cpu().numpy() if isinstance(rows, torch.Tensor) else rows
        # NumPy's rules, and its IndexError, which also ends a loop over the rows.
        index = torch.from_numpy(np.arange(len(self))[rows].reshape(-1).copy()).to(self._mu.device)

        def chosen(values: Tensor) -> Tensor:
            return values.reshape(len(values), *self._shape)[:, index].flatten(1)

        shape = (len(index), *self._shape[1:])
        return self._like(chosen(self._mu), chosen(self._var), shape, self._outliers.map(chosen))

    @classmethod
    def concatenate(cls, mixtures: Sequence[GaussianMixture]) -> GaussianMixture:
        """Stack mixtures with equal numbers of components and outputs along rows, on the device of the first.

        Examples
        --------
        >>> dist = GaussianMixture(torch.tensor([[0.0, 5.0], [2.0, 5.0]]), torch.ones(2, 2))
        >>> len(GaussianMixture.concatenate([dist, dist]))
        4
        """
        if not mixtures:
            raise InputError("concatenate needs at least one mixture")
        first = mixtures[0]
        for i, other in enumerate(mixtures):
            if (other.n_components, other._shape[1:]) != (first.n_components, first._shape[1:]):
                raise InputError(f"mixture {i}, {other!r}, does not fit under {first!r}: components or outputs differ")
        with cpu_threads(first.n_threads):
            count = max(len(m._outliers.mu) for m in mixtures)
            parts = [m._to(first._mu.device) for m in mixtures]
            outliers = Outliers.joined([m._outliers.padded(count, m._mu, m._var) for m in parts], dim=1)
            mu, var = torch.cat([m._mu for m in parts], dim=1), torch.cat([m._var for m in parts], dim=1)
            return first._like(mu, var, (sum(map(len, parts)), *first._shape[1:]), outliers)

    @classmethod
    def pool(cls, members: Sequence[GaussianMixture]) -> GaussianMixture:
        """One mixture of the components of many, over the same rows and outputs: the prediction of several models.

        Their numbers of components and probabilities of outliers must be equal, so that each has the same weight.

        Examples
        --------
        >>> dist = GaussianMixture(torch.tensor([[0.0, 5.0], [2.0, 5.0]]), torch.ones(2, 2))
        >>> GaussianMixture.pool([dist, dist]).n_components
        4
        """
        if not members:
            raise InputError("pool needs at least one mixture")
        shapes = {(m.n_components, m._shape) for m in members}
        if len(shapes) > 1:
            raise InputError(f"pooled mixtures must agree in components, rows and outputs; got {sorted(shapes)}")
        if not all(np.allclose(m.outlier_probability, members[0].outlier_probability) for m in members):
            raise InputError("pooled mixtures must agree in the probability of outliers")
        with cpu_threads(members[0].n_threads):
            parts = [m._to(members[0]._mu.device) for m in members]
            outliers = Outliers.joined([m._outliers for m in parts])
            outliers = outliers._replace(probability=outliers.probability / len(members))
            mu, var = torch.cat([m._mu for m in parts]), torch.cat([m._var for m in parts])
            return parts[0]._like(mu, var, parts[0]._shape, outliers)

    def affine(self, scale: Numbers, shift: Numbers) -> GaussianMixture:
        """Mixture of ``scale * Y + shift``: the same distribution in other units.

        Parameters
        ----------
        scale, shift : float or array of shape [P]
            One number, or one per output; `scale` is finite and not zero.

        Examples
        --------
        >>> dist = GaussianMixture(torch.zeros(1, 2), torch.ones(1, 2)).affine(3.0, 10.0)
        >>> dist.mean, dist.std
        (array([10., 10.]), array([3., 3.]))
        """
        a, b = to_tensor(scale, "scale", self._mu.device), to_tensor(shift, "shift", self._mu.device)
        for name, values in (("scale", a), ("shift", b)):
            if values.ndim > 1 or values.numel() not in (1, self.n_outputs):
                got = list(values.shape)
                raise InputError(f"{name} must be one number or {self.n_outputs}, one per output; got shape {got}")
            refuse_entries(~torch.isfinite(values), name, "not finite", values)
        refuse_entries(a == 0, "scale", "zero", a)
        a, b = (v.reshape(-1).expand(self.n_outputs).repeat(len(self)) for v in (a, b))
        return self._like(a * self._mu + b, a.square() * self._var, self._shape, self._outliers.affine(a, b))

    def around_mean(self, factor: float) -> GaussianMixture:
        """Mixture of ``m + factor * (Y - m)``, m the mean of the row: `factor` > 0 scales the standard deviation.

        Examples
        --------
        >>> dist = GaussianMixture(torch.tensor([[0.0, 5.0], [2.0, 5.0]]), torch.ones(2, 2))
        >>> narrow = dist.around_mean(0.5)
        >>> narrow.mean - dist.mean, narrow.std / dist.std
        (array([0., 0.]), array([0.5, 0.5]))
        """
        if not (np.isfinite(factor) and factor > 0):
            raise InputError(f"factor must be finite and positive; got {factor!r}")
        if factor == 1.0:
            return self
        shift = (1.0 - factor) * self._outliers.mean_with(self._mu)
        mu, var = factor * self._mu + shift, factor**2 * self._var
        return self._like(mu, var, self._shape, self._outliers.affine(factor, shift))

    def _to(self, device: torch.device) -> GaussianMixture:
        outliers = self._outliers.map(lambda values: values.to(device))
        return self._like(self._mu.to(device), self._var.to(device), self._shape, outliers)

    @property
    def mean(self) -> FloatArray:
        """Mean of the mixture, shape [N] or [N, P]."""
        return self._result(self._outliers.mean_with(self._mu))

    @property
    def variance(self) -> FloatArray:
        """Variance of the mixture: mean of the variances plus variance (ddof 0) of the means; [N] or [N, P]."""
        return self._result(self._outliers.variance_with(self._mu, self._var))

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the mixture, shape [N] or [N, P]."""
        return np.sqrt(self.variance)

    def log_prob(self, y: Numbers) -> FloatArray:
        """Log density of every row and output, ``logsumexp_t log N(y; mu_t, sigma_t^2) - log T``.

        Parameters
        ----------
        y : array, list, data frame or tensor of shape [N] or [N, P], or one number for all

        Examples
        --------
        >>> GaussianMixture(torch.zeros(5, 1), torch.ones(5, 1)).log_prob([0.0]).round(4)
        array([-0.9189])
        """
        return self._over_cells(mixtures.log_density, y)

    def cdf(self, y: Numbers) -> FloatArray:
        """Probability of a value up to `y`, ``mean_t Phi((y - mu_t) / sigma_t)``; shapes as in `log_prob`.

        Examples
        --------
        >>> GaussianMixture(torch.tensor([[0.0, 5.0], [2.0, 5.0]]), torch.ones(2, 2)).cdf([1.0, 5.0])
        array([0.5, 0.5])
        """
        return self._over_cells(mixtures.cdf, y)

    def sf(self, y: Numbers) -> FloatArray:
        """Probability of a value above `y`, accurate where ``1 - cdf(y)`` is rounding; shapes as in `log_prob`.

        >>> GaussianMixture(torch.zeros(1, 1), torch.ones(1, 1)).sf(20.0)
        array([2.75362412e-89])
        """
        return self._over_cells(lambda mu, var, w, at: mixtures.cdf(-mu, var, w, -at), y)

    def crps(self, y: Numbers) -> FloatArray:
        r"""Continuous ranked probability score, exact; smaller is better, in the units of y; shapes as in `log_prob`.

        .. math:: E|Y - y| - \tfrac12 E|Y - Y'| = \frac1T \sum_t A(y - \mu_t, \sigma_t^2)
                  - \frac1{2T^2} \sum_{st} A(\mu_s - \mu_t, \sigma_s^2 + \sigma_t^2),\quad
                  A(\mu, \sigma^2) = 2 \sigma \phi(\mu/\sigma) + \mu (2 \Phi(\mu/\sigma) - 1)

        Examples
        --------
        >>> GaussianMixture(torch.zeros(1, 1), torch.ones(1, 1)).crps([0.0]).round(4)
        array([0.2337])
        """
        return self._over_cells(mixtures.crps, y)

    def quantile(self, q: Numbers) -> FloatArray:
        """Value below which the mixture has probability `q`: the root of ``cdf(x) = q``.

        Parameters
        ----------
        q : float or array of shape [Q]
            Between 0 and 1; 0 gives ``-inf`` and 1 gives ``inf``.

        Returns
        -------
        ndarray of shape [N] or [N, P] for a single q; [Q, N] or [Q, N, P] for a list
            The cdf there equals q to 1e-10 of the smaller tail, or as near as float64 allows. Where the cdf is flat at
            q, between distant components, it may be any value of the gap.

        Examples
        --------
        >>> GaussianMixture(torch.zeros(1, 2), torch.ones(1, 2)).quantile([0.05, 0.95]).round(3)
        array([[-1.645, -1.645],
               [ 1.645,  1.645]])
        """
        levels = checked_levels(q)
        each = np.broadcast_to(levels.reshape(*levels.shape, *[1] * len(self._shape)), (*levels.shape, *self._shape))
        return self._quantiles(mixtures.quantile, each)

    def quantile_at(self, scores: FloatArray) -> FloatArray:
        """Quantiles at levels of every row and output, as normal scores [..., N] or [..., N, P], in both tails exact.

        >>> GaussianMixture(torch.zeros(1, 2), torch.ones(1, 2)).quantile_at(np.array([0.0, 20.0]))
        array([ 0., 20.])
        """
        return self._quantiles(mixtures.quantile_at_score, scores)

    def _quantiles(self, function: CellFunction, levels: FloatArray) -> FloatArray:
        flat, n_cells = torch.from_numpy(levels.reshape(-1).copy()).to(self._mu.device), self._mu.shape[1]
        found = torch.empty_like(flat)
        for block in mixtures.blocks(len(found), self.n_components):
            column = torch.arange(block.start, block.stop, device=found.device)
            found[block] = function(*self._components(column % n_cells), flat[block])
        return to_numpy(found.reshape(levels.shape))

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Ends, each [N] or [N, P], of the central interval of probability `level`, between 0 and 1.

        Examples
        --------
        >>> dist = GaussianMixture(torch.tensor([[0.0, 5.0], [2.0, 5.0]]), torch.ones(2, 2))
        >>> low, high = dist.interval(0.9)
        >>> low.round(2), high.round(2)
        (array([-1.28,  3.36]), array([3.28, 6.64]))
        """
        tail = mixtures.tail_probability(level)
        lower, upper = self.quantile([tail, 1 - tail])
        return lower, upper

    def sample(self, n_samples: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Draws from the mixture, [n_samples, N] or [n_samples, N, P].

        One draw takes all its rows and outputs from one component, so that sums and differences over rows have the
        right spread; noise is independent in each. Without a `random_state` entropy is fresh; no global seed is used.

        Examples
        --------
        >>> GaussianMixture(torch.zeros(1, 2), torch.ones(1, 2)).sample(10, random_state=0).shape
        (10, 2)
        """
        check_draws(n_samples)
        rng = np.random.default_rng(random_state)
        component = rng.integers(self.n_components, size=n_samples)
        # All noise is drawn at once, on the CPU: neither chunks nor device change the draws of a seed.
        draws = rng.standard_normal((n_samples, self._mu.shape[1]))
        uniform = rng.random(draws.shape) if len(self._outliers.mu) else None
        for block in mixtures.blocks(draws.shape[1], max(self.n_components, n_samples)):
            mu, var = self._mu[:, block], self._var[:, block]
            drawn = draws[:, block] * to_numpy(var.sqrt())[component] + to_numpy(mu)[component]
            if uniform is not None:
                drawn = self._outliers.of_cells(block).put_into(drawn, draws[:, block], uniform[:, block])
            draws[:, block] = drawn
        return draws.reshape(n_samples, *self._shape)

    def align(self, y: Numbers) -> FloatArray:
        """Observations as an array of the distribution's shape; InputError if they do not fit or one is missing.

        Examples
        --------
        >>> GaussianMixture(torch.zeros(1, 2), torch.ones(1, 2)).align(1.0)
        array([1., 1.])
        """
        return aligned(y, self._shape)

    def _over_cells(self, function: CellFunction, y: Numbers) -> FloatArray:
        """A function of means, variances, weights [T, C] and y [C], applied to blocks of cells."""
        flat = torch.from_numpy(self.align(y).reshape(-1)).to(self._mu.device)
        result = torch.empty_like(flat)
        for block in mixtures.blocks(len(flat), self.n_components):
            result[block] = function(*self._components(block), flat[block])
        return self._result(result)

    def _components(
        self, cells: slice | Int64[Tensor, " K"]
    ) -> tuple[mixtures.Components, mixtures.Components, mixtures.Components]:
        """Means, variances and relative weights of some cells; outliers are further components."""
        return self._outliers.of_cells(cells).added_to(self._mu[:, cells], self._var[:, cells])

    def _result(self, values: mixtures.Cells) -> FloatArray:
        return to_numpy(values.reshape(self._shape))

    def _like(
        self, mu: mixtures.Components, var: mixtures.Components, shape: tuple[int, ...], outliers: Outliers
    ) -> GaussianMixture:
        """A mixture with results of this shape, these outliers, and as many threads as this one."""
        parts = (values.reshape(len(values), *shape) for values in (mu, var))
        mixture = GaussianMixture(*parts, n_threads=self.n_threads)
        mixture._outliers = outliers
        return mixture
