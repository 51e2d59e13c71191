"""Predictions for rows whose targets are known, and scores with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
from numpy.typing import NDArray
from scipy.stats import bootstrap
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sodgp.errors import InputError
from sodgp.estimator.classifier import DeepGPClassifier
from sodgp.estimator.columns import in_parts
from sodgp.estimator.describe import target_names
from sodgp.estimator.prepare import target_names_in
from sodgp.estimator.regressor import DeepGPRegressor
from sodgp.evaluation.pipelines import last_step
from sodgp.evaluation.rows import check_rows
from sodgp.predictive.counts import CountMixture
from sodgp.predictive.density import tail_probability
from sodgp.predictive.metrics import Numeric
from sodgp.system.validation import FloatArray, check_sample_weight, without_tensors

if TYPE_CHECKING:
    from sodgp.evaluation.classes import ClassEvaluation

__all__ = ["Evaluation", "Score", "evaluate", "joined", "observed"]

LEVEL = 0.9
_CHUNK_ROWS = 20_000
# Groups of rows that the bootstrap resamples: the cost of an interval does not grow with the data.
_MAX_GROUPS = 2_000
# Resamples that are held in memory at a time.
_BOOTSTRAP_BATCH = 100


@dataclass(frozen=True)
class Score:
    """A score and its interval.

    Attributes
    ----------
    value : float
    low, high : float
        Ends of the bootstrap interval; equal to `value` without a bootstrap, nan for a single row.

    Examples
    --------
    >>> Score(0.3, low=0.2, high=0.5).value
    0.3
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Predictions for N rows with P targets, and the observations; every array is [N, P], in original units.

    Attributes
    ----------
    targets : tuple of str, length P
    y : ndarray
        Observations.
    mean, std : ndarray
        Of the predictive distribution of y.
    low, high : ndarray
        Central interval of level 0.9.
    log_prob, crps, pit : ndarray
        Log density, continuous ranked probability score and cdf of the mixture at y.
    base_mean, base_std : ndarray
        Mean and standard deviation of the training targets: a forecast that ignores the inputs.
    is_count : bool
        Whether the targets are counts: the PIT is then randomised, and the forecast that ignores the inputs is negative
        binomial, or Poisson where the training targets vary less.
    weight : ndarray of shape [N], optional
        How often each row counts in scores and coverage.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, X[:, 0])
    >>> evaluation = evaluate(model, X, X[:, 0])
    >>> len(evaluation), evaluation.residual.shape
    (30, (30, 1))
    >>> evaluation
    Evaluation(30 rows)
      y: RMSE ..., R² ..., NLPP ..., 90 % coverage ... %
    """

    targets: tuple[str, ...]
    y: FloatArray
    mean: FloatArray
    std: FloatArray
    low: FloatArray
    high: FloatArray
    log_prob: FloatArray
    crps: FloatArray
    pit: FloatArray
    base_mean: FloatArray
    base_std: FloatArray
    is_count: bool = False
    weight: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        lines = [f"Evaluation({len(self):,} rows)"]
        for target, name in enumerate(self.targets):
            s = {key: score.value for key, score in self.scores(target, n_bootstrap=0).items()}
            lines.append(
                f"  {name}: RMSE {s['rmse']:.4g}, R² {s['r2']:.3f}, NLPP {s['nlpp']:.4g},"
                f" 90 % coverage {100 * s['coverage_90']:.0f} %"
            )
        return "\n".join(lines)

    @property
    def residual(self) -> FloatArray:
        """Observed minus predicted mean, [N, P]."""
        return self.y - self.mean

    @property
    def z(self) -> FloatArray:
        """Residuals in predictive standard deviations, [N, P]."""
        result: FloatArray = self.residual / self.std
        return result

    def scores(self, target: int = 0, *, n_bootstrap: int = 1000, random_state: int = 0) -> dict[str, Score]:
        """Scores of one target, with 95 % intervals by the bootstrap over rows.

        Parameters
        ----------
        target : int, column of the targets
        n_bootstrap : int
            Resamples, at least 2; 0 for scores alone.
        random_state : int, of the resamples

        Returns
        -------
        dict of str to Score
            ``nlpp``, ``rmse``, ``mae``, ``r2`` (against the mean of the training targets), ``crps``, ``coverage_50``,
            ``coverage_80``, ``coverage_90``, ``coverage_95``, ``width_90`` (mean width of the 90 % interval), and
            ``base_nlpp`` and ``base_rmse`` of the forecast that ignores the inputs.
        """
        rows, weight = self._row_values(target), self.weight
        average = rows.mean(0) if weight is None else np.average(rows, 0, weight)
        point = {name: float(value) for name, value in _scores_of(average).items()}
        if n_bootstrap < 2:
            return {name: Score(value, value, value) for name, value in point.items()}
        if len(rows) < 2:
            return {name: Score(value, np.nan, np.nan) for name, value in point.items()}
        generator = np.random.default_rng(random_state)
        sums, counts = _grouped(rows, generator, weight)

        def means(groups: NDArray[np.int64], axis: int) -> FloatArray:
            return np.moveaxis(sums[groups].sum(axis - 1) / counts[groups].sum(axis)[..., None], -1, 0)

        options = {"n_resamples": n_bootstrap, "batch": _BOOTSTRAP_BATCH, "method": "percentile", "rng": generator}
        # Of means, which are always finite: SciPy warns where a score is nan in some resamples.
        resamples = bootstrap((np.arange(len(sums)),), means, vectorized=True, **options).bootstrap_distribution
        draws = _scores_of(resamples)
        return {
            name: Score(value, *(float(end) for end in np.quantile(draws[name], [0.025, 0.975])))
            for name, value in point.items()
        }

    def coverage(self, levels: FloatArray, target: int = 0) -> FloatArray:
        """Share of the rows inside the central intervals of these levels, in the shape of `levels`."""
        p = self.pit[:, target]
        tails = np.array([tail_probability(float(level)) for level in np.ravel(levels)])
        inside = (p >= tails[:, None]) & (p <= 1 - tails[:, None])
        shares = np.average(inside.astype(np.float64), 1, self.weight)
        return np.asarray(shares).reshape(np.shape(levels))

    def _row_values(self, target: int) -> FloatArray:
        """What the scores average, [N, columns], in the order of `_scores_of`."""
        p, error = self.pit[:, target], self.residual[:, target]
        base_error = (self.y - self.base_mean)[:, target]
        # The training mean is itself rounded.
        rounding = 4 * np.finfo(np.float64).eps * np.abs(self.base_mean[:, target])
        base_error = np.where(np.abs(base_error) <= rounding, 0.0, base_error)
        base_log_prob = self._base_log_prob(base_error, target)
        tails = [tail_probability(level) for level in (0.5, 0.8, 0.9, 0.95)]
        columns = [
            -self.log_prob[:, target],
            error**2,
            np.abs(error),
            self.crps[:, target],
            *((p >= tail) & (p <= 1 - tail) for tail in tails),
            (self.high - self.low)[:, target],
            -base_log_prob,
            base_error**2,
        ]
        return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)

    def _base_log_prob(self, error: FloatArray, target: int) -> FloatArray:
        """Log density, or log probability, of the observations without the inputs."""
        mean, std = self.base_mean[:, target], self.base_std[:, target]
        if not self.is_count:
            return np.asarray(-0.5 * (error / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi))
        rate = np.maximum(mean[0], np.finfo(np.float64).eps)
        dispersion = (std[0] ** 2 - rate) / rate**2
        base = CountMixture([0.0], np.full((1, len(self), 1), rate), dispersion if dispersion > 0 else None)
        return base.log_prob(self.y[:, target])[:, 0]


def _scores_of(means: FloatArray) -> dict[str, FloatArray]:
    """Scores by name, of the means of `_row_values`, [columns] or [columns, resamples]."""
    nlpp, mse, mae, crps, inside_50, inside_80, inside_90, inside_95, width, base_nlpp, base_mse = means
    return {
        **{"nlpp": nlpp, "rmse": np.sqrt(mse), "mae": mae},
        # nan where every target is the training mean: there is nothing to explain.
        "r2": 1 - mse / np.where(base_mse > 0, base_mse, np.nan),
        **{"crps": crps, "coverage_50": inside_50, "coverage_80": inside_80, "coverage_90": inside_90},
        **{"coverage_95": inside_95, "width_90": width, "base_nlpp": base_nlpp, "base_rmse": np.sqrt(base_mse)},
    }


@overload
def evaluate(
    model: DeepGPRegressor, X: Any, y: Any, *, targets: Sequence[str] | None = None, sample_weight: Any = None
) -> Evaluation: ...


@overload
def evaluate(
    model: DeepGPClassifier, X: Any, y: Any, *, targets: Sequence[str] | None = None, sample_weight: Any = None
) -> ClassEvaluation: ...


def evaluate(
    model: DeepGPRegressor | DeepGPClassifier,
    X: Any,
    y: Any,
    *,
    targets: Sequence[str] | None = None,
    sample_weight: Any = None,
) -> Evaluation | ClassEvaluation:
    """Predict rows whose targets are known, for scores and pictures.

    Parameters
    ----------
    model : DeepGPRegressor, DeepGPClassifier, or a Pipeline that ends in one
        Fitted.
    X, y : array or data frame of shape [N, D] and [N] or [N, P]
    targets : sequence of str or None
        Names of the targets; None takes the model's.
    sample_weight : array of shape [N], optional
        How often each row counts in the scores.

    Raises
    ------
    InputError
        Rows or targets do not fit the model, or a value is missing.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = DeepGPRegressor(max_iter=50, random_state=0).fit(X[::2], X[::2, 0])
    >>> sorted(evaluate(model, X[1::2], X[1::2, 0]).scores())[:3]
    ['base_nlpp', 'base_rmse', 'coverage_50']
    """
    model, X = cast(Any, last_step(model, X))
    if isinstance(model, DeepGPClassifier):
        from sodgp.evaluation.classes import evaluate_classes

        found = evaluate_classes(model, X, y, targets=targets)
        return replace(found, weight=weights_of(sample_weight, len(found)))
    check_is_fitted(single := _checked(model))
    names = target_names(single) if targets is None else list(targets)
    truth = observed(model, X, y, by_name=targets is None)
    if len(names) != truth.shape[1]:
        raise InputError(f"targets has {len(names)} names, but the model has {truth.shape[1]} targets.")
    weight = weights_of(sample_weight, len(truth))
    rows = in_parts(model, X)
    parts: list[list[FloatArray]] = []
    for start in range(0, len(truth), _CHUNK_ROWS):
        chunk = slice(start, start + _CHUNK_ROWS)
        parts.append(_predicted(model.predict_distribution(rows[chunk]), truth[chunk]))
    mean, std, low, high, log_prob, crps, pit = (np.concatenate(values) for values in zip(*parts, strict=True))
    scaler = single.fitted_.y_seen
    mean_y, std_y = (np.broadcast_to(values, truth.shape) for values in (scaler.mean_, scaler.scale_))
    is_count = single.likelihood_.targets == "counts"
    return Evaluation(tuple(names), truth, mean, std, low, high, log_prob, crps, pit, mean_y, std_y, is_count, weight)


def weights_of(sample_weight: Any, n_rows: int) -> FloatArray | None:
    """Weights of rows, checked as those of `fit`; None for none."""
    return None if sample_weight is None else check_sample_weight(sample_weight, n_rows)


def evaluation_of(
    dist: Numeric,
    y: FloatArray,
    targets: Sequence[str],
    base_mean: FloatArray,
    base_std: FloatArray,
    *,
    is_count: bool = False,
) -> Evaluation:
    """The evaluation of any distribution of targets y [N, P], given mean and spread [P] of the training targets."""
    mean, std, low, high, log_prob, crps, pit = _predicted(dist, y)
    at, spread = (np.broadcast_to(values, y.shape) for values in (base_mean, base_std))
    return Evaluation(tuple(targets), y, mean, std, low, high, log_prob, crps, pit, at, spread, is_count)


def observed(model: DeepGPRegressor, X: Any, y: Any, *, by_name: bool = True) -> FloatArray:
    """Targets to compare predictions with, [N, P]; InputError where they fit neither model nor rows, or are not finite.

    With `by_name` named targets are put in the model's order; without it they must be in that order.
    """
    wanted = _checked(model).model_.n_outputs
    values = _numbers(_in_order(model, y) if by_name else y)
    if values.ndim not in (1, 2):
        raise InputError(f"y must have the shape [N] or [N, {wanted}], not {list(values.shape)}.")
    values = values[:, None] if values.ndim == 1 else values
    if values.shape[1] != wanted:
        raise InputError(f"y has {values.shape[1]} columns, but the model has {wanted} targets.")
    check_rows(X, values)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(1))[0])
        raise InputError(f"y is missing or infinite in row {row}. Drop such rows.")
    return values


def joined(parts: Sequence[Evaluation], order: NDArray[np.int64] | None = None) -> Evaluation:
    """The rows of several evaluations, such as those of folds, in one.

    `order` sorts the rows of the parts: they come in its ascending order. None keeps that of the parts.
    """
    place = np.arange(sum(map(len, parts))) if order is None else np.argsort(order)
    names = [field.name for field in fields(Evaluation) if field.name not in ("targets", "is_count", "weight")]
    values = {name: np.concatenate([getattr(part, name) for part in parts])[place] for name in names}
    return Evaluation(parts[0].targets, **values, is_count=parts[0].is_count, weight=joined_weights(parts, place))


def joined_weights(parts: Sequence[Evaluation | ClassEvaluation], place: NDArray[np.int64]) -> FloatArray | None:
    """The weights of the rows of several evaluations in this order, where they have some."""
    weights = [part.weight for part in parts if part.weight is not None]
    return np.concatenate(weights)[place] if weights else None


def _checked(model: BaseEstimator) -> DeepGPRegressor:
    """The model, if it is one of ours."""
    if not isinstance(model, DeepGPRegressor):
        raise InputError(f"evaluate takes a DeepGPRegressor or a DeepGPClassifier, not a {type(model).__name__}.")
    return model


def _in_order(model: DeepGPRegressor, y: Any) -> Any:
    """Several named targets in the model's order; other names are refused."""
    columns, names = target_names_in(y), model.fitted_.columns.targets
    if columns is None or names is None or len(columns) != len(names) or len(names) == 1:
        return y
    if set(columns) != set(names):
        raise InputError(f"y has the columns {', '.join(columns)}, but the model has the targets {', '.join(names)}.")
    return y[list(names)]


def _numbers(y: Any) -> FloatArray:
    y = without_tensors(y, "y")
    try:
        values = np.asarray(y)
        if values.dtype.kind in "mMc":
            raise TypeError("real numbers, not dates or complex ones")
        if values.dtype.kind == "O" and hasattr(y, "iloc"):
            # An array of floats cannot hold pandas.NA.
            values = np.where(y.isna(), np.nan, values)
        return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"y must hold numbers only: {error}.") from error


def _predicted(dist: Numeric, y: FloatArray) -> list[FloatArray]:
    at = y.reshape(dist.mean.shape)
    low, high = dist.interval(LEVEL)
    # A cdf is uniform for numbers alone.
    pit = dist.pit(at, random_state=0) if isinstance(dist, CountMixture) else dist.cdf(at)
    values = (dist.mean, dist.std, low, high, dist.log_prob(at), dist.crps(at), pit)
    return [value.reshape(y.shape) for value in values]


def _grouped(
    rows: FloatArray, generator: np.random.Generator, weight: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Sums and sizes of random groups of rows, which count by their weights; single rows if there are few."""
    count = len(rows)
    sizes, rows = (np.ones(count), rows) if weight is None else (weight, rows * weight[:, None])
    if count <= _MAX_GROUPS:
        return rows, sizes
    parts = np.array_split(generator.permutation(count), _MAX_GROUPS)
    return np.stack([rows[part].sum(0) for part in parts]), np.array([float(sizes[part].sum()) for part in parts])
