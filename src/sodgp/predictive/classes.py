"""The predictive distribution of a classifier: class probabilities, and how uncertain they are themselves.

S draws of the latent function, N rows, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import InputError, InputTypeError
from sodgp.predictive.contract import Units
from sodgp.predictive.density import tail_probability
from sodgp.system.validation import FloatArray, Numbers, refuse_entries, to_array, to_rows, without_tensors

__all__ = ["ClassDistribution"]

# Probabilities may miss a sum of one by this much, which is rounding in float32.
_SUM_TOLERANCE = 1e-4


class ClassDistribution:
    r"""Class probabilities of every row.

    .. math:: p(y_n = k) = \int p(y_n = k \mid f_n)\, q(f_n)\, df_n

    `mean` has these integrals. Under a draw of f the probabilities are `draws`: their spread is what the model does not
    know yet (more data would reduce it), whereas a mean near 1/K with equal draws is a row whose classes overlap.

    Parameters
    ----------
    mean : array of shape [N, K]
        Probabilities, which sum to one over classes.
    draws : array of shape [S, N, K]
        Probabilities given draws of f.
    classes : array of shape [K], optional
        Labels of the classes; 0 to K - 1 if left out.

    Raises
    ------
    InputError
        If the shapes differ, or a number is not a probability.

    Examples
    --------
    >>> dist = ClassDistribution([[0.8, 0.2]], [[[0.9, 0.1]], [[0.7, 0.3]]], classes=["no", "yes"])
    >>> dist.mean, dist.std.round(2), dist.mode
    (array([[0.8, 0.2]]), array([[0.1, 0.1]]), array(['no'], dtype='<U3'))
    >>> dist.log_prob(["yes"]).round(3)
    array([-1.609])
    """

    def __init__(self, mean: Numbers, draws: Numbers, classes: Any = None) -> None:
        p, each = to_array(mean, "mean"), to_array(draws, "draws")
        if p.ndim != 2 or each.ndim != 3 or each.shape[1:] != p.shape or not len(each) or p.shape[1] < 2:
            raise InputError(
                "mean must have the shape [N, K] with K >= 2 classes, and draws [S, N, K] with S >= 1; got"
                f" {list(p.shape)} and {list(each.shape)}"
            )
        for name, values in (("mean", p), ("draws", each)):
            bad = ~(np.isfinite(values) & (values >= -_SUM_TOLERANCE) & (values <= 1 + _SUM_TOLERANCE))
            refuse_entries(bad, name, "no probabilities", values)
            off = np.abs(values.sum(-1) - 1.0) > _SUM_TOLERANCE
            refuse_entries(off, f"the sum of {name} over classes", "not one", values.sum(-1))
        labels = np.arange(p.shape[1]) if classes is None else np.asarray(classes)
        if labels.shape != p.shape[1:]:
            raise InputError(f"classes must name the {p.shape[1]} classes; got {list(labels.shape)} labels")
        self._mean, self._draws = _normalised(p), _normalised(each)
        self.classes: NDArray[Any] = labels

    @property
    def mean(self) -> FloatArray:
        """Predictive probability of every class, [N, K]."""
        return self._mean

    @property
    def draws(self) -> FloatArray:
        """Class probabilities under draws of f, [S, N, K]."""
        return self._draws

    @property
    def variance(self) -> FloatArray:
        """Variance of the class probabilities over draws of f, [N, K]."""
        return self._draws.var(0)

    @property
    def std(self) -> FloatArray:
        """Standard deviation of the class probabilities over draws of f, [N, K]."""
        return self._draws.std(0)

    @property
    def mode(self) -> NDArray[Any]:
        """The label with the largest probability, [N]."""
        result: NDArray[Any] = self.classes[self._mean.argmax(1)]
        return result

    @property
    def entropy(self) -> FloatArray:
        """Entropy of `mean` in nats, [N]: how uncertain the label is, for whatever reason."""
        return _entropy(self._mean)

    @property
    def mutual_information(self) -> FloatArray:
        """Entropy of `mean` minus the mean entropy of the draws, [N]: what a label would say about f ("BALD")."""
        return np.maximum(_entropy(self._draws.mean(0)) - _entropy(self._draws).mean(0), 0.0)

    @property
    def n_classes(self) -> int:
        """Number K of classes."""
        return self._mean.shape[1]

    def __len__(self) -> int:
        return len(self._mean)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_rows={len(self)}, n_classes={self.n_classes}, n_draws={len(self._draws)})"

    def __getitem__(self, rows: Any) -> ClassDistribution:
        """Distribution of some rows (int, slice, integer or boolean array); an int keeps the row axis, of length 1."""
        index = np.arange(len(self))[without_tensors(rows)].reshape(-1)
        return _distribution(self._mean[index], self._draws[:, index], self.classes)

    @classmethod
    def concatenate(cls, parts: Sequence[ClassDistribution]) -> ClassDistribution:
        """The rows of all parts, which have equal classes and numbers of draws.

        Examples
        --------
        >>> dist = ClassDistribution([[0.8, 0.2]], [[[0.8, 0.2]]])
        >>> len(ClassDistribution.concatenate([dist, dist]))
        2
        """
        _check_alike(parts, "concatenate", rows=False)
        mean, draws = np.concatenate([p._mean for p in parts]), np.concatenate([p._draws for p in parts], axis=1)
        return _distribution(mean, draws, parts[0].classes)

    @classmethod
    def pool(cls, members: Sequence[ClassDistribution]) -> ClassDistribution:
        """The equal mixture of many models' predictions of the same rows.

        Examples
        --------
        >>> one, other = (ClassDistribution([[p, 1 - p]], [[[p, 1 - p]]]) for p in (0.8, 0.4))
        >>> ClassDistribution.pool([one, other]).mean.round(3)
        array([[0.6, 0.4]])
        """
        _check_alike(members, "pool", rows=True)
        mean = np.mean([m._mean for m in members], axis=0)
        return _distribution(mean, np.concatenate([m._draws for m in members]), members[0].classes)

    def log_prob(self, labels: Any) -> FloatArray:
        """Log probability of a label for each row, [N]; or of one label for all rows.

        Parameters
        ----------
        labels : array of shape [N], or one label

        Raises
        ------
        InputError
            For a label that is none of `classes`.
        """
        codes = self.codes(labels)
        with np.errstate(divide="ignore"):
            return np.log(self._mean[np.arange(len(self)), codes])

    def codes(self, labels: Any) -> NDArray[np.int64]:
        """Positions of labels in `classes`, [N]; InputError for one that is not there."""
        values = to_rows(labels, "labels")
        values = np.full(len(self), values) if values.ndim == 0 else values
        if values.shape not in ((len(self),), (len(self), 1)):
            raise InputError(f"labels must have the shape [{len(self)}]; got {list(values.shape)}")
        return codes_of(values.reshape(-1), self.classes)

    def quantile(self, q: Numbers) -> FloatArray:
        """Quantiles of the class probabilities over draws of f, [N, K] for one q or [Q, N, K] for a list.

        Examples
        --------
        >>> p = np.linspace(0.1, 0.5, 5)[:, None, None]
        >>> ClassDistribution([[0.3, 0.7]], np.concatenate([p, 1 - p], axis=2)).quantile(0.5)
        array([[0.3, 0.7]])
        """
        levels = to_array(q, "q")
        if levels.ndim > 1 or not np.all((levels >= 0) & (levels <= 1)):
            raise InputError(f"q must be one probability or a list of them, between 0 and 1; got {q!r}")
        return np.quantile(self._draws, levels, axis=0)

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Ends, each [N, K], of the central interval of the class probabilities over draws of f."""
        tail = tail_probability(level)
        low, high = self.quantile([tail, 1 - tail])
        return low, high

    def sample(self, n_samples: int = 1, random_state: int | np.random.Generator | None = None) -> NDArray[Any]:
        """Random labels, [n_samples, N], independently for every row.

        Examples
        --------
        >>> ClassDistribution([[1.0, 0.0]], [[[1.0, 0.0]]], ["a", "b"]).sample(2, random_state=0)
        array([['a'],
               ['a']], dtype='<U1')
        """
        if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise InputError(f"n_samples must be an integer of at least 1; got {n_samples!r:.100}")
        uniform = np.random.default_rng(random_state).random((n_samples, len(self), 1))
        codes = (uniform >= self._mean.cumsum(1)[None, :, :-1]).sum(-1)
        result: NDArray[Any] = self.classes[codes]
        return result

    def tempered(self, power: float) -> ClassDistribution:
        """With all probabilities to a power, and scaled to a sum of one again.

        Examples
        --------
        >>> ClassDistribution([[0.8, 0.2]], [[[0.8, 0.2]]]).tempered(0.5).mean.round(3)
        array([[0.667, 0.333]])
        """

        def scaled(p: FloatArray) -> FloatArray:
            # Relative to the largest one, or all could be rounded to zero.
            return _normalised((p / p.max(-1, keepdims=True)) ** power)

        return _distribution(scaled(self._mean), scaled(self._draws), self.classes)

    def in_units(self, units: Units) -> ClassDistribution:
        """The same distribution with the labels of the units."""
        return self if units.classes is None else _distribution(self._mean, self._draws, units.classes)

    def around_mean(self, factor: float) -> ClassDistribution:
        """The distribution itself: probabilities cannot be scaled around their mean, and `factor` must be 1."""
        if factor != 1.0:
            raise InputError(f"class probabilities have no spread to be scaled by {factor!r}; use 1")
        return self


def _distribution(mean: FloatArray, draws: FloatArray, classes: NDArray[Any]) -> ClassDistribution:
    """A distribution of numbers that are probabilities already, bit for bit."""
    dist = object.__new__(ClassDistribution)
    dist._mean, dist._draws, dist.classes = mean, draws, classes
    return dist


def codes_of(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Positions of labels [N] in `classes` [K], in ascending order; InputError that names labels which are not there.

    Examples
    --------
    >>> codes_of(np.array(["b", "a"]), np.array(["a", "b"]))
    array([1, 0])
    """
    places = {label: place for place, label in enumerate(classes.tolist())}
    try:
        found = [places.get(label, -1) for label in labels.tolist()]
    except TypeError as error:
        raise InputTypeError(f"labels are text, whole numbers or booleans: {error}.") from error
    codes = np.array(found, dtype=np.int64)
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        raise InputError(
            f"the label {labels.tolist()[row]!r} in row {row} is none of the {len(classes)} classes that the model was"
            f" fitted to, {shown(classes)}."
        )
    return codes


def shown(classes: NDArray[Any], limit: int = 10) -> str:
    """Labels for a message."""
    names = ", ".join(repr(label) for label in classes.tolist()[:limit])
    return names if len(classes) <= limit else f"{names}, ..."


def _normalised(p: FloatArray) -> FloatArray:
    p = p.clip(0.0, 1.0)
    return p / p.sum(-1, keepdims=True)


def _entropy(p: FloatArray) -> FloatArray:
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(-1)


def _check_alike(parts: Sequence[ClassDistribution], what: str, *, rows: bool) -> None:
    if not parts:
        raise InputError(f"{what} needs at least one distribution")
    first = parts[0]
    for i, other in enumerate(parts):
        same = np.array_equal(other.classes, first.classes) and (
            len(other) == len(first) if rows else len(other.draws) == len(first.draws)
        )
        if not same:
            raise InputError(f"distribution {i}, {other!r}, does not go with {first!r}: {what} needs equal shapes")
