"""Class probabilities of rows whose labels are known, and scores with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sodgp.errors import InputError
from sodgp.estimator.columns import in_parts
from sodgp.estimator.describe import target_names
from sodgp.evaluation.rows import check_rows
from sodgp.evaluation.scores import Score, joined_weights
from sodgp.predictive.classes import codes_of
from sodgp.system.readable import check_readable
from sodgp.system.validation import FloatArray, to_rows

if TYPE_CHECKING:
    from sodgp.estimator.classifier import DeepGPClassifier

__all__ = ["BINS", "ClassEvaluation", "evaluate_classes"]

BINS = 10
_CHUNK_ROWS = 20_000
# Log loss of a label whose probability is rounded to zero: float64 has none between.
_LEAST = float(np.finfo(np.float64).tiny)
_SIMULATIONS = 1000


@dataclass(frozen=True)
class ClassEvaluation:
    """Class probabilities of N rows, and their labels.

    Attributes
    ----------
    targets : tuple of str, length 1
    classes : ndarray of shape [K]
    y : ndarray of shape [N]
        Labels as places in `classes`.
    probability : ndarray of shape [N, K]
    base : ndarray of shape [K]
        Shares of the classes in the training rows: a forecast that ignores the inputs.
    weight : ndarray of shape [N], optional
        How often each row counts in the scores; pictures and tables count rows.

    Examples
    --------
    >>> from sodgp import DeepGPClassifier
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPClassifier(n_layers=1, max_iter=50, random_state=0).fit(X, X[:, 0] > 0)
    >>> evaluation = evaluate_classes(model, X, X[:, 0] > 0)
    >>> len(evaluation), evaluation.confusion.tolist()
    (30, [[15, 0], [0, 15]])
    """

    targets: tuple[str, ...]
    classes: NDArray[Any]
    y: NDArray[np.int64]
    probability: FloatArray
    base: FloatArray
    weight: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def predicted(self) -> NDArray[np.int64]:
        """The class with the largest probability, as a place in `classes`, [N]."""
        return np.asarray(self.probability.argmax(1))

    @property
    def top(self) -> FloatArray:
        """The largest probability, [N]."""
        return np.asarray(self.probability.max(1))

    @property
    def log_prob(self) -> FloatArray:
        """Log probability of the labels, [N]."""
        return np.log(np.maximum(self.probability[np.arange(len(self)), self.y], _LEAST))

    @property
    def confusion(self) -> NDArray[np.int64]:
        """Rows by label (first axis) and predicted class, [K, K]."""
        count = len(self.classes)
        return np.bincount(self.y * count + self.predicted, minlength=count**2).reshape(count, count)

    def reliability(self, bins: int = BINS) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
        """Mean top probability, share of right labels and number of rows in bins of equal width; nan without rows."""
        place = _bins_of(self.top, bins)
        rows = np.bincount(place, minlength=bins)
        sums = (np.bincount(place, each, minlength=bins) for each in (self.top, self.y == self.predicted))
        confidence, accuracy = (np.where(rows > 0, each / np.maximum(rows, 1), np.nan) for each in sums)
        return confidence, accuracy, rows

    def scores(self, target: int = 0, *, n_bootstrap: int = 1000, random_state: int = 0) -> dict[str, Score]:
        """Scores, with 95 % intervals by the bootstrap over rows.

        Parameters
        ----------
        target : int
            0, the only target.
        n_bootstrap : int
            Resamples, at least 2; 0 for scores alone.
        random_state : int, of the resamples

        Returns
        -------
        dict of str to Score
            ``log_loss`` and ``brier`` (for two classes half the sum over classes, as in scikit-learn), ``accuracy``,
            ``roc_auc`` (for more than two classes the mean of each class against the rest), ``ece`` (expected
            calibration error of the top label in ten bins of equal width), ``ece_chance`` (95 % point of the ECE of a
            perfectly calibrated model with these probabilities), and ``base_log_loss`` and ``base_accuracy`` of the
            forecast that ignores the inputs.
        """
        if target != 0:
            raise InputError(f"there is one target, 0, and not {target}.")
        rows = _Rows(self)
        weight = np.ones(len(self)) if self.weight is None else self.weight
        point = {name: float(value) for name, value in rows.scores(weight).items()}
        generator = np.random.default_rng(random_state)
        chance = self._ece_by_chance(generator)
        if n_bootstrap >= 2 and len(self) > 1:
            draws = [
                rows.scores(weight * np.bincount(generator.integers(len(self), size=len(self)), minlength=len(self)))
                for _ in range(n_bootstrap)
            ]
            ends = {name: np.nanquantile([draw[name] for draw in draws], [0.025, 0.975]) for name in _defined(point)}
        else:
            ends = {name: np.full(2, value if n_bootstrap < 2 else np.nan) for name, value in point.items()}
        nothing = np.full(2, np.nan)
        found = {name: Score(value, *map(float, ends.get(name, nothing))) for name, value in point.items()}
        order = [name for name in found if not name.startswith("base")]
        return {**{k: found[k] for k in order}, "ece_chance": Score(chance, chance, chance), **found}

    def _ece_by_chance(self, generator: np.random.Generator) -> float:
        """95 % point of the ECE where labels are drawn from the probabilities."""
        place, top = _bins_of(self.top, BINS), self.top
        weight = np.ones(len(self)) if self.weight is None else self.weight
        values = [_ece(place, top, generator.random(len(self)) < top, weight) for _ in range(_SIMULATIONS)]
        return float(np.quantile(values, 0.95))


def evaluate_classes(
    model: DeepGPClassifier,
    X: Any,
    y: Any,
    *,
    targets: Sequence[str] | None = None,
    classes: NDArray[Any] | None = None,
) -> ClassEvaluation:
    """Predict rows whose labels are known; `sodgp.evaluation.evaluate` does it for any estimator.

    Parameters
    ----------
    model : DeepGPClassifier
        Fitted.
    X, y : array or data frame of shape [N, D] and [N]
    targets : sequence of str or None
        The name of the target; None takes the model's.
    classes : ndarray of shape [K], optional
        Labels in ascending order, where the model may lack some: it gives those no probability.

    Raises
    ------
    InputError
        Rows do not fit the model, or a label is missing or of none of its classes.
    """
    check_is_fitted(model)
    names = target_names(model) if targets is None else list(targets)
    if len(names) != 1:
        raise InputError(f"targets has {len(names)} names, but a classifier has 1 target.")
    check_readable(X, "X")
    labels = to_rows(y, "y")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(f"y must have the shape [N], not {list(labels.shape)}.")
    check_rows(X, labels)
    all_classes = model.classes_ if classes is None else classes
    codes, rows = codes_of(labels, all_classes), in_parts(model, X)
    starts = range(0, len(codes), _CHUNK_ROWS)
    found = np.concatenate([model.predict_proba(rows[start : start + _CHUNK_ROWS]) for start in starts])
    seen = model.fitted_.columns.class_rows
    assert seen is not None
    probability, base = np.zeros((len(codes), len(all_classes))), np.zeros(len(all_classes))
    place = codes_of(model.classes_, all_classes)
    probability[:, place], base[place] = found, seen / seen.sum()
    return ClassEvaluation(tuple(names), all_classes, codes, probability, base)


def joined_classes(parts: Sequence[ClassEvaluation], order: NDArray[np.int64]) -> ClassEvaluation:
    """The rows of several evaluations, such as those of folds, in one; `order` sorts them.

    The shares of the classes in training are averaged over the parts by their rows.
    """
    place, first = np.argsort(order), parts[0]
    y, probability = (
        np.concatenate(values)[place] for values in zip(*((p.y, p.probability) for p in parts), strict=True)
    )
    base = np.average([part.base for part in parts], axis=0, weights=[len(part) for part in parts])
    return ClassEvaluation(first.targets, first.classes, y, probability, base, joined_weights(parts, place))


class _Rows:
    """What the scores need of every row, computed once for all resamples."""

    def __init__(self, evaluation: ClassEvaluation) -> None:
        p, y, base = evaluation.probability, evaluation.y, evaluation.base
        one_hot = np.eye(len(evaluation.classes))[y]
        half = 0.5 if len(evaluation.classes) == 2 else 1.0
        self._means = {
            "log_loss": -evaluation.log_prob,
            "brier": half * np.square(p - one_hot).sum(1),
            "accuracy": (y == evaluation.predicted).astype(np.float64),
            "base_log_loss": -np.log(np.maximum(base[y], _LEAST)),
            "base_accuracy": (y == base.argmax()).astype(np.float64),
        }
        self._top, self._right, self._bin = evaluation.top, y == evaluation.predicted, _bins_of(evaluation.top, BINS)
        columns = range(1, 2) if len(evaluation.classes) == 2 else range(len(evaluation.classes))
        # Ranks of the probabilities of a class, and whether the label is that class.
        self._ranks = [(np.unique(p[:, k], return_inverse=True)[1], y == k) for k in columns]

    def scores(self, weight: FloatArray | NDArray[np.int64]) -> dict[str, float]:
        """All scores of the rows with these multiplicities."""
        total = weight.sum()
        means = {name: float(weight @ values / total) for name, values in self._means.items()}
        ece = _ece(self._bin, self._top, self._right, weight)
        areas = [_area(ranks, is_class, weight) for ranks, is_class in self._ranks]
        areas = [area for area in areas if not np.isnan(area)]
        area = float(np.mean(areas)) if areas else float("nan")
        scores = {name: means[name] for name in ("log_loss", "brier", "accuracy")}
        return {**scores, "roc_auc": area, "ece": ece, **{k: means[k] for k in ("base_log_loss", "base_accuracy")}}


def _ece(
    place: NDArray[np.int64], top: FloatArray, right: NDArray[np.bool_], weight: FloatArray | NDArray[np.int64]
) -> float:
    """Sum over bins of the share of rows times |accuracy - mean probability|."""
    return float(np.abs(np.bincount(place, weight * (right - top))).sum() / weight.sum())


def _area(ranks: NDArray[np.int64], is_class: NDArray[np.bool_], weight: FloatArray | NDArray[np.int64]) -> float:
    """Area under the ROC curve: the probability that a row of the class ranks above another; nan without either."""
    inside = np.bincount(ranks, weight * is_class)
    outside = np.bincount(ranks, weight * ~is_class)
    pairs = inside.sum() * outside.sum()
    if not pairs:
        return float("nan")
    return float((inside * (outside.cumsum() - 0.5 * outside)).sum() / pairs)


def _bins_of(p: FloatArray, bins: int) -> NDArray[np.int64]:
    return np.minimum((p * bins).astype(np.int64), bins - 1)


def _defined(values: dict[str, float]) -> list[str]:
    return [name for name, value in values.items() if not np.isnan(value)]
