"""The base of predictive distributions that are weighted mixtures of one family: Poisson, negative binomial, Student.

C components, N rows, P outputs. Marginal quantities of a cell, which is one row and output, depend on no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from sodgp.errors import InputError
from sodgp.predictive.contract import Units, aligned, check_draws, checked_levels
from sodgp.predictive.density import tail_probability
from sodgp.system.validation import FloatArray, Numbers, refuse_entries, to_array, without_tensors

__all__ = ["WeightedMixture"]

# Numbers of the largest temporary array.
_CHUNK_ELEMENTS = 2**20


# Not typing.Self, which the run-time check of the tests does not know.
W = TypeVar("W", bound="WeightedMixture")


class WeightedMixture(ABC):
    """Base: the mixture of `centre` [C, N, P] and further numbers [C, P] of every component.

    Results are NumPy arrays, ``[N, P]``, or ``[N]`` where `is_vector`. Temporary memory does not grow with N.

    Parameters
    ----------
    log_weights : ndarray of shape [C]
    centre : ndarray of shape [C, N, P]
    further : tuple of ndarray of shape [C, P]
    is_vector : bool
    """

    def __init__(
        self, log_weights: FloatArray, centre: FloatArray, further: tuple[FloatArray, ...], *, is_vector: bool = False
    ) -> None:
        if centre.ndim != 3 or log_weights.shape != centre.shape[:1] or not len(log_weights):
            raise InputError(
                "the components must have the shape [C, N, P], with C >= 1 and a log weight each; got"
                f" {list(centre.shape)} and {list(log_weights.shape)}"
            )
        if is_vector and centre.shape[2] != 1:
            raise InputError(f"results of {centre.shape[2]} outputs are no vectors")
        for name, values in (("log_weights", log_weights), ("components", centre)):
            refuse_entries(~np.isfinite(values), name, "not finite", values)
        self._log_w = log_weights - logsumexp(log_weights)
        self._centre, self._further, self._is_vector = centre, further, is_vector

    # What a family is ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _moments(self, centre: FloatArray, further: tuple[FloatArray, ...]) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the components."""

    @abstractmethod
    def _log_density(self, y: FloatArray, centre: FloatArray, further: tuple[FloatArray, ...]) -> FloatArray:
        """Log densities, or log probabilities, of the components at y."""

    @abstractmethod
    def _cdf(self, y: FloatArray, centre: FloatArray, further: tuple[FloatArray, ...]) -> FloatArray:
        """P(Y <= y) under the components."""

    @abstractmethod
    def _draw(
        self, rng: np.random.Generator, centre: FloatArray, further: tuple[FloatArray, ...]
    ) -> NDArray[np.float64]:
        """One draw of each."""

    @abstractmethod
    def _crps_of_cells(self, y: FloatArray, cells: Cells) -> FloatArray:
        """The continuous ranked probability score at y [K] of K cells."""

    @abstractmethod
    def _quantile_of_cells(self, q: float, cells: Cells) -> FloatArray:
        """The quantile of K cells for a probability strictly between 0 and 1."""

    # -----------------------------------------------------------------------------------------------------------------

    @property
    def n_components(self) -> int:
        """Number C of components."""
        return len(self._log_w)

    @property
    def n_outputs(self) -> int:
        """Number P of outputs."""
        return self._centre.shape[2]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of results, (N,) or (N, P)."""
        return (len(self),) if self._is_vector else self._centre.shape[1:]

    def __len__(self) -> int:
        return self._centre.shape[1]

    def __repr__(self) -> str:
        sizes = f"n_components={self.n_components}, n_rows={len(self)}, n_outputs={self.n_outputs}"
        return f"{type(self).__name__}({sizes})"

    def __getitem__(self: W, rows: Any) -> W:
        """Mixture of some rows (int, slice, integer or boolean array); an int keeps the row axis, with length 1."""
        index = np.arange(len(self))[without_tensors(rows)].reshape(-1)
        return self._with(self._log_w, self._centre[:, index], self._further)

    @property
    def mean(self) -> FloatArray:
        """Mean of the mixture, [N] or [N, P]."""
        return self._over_cells(lambda cells: cells.average(self._moments(*cells.components)[0]))

    @property
    def variance(self) -> FloatArray:
        """Variance of the mixture: mean of the variances plus variance of the means."""

        def variance(cells: Cells) -> FloatArray:
            mean, within = self._moments(*cells.components)
            return cells.average(within) + cells.average(np.square(mean - cells.average(mean)))

        return self._over_cells(variance)

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the mixture."""
        return np.sqrt(self.variance)

    def log_prob(self, y: Numbers) -> FloatArray:
        """Log density, or log probability, of every row and output at y, [N] or [N, P]."""
        return self._over_cells(lambda cells, at: cells.log_average(self._log_density(at, *cells.components)), y)

    def cdf(self, y: Numbers) -> FloatArray:
        """Probability of a value up to y, in the shape of `log_prob`."""
        return self._over_cells(lambda cells, at: cells.average(self._cdf(at, *cells.components)), y)

    def sf(self, y: Numbers) -> FloatArray:
        """Probability of a value above y, in the shape of `log_prob`."""
        return self._over_cells(lambda cells, at: cells.average(self._sf(at, *cells.components)), y)

    def _sf(self, y: FloatArray, centre: FloatArray, further: tuple[FloatArray, ...]) -> FloatArray:
        """P(Y > y) under the components."""
        return 1.0 - self._cdf(y, centre, further)

    def crps(self, y: Numbers) -> FloatArray:
        """Continuous ranked probability score, in the units of y; smaller is better."""
        return self._over_cells(lambda cells, at: self._crps_of_cells(at, cells), y)

    def quantile(self, q: Numbers) -> FloatArray:
        """Quantiles, [N] or [N, P] for a single q, with an axis in front for a list.

        Parameters
        ----------
        q : float or array of shape [Q]
            Between 0 and 1.
        """
        levels = checked_levels(q)

        def at(level: float) -> FloatArray:
            if level in (0.0, 1.0):
                return np.full(self.mean.shape, self._least if level == 0.0 else np.inf)
            return self._over_cells(lambda cells: self._quantile_of_cells(level, cells))

        if levels.ndim == 0:
            return at(float(levels))
        return np.stack([at(float(level)) for level in levels]) if len(levels) else np.empty((0, *self.mean.shape))

    # The smallest possible value.
    _least = -np.inf

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Ends, each [N] or [N, P], of the central interval of probability `level`."""
        tail = tail_probability(level)
        low, high = self.quantile([tail, 1 - tail])
        return low, high

    def sample(self, n_samples: int = 1, random_state: int | np.random.Generator | None = None) -> FloatArray:
        """Draws, [n_samples, N] or [n_samples, N, P]; one draw takes all its rows and outputs from one component."""
        check_draws(n_samples)
        rng = np.random.default_rng(random_state)
        chosen = rng.choice(self.n_components, size=n_samples, p=np.exp(self._log_w))
        draws = self._draw(rng, self._centre[chosen], tuple(each[chosen, None] for each in self._further))
        return draws[..., 0] if self._is_vector else draws

    def align(self, y: Numbers) -> FloatArray:
        """Observations as an array of the distribution's shape; InputError if they do not fit or one is missing."""
        return aligned(y, self.shape)

    @classmethod
    def concatenate(cls: type[W], parts: Sequence[Any]) -> W:
        """The rows of all parts, which are of one model."""
        first = _one_kind(parts, cls)
        if any(len(p._log_w) != len(first._log_w) or p.n_outputs != first.n_outputs for p in parts):
            raise InputError("concatenate needs equal numbers of components and outputs")
        return first._with(first._log_w, np.concatenate([p._centre for p in parts], axis=1), first._further)

    @classmethod
    def pool(cls: type[W], members: Sequence[Any]) -> W:
        """The equal mixture of many models' predictions of the same rows."""
        first = _one_kind(members, cls)
        if any(m._centre.shape[1:] != first._centre.shape[1:] for m in members):
            raise InputError("pooled mixtures must agree in rows and outputs")
        further = tuple(np.concatenate(each) for each in zip(*(m._further for m in members), strict=True))
        weights, centre = np.concatenate([m._log_w for m in members]), np.concatenate([m._centre for m in members])
        return first._with(weights, centre, further)

    def in_units(self: W, units: Units) -> W:
        """The same in the shape of y."""
        return self._with(self._log_w, self._centre, self._further, is_vector=units.is_vector)

    def _with(
        self: W,
        log_weights: FloatArray,
        centre: FloatArray,
        further: tuple[FloatArray, ...],
        *,
        is_vector: bool | None = None,
    ) -> W:
        """A distribution of the same family."""
        other = object.__new__(type(self))
        shape = self._is_vector if is_vector is None else is_vector
        WeightedMixture.__init__(other, log_weights, centre, further, is_vector=shape)
        return other

    def _over_cells(self, function: Callable[..., FloatArray], y: Numbers | None = None) -> FloatArray:
        """A function of cells, and of y [K] there, applied to blocks of cells."""
        shape = self._centre.shape[1:]
        flat = self._centre.reshape(self.n_components, -1)
        at = None if y is None else self.align(y).reshape(-1)
        result = np.empty(flat.shape[1])
        size = max(1, _CHUNK_ELEMENTS // self.n_components)
        outputs = np.tile(np.arange(shape[1]), shape[0])
        for start in range(0, len(result), size):
            block = slice(start, start + size)
            cells = Cells(self._log_w, flat[:, block], tuple(each[:, outputs[block]] for each in self._further))
            result[block] = function(cells) if at is None else function(cells, at[block])
        return result if self._is_vector else result.reshape(shape)


class Cells:
    """Components of K cells: `components` are the centres and the further numbers, each [C, K]."""

    def __init__(self, log_weights: FloatArray, centre: FloatArray, further: tuple[FloatArray, ...]) -> None:
        self.log_weights = log_weights[:, None]
        self.weights = np.exp(self.log_weights)
        self.components = (centre, further)

    def average(self, values: FloatArray) -> FloatArray:
        """The mean over components, of [C, K]."""
        return np.asarray((self.weights * values).sum(0))

    def log_average(self, values: FloatArray) -> FloatArray:
        """The log of the mean of exp(values)."""
        return np.asarray(logsumexp(self.log_weights + values, axis=0))

    def of(self, chosen: slice | NDArray[Any]) -> Cells:
        """Some of the cells."""
        centre, further = self.components
        return Cells(self.log_weights[:, 0], centre[:, chosen], tuple(each[:, chosen] for each in further))


def _one_kind(parts: Sequence[Any], cls: type[Any]) -> Any:
    if not parts or not all(isinstance(part, cls) for part in parts):
        raise InputError(f"{cls.__name__} needs at least one distribution of its kind")
    return parts[0]


def per_component(values: Numbers, name: str, count: int, outputs: int) -> FloatArray:
    """Positive numbers [P] or one for all, as [C, P]."""
    array = np.atleast_1d(to_array(values, name))
    if array.shape not in ((1,), (outputs,)):
        raise InputError(f"{name} must be one number or {outputs}, one for each output; got {list(array.shape)}")
    refuse_entries(~(np.isfinite(array) & (array > 0)), name, "not positive", array)
    return np.broadcast_to(array, (count, outputs))
