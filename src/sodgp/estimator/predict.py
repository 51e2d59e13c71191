"""Predictions in original units: functions of the fitted state and the options of a prediction.

With members each function pools their predictions (`sodgp.estimator.pooling`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sodgp.errors import InputError, NumericalError
from sodgp.estimator.calibrate import calibrated
from sodgp.estimator.columns import rows_of
from sodgp.estimator.fitted import Fitted
from sodgp.estimator.memory_budget import chunk_rows, halving
from sodgp.estimator.options.fields import method_of
from sodgp.estimator.pooling import pooled_covariance, pooled_draws, pooled_mean, pooled_mixture, pooled_std
from sodgp.estimator.sample_parts import PredictorInParts, rows_of_a_block, samples_at_once
from sodgp.inference.contract import Predictor
from sodgp.linalg.draws import FreshDraws, SharedDraws
from sodgp.predictive.calibrated import CalibratedDistribution
from sodgp.predictive.contract import Predictive
from sodgp.predictive.mixture import GaussianMixture
from sodgp.predictive.outliers import OUTLIER_SCALE, widening
from sodgp.predictive.transformed import TransformedMixture
from sodgp.system import memory
from sodgp.system.running import cpu_threads
from sodgp.system.validation import FloatArray, check_integer, check_threads, seed_from

if TYPE_CHECKING:
    from sodgp.estimator.base import DeepGPEstimator

__all__ = [
    "PredictionOptions",
    "asked",
    "check_room",
    "hidden_rows",
    "predict_covariance",
    "predict_distribution",
    "predict_mean",
    "predict_std",
    "sample_functions",
    "scaled_rows",
]

P = ParamSpec("P")
R = TypeVar("R")

_MAX_JOINT_ROWS = 1000
# Of the covariances of one layer in one joint draw: 32 MB.
_JOINT_ENTRIES = 2**22
# Rows whose distributions are in memory at a time where moments are taken of them.
_MAPPED_ROWS = 5_000


@dataclass(frozen=True)
class PredictionOptions:
    """What a user may change between two predictions without a new fit; `spread` is a factor of members' deviations."""

    n_samples: int
    outlier_probability: float = 0.0
    n_threads: int | str | None = 1
    spread: float = 1.0


def _in_threads(
    predict: Callable[Concatenate[Fitted, FloatArray, PredictionOptions, P], R],
) -> Callable[Concatenate[Fitted, FloatArray, PredictionOptions, P], R]:
    """A prediction that computes with the threads of its options from beginning to end."""

    @wraps(predict)
    def limited(fitted: Fitted, X: FloatArray, options: PredictionOptions, /, *args: P.args, **named: P.kwargs) -> R:
        with cpu_threads(options.n_threads):
            return predict(fitted, X, options, *args, **named)

    return limited


def asked(estimator: DeepGPEstimator, X: Any) -> tuple[FloatArray, PredictionOptions]:
    """Rows to predict at, checked, and the present options of predictions."""
    check_is_fitted(estimator)
    has_units = estimator.fitted_.likelihood.targets == "numbers"
    options = PredictionOptions(
        n_samples=check_integer("n_predict_samples", estimator.n_predict_samples, minimum=1),
        outlier_probability=estimator.outlier_probability_,
        n_threads=check_threads(estimator.n_threads),
        # Counts and class probabilities have no spread around their mean that could be scaled.
        spread=method_of(estimator.inference).usual_spread(estimator.n_members_) if has_units else 1.0,
    )
    return rows_of(estimator, X), options


@_in_threads
def predict_mean(fitted: Fitted, X: FloatArray, options: PredictionOptions) -> FloatArray:
    """Means of y at rows X [N, D], [N] or [N, P]; of labels their probabilities [N, K].

    Where y has the mean of f only means are computed, and only they have to be finite.
    """
    if fitted.maps_back:
        return np.concatenate([dist.mean for dist in _mapped(fitted, X, options)])
    if fitted.members:
        return pooled_mean([predict_mean(each, X, options) for each in fitted.members])
    only_mean = fitted.likelihood.targets == "numbers"
    return np.concatenate([d.mean for d in _distributions(fitted, X, options, latent=False, only_mean=only_mean)])


@_in_threads
def predict_std(fitted: Fitted, X: FloatArray, options: PredictionOptions) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations of y, [N] or [N, P]."""
    if fitted.maps_back:
        moments = [(dist.mean, dist.std) for dist in _mapped(fitted, X, options)]
        mean, std = (np.concatenate(values) for values in zip(*moments, strict=True))
        return mean, std
    if fitted.members:
        return pooled_std([predict_std(each, X, options) for each in fitted.members], options.spread)
    parts = [(d.mean, d.std) for d in _distributions(fitted, X, options, latent=False)]
    mean, std = (np.concatenate(values) for values in zip(*parts, strict=True))
    return mean, std


@_in_threads
def predict_distribution(fitted: Fitted, X: FloatArray, options: PredictionOptions, *, latent: bool) -> Predictive:
    """The distribution of y, or with `latent` of f, which is a `GaussianMixture`."""
    check_room(fitted, len(X), options, latent=latent)
    if fitted.members:
        each = (predict_distribution(member, X, options, latent=latent) for member in fitted.members)
        found = pooled_mixture(each, options.spread)
    else:
        parts = list(_distributions(fitted, X, options, latent=latent))
        found = type(parts[0]).concatenate(parts)
    return found if latent or fitted.calibration is None else calibrated(found, fitted.calibration)


@_in_threads
def predict_covariance(fitted: Fitted, X: FloatArray, options: PredictionOptions) -> tuple[FloatArray, FloatArray]:
    """Means [N] or [N, P] and covariances over rows [N, N] or [P, N, N] of y."""
    if fitted.maps_back:
        raise InputError(
            "return_cov=True is for y as it is in the model, and this one maps its predictions (target_transform or"
            " calibrate). Take numpy.cov(model.sample_y(X, 1000)), or return_std=True."
        )
    if fitted.members:
        return pooled_covariance([predict_covariance(each, X, options) for each in fitted.members], options.spread)
    mean, covariance = _joint(fitted, X, options, fitted.predict_seed, options.n_samples, drawn=False)
    centred = (mean - mean.mean(0)).permute(2, 1, 0)
    total = covariance.mean(0) + centred @ centred.mT / len(mean)
    # Rows are outliers independently of each other, and an outlier is uncorrelated with all other rows.
    outliers = options.outlier_probability
    variances = total.diagonal(dim1=-2, dim2=-1).clone()
    total *= (1.0 - outliers) ** 2
    total.diagonal(dim1=-2, dim2=-1).copy_(widening(outliers) * variances)
    scale, shift = fitted.y_scaler.scale_, fitted.y_scaler.mean_
    y_mean, y_cov = mean.mean(0).numpy() * scale + shift, total.numpy() * scale[:, None, None] ** 2
    return (y_mean[:, 0], y_cov[0]) if fitted.columns.y_is_vector else (y_mean, y_cov)


@_in_threads
def sample_functions(
    fitted: Fitted, X: FloatArray, options: PredictionOptions, count: int, seed: int, *, latent: bool
) -> FloatArray:
    """Draws of whole functions, [N, count] or [N, P, count]; of f with `latent`, else of y."""
    if fitted.calibration is not None and not latent:
        plain = replace(fitted, calibration=None)
        unmoved = sample_functions(plain, X, options, count, seed, latent=False)
        dist = predict_distribution(fitted, X, options, latent=False)
        # Each draw keeps its rank in every row.
        return np.moveaxis(cast(CalibratedDistribution, dist).moved(np.moveaxis(unmoved, -1, 0)), 0, -1)
    if fitted.members:

        def sampler(member: Fitted) -> Callable[[int, int], FloatArray]:
            return lambda n, seed: sample_functions(member, X, options, n, seed_from(seed), latent=latent)

        means = [partial(predict_mean, each, X, options) for each in fitted.members]
        return pooled_draws([sampler(each) for each in fitted.members], means, count, seed, options.spread)

    mean, covariance = _joint(fitted, X, options, seed, count, drawn=None if latent else True)
    values, vectors = torch.linalg.eigh(covariance)
    generator = torch.Generator().manual_seed(seed + 1)
    normal = torch.randn(count, *mean.mT.shape[1:], generator=generator, dtype=torch.float64)
    draws = mean.mT + torch.einsum("tpnm,tpm->tpn", vectors, values.clamp_min(0.0).sqrt() * normal)
    scaled = draws.permute(2, 1, 0).numpy() * fitted.y_scaler.scale_[:, None] + fitted.y_scaler.mean_[:, None]
    if fitted.transform is not None:
        scaled = np.moveaxis(fitted.transform.inverse(np.moveaxis(scaled, 1, -1)), -1, 1)
    scaled = scaled[:, 0] if fitted.columns.y_is_vector else scaled
    return scaled if latent or not options.outlier_probability else _with_outliers(fitted, X, options, scaled, seed + 2)


@_in_threads
def hidden_rows(fitted: Fitted, X: FloatArray, options: PredictionOptions, layer: int) -> FloatArray:
    """Draws of the rows X after that many hidden layers, [T, N, D_layer], in the units of the scaled inputs."""
    rows = scaled_rows(fitted, X)
    # As in predictions, rows begin with the first numbers, whatever the predictor has used.
    own, draws = (
        SharedDraws(fitted.predict_seed, options.n_samples, dtype=rows.dtype, device=rows.device) for _ in range(2)
    )
    with torch.no_grad(), cpu_threads(options.n_threads):
        predictor = fitted.predictor(own)
        values: FloatArray = predictor.hidden(rows.unsqueeze(0), draws, layer).double().cpu().numpy()
    return np.broadcast_to(values, (options.n_samples, *values.shape[1:]))


def check_room(fitted: Fitted, n_rows: int, options: PredictionOptions, *, latent: bool) -> None:
    """Raise ResourceError where the components of so many rows, of all members, would not fit into memory."""
    levels = 1 if latent else fitted.model.likelihood.n_levels
    components = len(fitted.models) * options.n_samples * levels
    # Means and variances of all components; for a moment twice, when chunks or members are joined.
    memory.require_memory(
        32.0 * components * n_rows * fitted.model.n_outputs,
        f"a mixture of {components} components for {n_rows} rows",
        "predict(X, return_std=True) keeps only two numbers for each row; or give the rows in parts.",
    )


def scaled_rows(fitted: Fitted, X: FloatArray) -> Tensor:
    """Rows X [N, D] in the units, the type and the place of the model."""
    with np.errstate(over="ignore"):
        scaled = fitted.x_scaler.transform(X)
    rows = torch.as_tensor(scaled, dtype=fitted.model.dtype, device=fitted.model.device)
    if not bool(torch.isfinite(rows).all()):
        row, column = torch.nonzero(~torch.isfinite(rows))[0].tolist()
        raise InputError(
            f"row {row} of X is so far from the training data in column {column} that {rows.dtype} cannot hold the"
            " distance. Check the units of that column."
        )
    return rows


def _distributions(
    fitted: Fitted, X: FloatArray, options: PredictionOptions, *, latent: bool, only_mean: bool = False
) -> Iterator[Predictive]:
    """The predictive distribution in chunks of rows: memory stays bounded for any number of rows, and of samples.

    With `only_mean` variances are not computed but set to one: they cost as much as all the rest.
    """
    rows = scaled_rows(fitted, X)
    model, count = fitted.model, options.n_samples
    at_once = samples_at_once(fitted, count)
    is_whole = at_once == count
    chunk = chunk_rows(fitted, count, rows.device) if is_whole else rows_of_a_block(fitted, count)
    X_s, *_ = fitted.given_on_device()

    @cache
    def predictor() -> Predictor | PredictorInParts:
        draws = SharedDraws(fitted.predict_seed, count, dtype=rows.dtype, device=rows.device)
        return fitted.predictor(draws) if is_whole else PredictorInParts(fitted, at_once, draws)

    def work(chosen: slice) -> Predictive:
        X_p = rows[chosen].unsqueeze(0)
        draws = SharedDraws(fitted.predict_seed, count, dtype=X_p.dtype, device=X_p.device)
        with torch.no_grad(), cpu_threads(options.n_threads):
            if only_mean:
                mean = predictor().mean(X_p, draws)
                variance = torch.ones_like(mean)
            else:
                mean, variance = predictor().rows(X_p, draws)
            if latent:
                return _gaussian(fitted, mean + model.likelihood.offset, variance, 0.0, options.n_threads)
            given = model.likelihood.at(X_s, X_p, draws)[1]
            if fitted.likelihood.targets == "numbers":
                found = given.predictive(mean, variance)
            else:
                # Counts and classes have no units, but their f may.
                scale, shift = (torch.as_tensor(v).to(mean) for v in (fitted.y_scaler.scale_, fitted.y_scaler.mean_))
                found = given.predictive(mean * scale + shift, variance * scale**2)
        if isinstance(found, tuple):
            return _gaussian(fitted, *found, options.outlier_probability, options.n_threads)
        return found.in_units(fitted.units)

    return halving(len(rows), chunk, work, rows.device, "a prediction of a single row")


def _joint(
    fitted: Fitted, X: FloatArray, options: PredictionOptions, seed: int, count: int, *, drawn: bool | None
) -> tuple[Tensor, Tensor]:
    """Mean [T, N, P] and covariance [T, P, N, N] over rows in one joint draw, scaled, on the CPU.

    Of f with ``drawn=None``, else of y with noise variances that are drawn or averaged. Where all samples have the same
    distribution T is 1.
    """
    model, method = fitted.model, fitted.method
    if not (method.samples_differ(model) or (drawn is not None and model.likelihood.varies)):
        count = 1
    rows = scaled_rows(fitted, X)
    if len(rows) > _MAX_JOINT_ROWS:
        raise InputError(
            f"joint predictions take at most {_MAX_JOINT_ROWS} rows, not {len(rows)}: their covariance is a full"
            " matrix. Use predict(..., return_std=True) or predict_distribution, which take any number."
        )
    # Covariances of all samples, for a moment twice.
    memory.require_memory(
        16.0 * count * model.n_outputs * len(rows) ** 2,
        f"{count} joint samples over {len(rows)} rows",
        "Ask for fewer samples or rows at once.",
    )
    X_s, *_ = fitted.given_on_device()
    generator = torch.Generator(rows.device).manual_seed(seed)

    def predictor(generator: torch.Generator, size: int) -> tuple[Predictor, FreshDraws]:
        draws = FreshDraws(generator, size, dtype=rows.dtype, device=rows.device)
        return fitted.predictor(draws), draws

    def work(chosen: slice) -> tuple[Tensor, Tensor]:
        size = chosen.stop - chosen.start
        with torch.no_grad(), cpu_threads(options.n_threads):
            given, draws = predictor(generator, size)
            mean, covariance = given.joint(rows.unsqueeze(0), draws)
            if drawn is not None:
                added = model.likelihood.at(X_s, rows.unsqueeze(0), draws)[1].noise_variance(drawn=drawn)
                covariance = covariance + torch.diag_embed(added.expand(-1, *mean.shape[1:]).mT)
            else:
                mean = mean + model.likelihood.offset
        mean, covariance = (v.cpu().double().expand(size, *v.shape[1:]) for v in (mean, covariance))
        return mean, covariance

    with torch.no_grad(), cpu_threads(options.n_threads):
        # Of one sample, whose numbers do not matter.
        probe, _ = predictor(torch.Generator(rows.device), 1)
    at_once = max(1, _JOINT_ENTRIES // (probe.joint_size * (X_s.shape[-2] + len(rows)) ** 2))
    moments = halving(count, at_once, work, rows.device, "a joint sample")
    mean, covariance = (torch.cat(values) for values in zip(*moments, strict=True))
    return mean, covariance


def _with_outliers(
    fitted: Fitted, X: FloatArray, options: PredictionOptions, draws: FloatArray, seed: int
) -> FloatArray:
    """Draws [..., n] of y, some of them replaced by outliers independently of each other."""
    share = options.outlier_probability
    rng = np.random.default_rng(seed)
    mean, std = (values[..., None] for values in predict_std(fitted, X, options))
    wide = OUTLIER_SCALE / math.sqrt(widening(share)) * std
    return np.where(rng.random(draws.shape) < share, mean + wide * rng.normal(size=draws.shape), draws)


def _mapped(fitted: Fitted, X: FloatArray, options: PredictionOptions) -> Iterator[Predictive]:
    """Distributions of y in chunks of rows, of all members together: moments of y are no averages over members."""
    for start in range(0, len(X), _MAPPED_ROWS):
        yield predict_distribution(fitted, X[start : start + _MAPPED_ROWS], options, latent=False)


def _gaussian(
    fitted: Fitted, mean: Tensor, variance: Tensor, outliers: float, n_threads: int | str | None
) -> GaussianMixture | TransformedMixture:
    """Gaussian components [T, N, P] of y or f in original units, mapped back where y was transformed."""
    mean, variance = torch.broadcast_tensors(mean, variance)
    # Rounding leaves a variance of f at zero where a row sits on the subset and the noise is at its floor.
    variance = variance.double().clamp_min(torch.finfo(torch.float64).tiny ** 0.25)
    if fitted.columns.y_is_vector and mean.shape[-1] == 1:
        mean, variance = mean[..., 0], variance[..., 0]
    mean, variance = mean.double().cpu(), variance.cpu()
    _check_finite(mean, variance)
    scale, shift = fitted.y_scaler.scale_, fitted.y_scaler.mean_
    mixture = GaussianMixture(mean, variance, outlier_probability=outliers, n_threads=n_threads).affine(scale, shift)
    _check_finite(torch.from_numpy(mixture.mean)[None], torch.from_numpy(mixture.variance)[None])
    return mixture if fitted.transform is None else TransformedMixture(mixture, fitted.transform)


def _check_finite(mean: Tensor, variance: Tensor) -> None:
    """Raise NumericalError unless every row of [T, N, ...] has finite moments."""
    finite = (torch.isfinite(mean) & torch.isfinite(variance)).movedim(1, 0).flatten(1).all(1)
    if not bool(finite.all()):
        row = int(torch.nonzero(~finite)[0, 0])
        raise NumericalError(
            f"the prediction of row {row} (counted within one chunk of rows) is not finite: the row, or a parameter of"
            " the model, is too extreme for its floating-point type. Check the row's units; fit with dtype='float64'."
        )
