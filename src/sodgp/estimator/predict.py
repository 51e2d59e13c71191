"""Predictions of a fitted estimator, in original units."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sodgp.errors import InputError, NumericalError
from sodgp.estimator import memory_budget as resources
from sodgp.estimator.options.fields import checked_outliers
from sodgp.estimator.pooling import Together, spread_of
from sodgp.inference.contract import Inference
from sodgp.inference.functions import draws_subset_first, joint_moments
from sodgp.inference.row_laws import RowLaw, row_law
from sodgp.linalg.draws import FreshDraws, SharedDraws
from sodgp.model.deep_gp import DeepGP
from sodgp.predictive.mixture import GaussianMixture
from sodgp.predictive.outliers import OUTLIER_SCALE, widening
from sodgp.system import memory
from sodgp.system.arrays import FloatArray
from sodgp.system.torch_state import cpu_threads
from sodgp.system.validation import check_integer, check_predict_data, seed_from

_MAX_JOINT_ROWS = 1000
# Of the covariances of one layer that are drawn from together: 32 MB.
_JOINT_ENTRIES = 2**22
# Options that a prediction uses, and that may change after a fit.
_OF_PREDICTION = ("n_predict_samples", "outlier_probability", "member_spread", "n_threads")


class Fitted:
    """What a fit leaves behind, and predictions need."""

    model_: DeepGP
    n_predict_samples: int
    _method: Inference
    _x_scaler: StandardScaler
    _y_scaler: StandardScaler
    _x_seen: StandardScaler
    _y_seen: StandardScaler
    _y_is_vector: bool
    _predict_seed: int
    _X_s: Tensor
    _y_s: Tensor


class Predictions(Fitted):
    """What a fitted `DeepGPRegressor` can say about new rows; one of several members, what their mixture says."""

    outlier_probability: float | None
    member_spread: float | None
    n_threads: int | None

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Mean of y, in original units.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        return_std : bool
            Also the standard deviation of y. Without it only means are computed, and only they have to be finite.
        return_cov : bool
            Also the covariance of y over rows, for at most 1,000 rows, which are then drawn jointly: another Monte
            Carlo estimate than that of `return_std`, and one that depends a little on the company of rows.

        Returns
        -------
        mean : ndarray of shape [N] or [N, P]
        std : ndarray of the same shape, if `return_std`
        cov : ndarray of shape [N, N] or [P, N, N], if `return_cov`

        Examples
        --------
        >>> import numpy as np
        >>> from sodgp import DeepGPRegressor
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> mean, std = model.predict(X[:4], return_std=True)
        >>> mean, cov = model.predict(X[:4], return_cov=True)
        >>> mean.shape, std.shape, cov.shape
        ((4,), (4,), (4, 4))
        """
        refuse_both(return_std, return_cov)
        together = self._together()
        if together is not None:
            return together.predict(X, return_std, return_cov)
        if return_cov:
            return self._joint_moments(X)
        if not return_std:
            return np.concatenate([d.mean for d in self._mixtures(X, latent=False, only_mean=True)])
        parts = [(d.mean, d.std) for d in self._mixtures(X, latent=False)]
        return tuple(np.concatenate(values) for values in zip(*parts, strict=True))

    def predict_distribution(self, X: Any, *, latent: bool = False) -> GaussianMixture:
        """The predictive distribution, one Gaussian per Monte Carlo sample (and level of a noise with heavy tails).

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
        latent : bool
            Of the function f, without observation noise, instead of y.

        Returns
        -------
        GaussianMixture
            With mean, variance, std, log_prob, cdf, quantile, interval, sample and crps, in original units.

        Examples
        --------
        >>> import numpy as np
        >>> from sodgp import DeepGPRegressor
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> model.predict_distribution(X[:4])  # one layer: nothing is sampled, one component
        GaussianMixture(n_components=1, n_rows=4, n_outputs=1)
        >>> bool((model.predict_distribution(X, latent=True).std < model.predict_distribution(X).std).all())
        True
        """
        together = self._together()
        if together is not None:
            return together.predict_distribution(X, latent=latent)
        return GaussianMixture.concatenate(list(self._mixtures(X, latent=latent, keep=True)))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, latent: bool = False) -> FloatArray:
        """Draw whole functions: rows of one draw belong together.

        Parameters
        ----------
        X : array, data frame or tensor of shape [N, D]
            At most 1,000 rows; `predict_distribution(X).sample` draws rows independently for any number.
        n_samples : int
        random_state : int, RandomState, numpy.random.Generator or None
        latent : bool
            Without observation noise.

        Returns
        -------
        ndarray of shape [N, n_samples] or [N, P, n_samples]

        Examples
        --------
        >>> import numpy as np
        >>> from sodgp import DeepGPRegressor
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = DeepGPRegressor(n_layers=1, max_iter=5, random_state=0).fit(X, np.sign(X[:, 0]))
        >>> model.sample_y(X[:4], n_samples=3, latent=True).shape
        (4, 3)
        """
        together = self._together()
        count = check_integer("n_samples", n_samples, minimum=1)
        seed = seed_from(random_state)
        if together is not None:
            return together.sample_y(X, count, seed, latent=latent)
        mean, covariance = self._joint(X, seed, count, noise=None if latent else self.model_.drawn_noise_at)
        values, vectors = torch.linalg.eigh(covariance)
        generator = torch.Generator().manual_seed(seed + 1)
        normal = torch.randn(count, *mean.mT.shape[1:], generator=generator, dtype=torch.float64)
        draws = mean.mT + torch.einsum("tpnm,tpm->tpn", vectors, values.clamp_min(0.0).sqrt() * normal)
        scaled = draws.permute(2, 1, 0).numpy() * self._y_scaler.scale_[:, None] + self._y_scaler.mean_[:, None]
        scaled = scaled[:, 0] if self._y_is_vector else scaled
        return scaled if latent or not self._outliers else self._with_outliers(X, scaled, seed + 2)

    def _together(self) -> Together | None:
        """The members, as this one's present options have it; None where it is one model."""
        check_is_fitted(self)
        members = getattr(self, "members_", None)
        return None if members is None else Together(as_said_now(self, members), self._spread)

    def _with_outliers(self, X: Any, draws: FloatArray, seed: int) -> FloatArray:
        """Draws [..., n] of y with outliers in place of some, each on its own."""
        rng = np.random.default_rng(seed)
        mean, std = (values[..., None] for values in self.predict(X, return_std=True))
        wide = OUTLIER_SCALE / math.sqrt(widening(self._outliers)) * std
        return np.where(rng.random(draws.shape) < self._outliers, mean + wide * rng.normal(size=draws.shape), draws)

    def _mixtures(
        self, X: Any, *, latent: bool, keep: bool = False, only_mean: bool = False
    ) -> Iterator[GaussianMixture]:
        """The predictive distribution in chunks of rows: memory stays bounded for any number of rows.

        `keep` says that the caller keeps all of them, `only_mean` that nobody will look at more than their means:
        variances of one then stand in for those of f, which cost as much as all the rest.
        """
        check_is_fitted(self)
        rows = self._scaled_rows(X)
        count = check_integer("n_predict_samples", self.n_predict_samples, minimum=1)
        if keep:
            self._check_room(len(rows), latent=latent)
        chunk = resources.chunk_rows(self._method, self.model_, count, rows.device)
        X_s, y_s = self._anchors(rows)

        @cache
        def law() -> RowLaw:
            return row_law(self.model_, self._method, X_s, y_s, n_samples=count, seed=self._predict_seed)

        def work(chosen: slice) -> GaussianMixture:
            X_p = rows[chosen].unsqueeze(0)
            draws = SharedDraws(self._predict_seed, count, dtype=X_p.dtype, device=X_p.device)
            with torch.no_grad(), cpu_threads(self.n_threads):
                if only_mean:
                    mean, variance = law().mean(X_p, draws), X_p.new_ones(1, 1, 1)
                else:
                    mean, variance = law()(X_p, draws)
                if not latent:
                    mean, variance = self.model_.observed(mean, variance, X_s, X_p, draws)
            mean, variance = torch.broadcast_tensors(mean, variance)
            return self._original_units(mean, variance, 0.0 if latent else self._outliers)

        return resources.halving(len(rows), chunk, work, rows.device, "a prediction of a single row")

    def _check_room(self, n_rows: int, *, latent: bool, members: int = 1) -> None:
        """Raise ResourceError where the components of so many rows would not fit into memory."""
        count = check_integer("n_predict_samples", self.n_predict_samples, minimum=1)
        components = members * count * (1 if latent else self.model_.n_noise_levels)
        # Means and variances of all components; for a moment twice, when the chunks or members are put together.
        memory.require_memory(
            32.0 * components * n_rows * self.model_.n_outputs,
            f"a mixture of {components} components for {n_rows} rows",
            "predict(X, return_std=True) keeps only two numbers for each row; or give the rows in parts.",
        )

    def _joint(self, X: Any, seed: int, count: int, *, noise: Callable[..., Tensor] | None) -> tuple[Tensor, Tensor]:
        """Mean [T, N, P] and covariance [T, P, N, N] over rows drawn jointly, scaled, on the CPU.

        Of f, or with one of the model's functions for the noise, of y. Where nothing is drawn on the way all samples
        have the same law, and T is 1.
        """
        if not resources.draws_on_the_way(self._method, self.model_, with_noise=noise is not None):
            count = 1
        rows = self._scaled_rows(X)
        if len(rows) > _MAX_JOINT_ROWS:
            raise InputError(
                f"joint predictions take at most {_MAX_JOINT_ROWS} rows, not {len(rows)}: their covariance is a full"
                " matrix. Use predict(..., return_std=True) or predict_distribution, which take any number."
            )
        # Covariances of all samples, for a moment twice.
        memory.require_memory(
            16.0 * count * self.model_.n_outputs * len(rows) ** 2,
            f"{count} joint samples over {len(rows)} rows",
            "Ask for fewer samples or rows at once.",
        )
        X_s, y_s = self._anchors(rows)
        generator = torch.Generator(rows.device).manual_seed(seed)

        def work(chosen: slice) -> tuple[Tensor, Tensor]:
            size = chosen.stop - chosen.start
            draws = FreshDraws(generator, size, dtype=rows.dtype, device=rows.device)
            with torch.no_grad(), cpu_threads(self.n_threads):
                mean, covariance = joint_moments(self.model_, self._method, X_s, y_s, rows, draws)
                if noise is not None:
                    added = noise(X_s, rows.unsqueeze(0), draws)
                    covariance = covariance + torch.diag_embed(added.expand(-1, *mean.shape[1:]).mT)
            mean, covariance = (v.cpu().double().expand(size, *v.shape[1:]) for v in (mean, covariance))
            return mean, covariance

        # A joint draw holds a full covariance, over subset and rows, for every output of every layer; after a subset
        # that is drawn first, outputs of a hidden layer share it.
        widths = [layer.q_mean.shape[-1] for layer in self.model_.layers]
        outputs = widths[-1] if draws_subset_first(self._method) else max(widths)
        entries = outputs * (X_s.shape[-2] + len(rows)) ** 2
        at_once = max(1, _JOINT_ENTRIES // entries)
        moments = resources.halving(count, at_once, work, rows.device, "a joint sample")
        mean, covariance = (torch.cat(values) for values in zip(*moments, strict=True))
        return mean, covariance

    def _joint_moments(self, X: Any) -> tuple[FloatArray, FloatArray]:
        check_is_fitted(self)
        count = check_integer("n_predict_samples", self.n_predict_samples, minimum=1)
        mean, covariance = self._joint(X, self._predict_seed, count, noise=self.model_.noise_at)
        centred = (mean - mean.mean(0)).permute(2, 1, 0)
        total = covariance.mean(0) + centred @ centred.mT / len(mean)
        # Rows are outliers each on its own, and then have nothing to do with the others.
        variances = total.diagonal(dim1=-2, dim2=-1).clone()
        total *= (1.0 - self._outliers) ** 2
        total.diagonal(dim1=-2, dim2=-1).copy_(widening(self._outliers) * variances)
        scale, shift = self._y_scaler.scale_, self._y_scaler.mean_
        y_mean, y_cov = mean.mean(0).numpy() * scale + shift, total.numpy() * scale[:, None, None] ** 2
        return (y_mean[:, 0], y_cov[0]) if self._y_is_vector else (y_mean, y_cov)

    def _scaled_rows(self, X: Any) -> Tensor:
        with np.errstate(over="ignore"):
            scaled = self._x_scaler.transform(check_predict_data(self, X))
        parameter = self.model_.likelihood.raw_noise
        rows = torch.as_tensor(scaled, dtype=parameter.dtype, device=parameter.device)
        if not bool(torch.isfinite(rows).all()):
            row, column = torch.nonzero(~torch.isfinite(rows))[0].tolist()
            raise InputError(
                f"row {row} of X is so far from the training data in column {column} that {rows.dtype} cannot hold the"
                " distance. Check the units of that column."
            )
        return rows

    def _anchors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and labels of the subset, where the model is."""
        return self._X_s.to(like.device), self._y_s.to(like.device)

    @property
    def _outliers(self) -> float:
        """Probability that an observation is unlike those that were seen."""
        given = checked_outliers(self.outlier_probability)
        if given is not None:
            return given
        if not getattr(self._method, "predictive_weight", 0.0):
            return 0.0
        return 1.0 / (1.0 + float(np.max(self._x_scaler.n_samples_seen_)))

    @property
    def _spread(self) -> float:
        """Factor of the members' spreads in their mixture."""
        return spread_of(self, len(getattr(self, "members_", [self])))

    def _original_units(self, mean: Tensor, variance: Tensor, outliers: float) -> GaussianMixture:
        # Rounding leaves a variance of f at zero where a row sits on the subset and the noise is at its floor.
        variance = variance.double().clamp_min(torch.finfo(torch.float64).tiny ** 0.25)
        scale, shift = self._y_scaler.scale_, self._y_scaler.mean_
        if self._y_is_vector:
            mean, variance = mean[..., 0], variance[..., 0]
        mean, variance = mean.double().cpu(), variance.cpu()
        _check_finite(mean, variance)
        mixture = GaussianMixture(mean, variance, outlier_probability=outliers).affine(scale, shift)
        _check_finite(torch.from_numpy(mixture.mean)[None], torch.from_numpy(mixture.variance)[None])
        return mixture


def refuse_both(return_std: bool, return_cov: bool) -> None:
    """Raise InputError where somebody asks for both."""
    if return_std and return_cov:
        raise InputError("ask for return_std or return_cov, not for both: cov has the variances on its diagonal.")


def as_said_now(estimator: Any, members: Sequence[Any]) -> list[Any]:
    """The members with the present options of an estimator, as far as predictions use them.

    Copies of the estimators, not of their models: the members themselves stay as the user has them.
    """
    options = {name: getattr(estimator, name) for name in _OF_PREDICTION}
    return [copy.copy(member).set_params(**options) for member in members]


def _check_finite(mean: Tensor, variance: Tensor) -> None:
    """Raise NumericalError unless every row of [T, N, ...] has finite moments."""
    finite = (torch.isfinite(mean) & torch.isfinite(variance)).movedim(1, 0).flatten(1).all(1)
    if not bool(finite.all()):
        row = int(torch.nonzero(~finite)[0, 0])
        raise NumericalError(
            f"the prediction of row {row} (of those predicted together) is not finite: the row, or a parameter of the"
            " model, is too extreme for its floating-point type. Check the row's units; fit with dtype='float64'."
        )
