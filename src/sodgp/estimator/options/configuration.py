"""The options of an estimator, checked once and turned into what the rooms below understand."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sodgp.errors import ConfigurationError, NumericalWarning, SubsetSizeWarning
from sodgp.estimator.options.efforts import EFFORTS, Effort, members_of
from sodgp.estimator.options.fields import (
    check_seed,
    checked_cadence,
    checked_callbacks,
    checked_folder,
    checked_fraction,
    checked_initialization,
    checked_jitter,
    checked_outliers,
    checked_pause,
    checked_size,
    checked_spread,
)
from sodgp.estimator.options.rules import (
    BATCH_SIZE,
    UNUSED,
    check_noise_that_varies,
    check_warm_start,
    checked_separation,
    may_separate,
    refuse_unused,
)
from sodgp.inference.contract import Inference
from sodgp.inference.dsvi import DSVI
from sodgp.inference.mean_field import MeanField
from sodgp.inference.sghmc import SGHMC
from sodgp.inference.sod import SoD
from sodgp.kernels.make import KERNEL_NAMES
from sodgp.layers.families import FAMILIES
from sodgp.layers.subset import COUPLINGS
from sodgp.linalg.cholesky import Jitter
from sodgp.model.architecture import Initialization
from sodgp.selectors import get_selector
from sodgp.selectors.auto import Auto, AutoSize
from sodgp.system.validation import check_choice, check_flag, check_integer, check_positive, check_share, resolve_device
from sodgp.training.checkpoint.folder import Cadence
from sodgp.training.history import Callback
from sodgp.training.restart.reselect import Reselection
from sodgp.training.schedule import SCHEDULES, Factor

DTYPES = {"float64": torch.float64, "float32": torch.float32}
NOISES = ("homoscedastic", "heteroscedastic", "heavy_tailed")
# From so many rows on, a deep SoD-VI trains for prediction by default, with a kernel for each output of layer 1.
# With fewer, and noisy ones, the bound and one kernel guard better against following the noise.
MANY_ROWS = 500


# A step of SoD-VI has at least one row of so many, up to a limit: with less, large data are seen too seldom, and
# through much noise.
_ROWS_FOR_ONE, _MOST_ROWS = 20, 1800


def _sod(estimator: Any) -> SoD:
    check_choice("noise", estimator.noise, NOISES)
    check_noise_that_varies(estimator)
    return SoD(
        coupling=estimator.coupling,
        predictive_weight=_checked_weight(estimator),
        noise=estimator.noise,
    )


def _sghmc(estimator: Any) -> SGHMC:
    draws = check_integer("n_posterior_samples", estimator.n_posterior_samples, minimum=1)
    chains = check_integer("n_chains", estimator.n_chains, minimum=1)
    if draws % chains:
        raise ConfigurationError(f"n_posterior_samples={draws} must be a multiple of n_chains={chains}.")
    return SGHMC(
        step_size=check_positive("step_size", estimator.step_size),
        n_draws=draws,
        thinning=check_integer("thinning", estimator.thinning, minimum=1),
        n_chains=chains,
        learn_inducing_inputs=check_flag("learn_inducing_inputs", estimator.learn_inducing_inputs),
    )


_METHODS: dict[str, Callable[[Any], Inference]] = {
    "sod": _sod,
    "dsvi": lambda estimator: DSVI(
        learn_inducing_inputs=check_flag("learn_inducing_inputs", estimator.learn_inducing_inputs),
        predictive_weight=_checked_weight(estimator),
    ),
    "mean_field": lambda estimator: MeanField(),
    "sghmc": _sghmc,
}


@dataclass(frozen=True)
class Configuration:
    """Checked options. Build one with `from_estimator`; see `sodgp.DeepGPRegressor` for their meaning."""

    inference: str
    n_layers: int
    hidden_width: Any
    subset_size: Any
    reselect_every: int | None
    parameterization: str
    coupling: str
    hidden_mean: str
    tie_label_noise: bool
    separate_kernels: bool | None
    n_samples: int
    effort: Effort
    max_iter: int
    batch_size: int | None
    learning_rate: float
    schedule: str | Factor
    initialization: Initialization
    jitter: Jitter
    dtype: torch.dtype
    device: torch.device
    callbacks: Sequence[Callback]
    max_seconds: float | None
    validation_fraction: float | None
    checkpoint: Path | None
    checkpoint_every: Cadence
    weight_by_rows: bool
    _method: Inference

    @classmethod
    def from_estimator(cls, estimator: Any) -> Configuration:
        """Check every option of an estimator.

        Raises
        ------
        ConfigurationError
            Naming the option, what it was, and what it may be.
        """
        e = estimator
        check_choice("inference", e.inference, tuple(_METHODS))
        refuse_unused(e)
        check_warm_start(e)
        check_choice("parameterization", e.parameterization, tuple(FAMILIES))
        check_choice("coupling", e.coupling, COUPLINGS)
        check_choice("hidden_mean", e.hidden_mean, ("linear", "zero"))
        if not callable(e.schedule):
            check_choice("schedule", e.schedule, SCHEDULES)
        check_choice("dtype", e.dtype, tuple(DTYPES))
        if not callable(e.kernel):
            check_choice("kernel", e.kernel, KERNEL_NAMES)
        get_selector(e.subset)
        check_seed(e.random_state)
        check_integer("n_predict_samples", e.n_predict_samples, minimum=1)
        checked_outliers(e.outlier_probability)
        checked_spread(e.member_spread)
        if e.n_threads is not None:
            check_integer("n_threads", e.n_threads, minimum=1)
        dtype = DTYPES[e.dtype]
        members_of(e)  # for its errors: how many there are, the fit asks
        max_iter = _checked_steps(e.max_iter, EFFORTS[e.effort])
        return cls(
            inference=e.inference,
            n_layers=check_integer("n_layers", e.n_layers, minimum=1),
            hidden_width=e.hidden_width,
            subset_size=checked_size(e.subset_size),
            reselect_every=checked_pause(e.reselect_every),
            parameterization=e.parameterization,
            coupling=e.coupling,
            hidden_mean=e.hidden_mean,
            tie_label_noise=check_flag("tie_label_noise", e.tie_label_noise),
            separate_kernels=checked_separation(e),
            n_samples=check_integer("n_samples", e.n_samples, minimum=1),
            effort=EFFORTS[e.effort],
            max_iter=max_iter,
            batch_size=None if e.batch_size is None else check_integer("batch_size", e.batch_size, minimum=1),
            learning_rate=check_positive("learning_rate", e.learning_rate),
            schedule=e.schedule,
            initialization=checked_initialization(e.initialization),
            jitter=checked_jitter(e.jitter, dtype),
            dtype=dtype,
            device=resolve_device(e.device),
            callbacks=checked_callbacks(e.callbacks, e.verbose, max_iter),
            max_seconds=None if e.max_minutes is None else 60.0 * check_positive("max_minutes", e.max_minutes),
            validation_fraction=checked_fraction(e.validation_fraction),
            checkpoint=checked_folder(e.checkpoint),
            checkpoint_every=checked_cadence(e.checkpoint_every),
            weight_by_rows=e.predictive_weight is None,
            _method=_METHODS[e.inference](e),
        )

    def method(self, n_rows: int) -> Inference:
        """The inference method, for training on so many rows."""
        deep = isinstance(self._method, SoD) and self.n_layers > 1
        if self.weight_by_rows and deep and n_rows >= MANY_ROWS:
            return replace(self._method, predictive_weight=1.0)  # type: ignore[type-var]
        return self._method

    def separates(self, n_rows: int, kernel: Any) -> bool:
        """Whether the outputs of the first layer have a kernel each, for training on so many rows.

        A kernel given as code is taken for all of them, unless the user says otherwise: it may not be made for it.
        """
        if self.separate_kernels is None:
            return n_rows >= MANY_ROWS and isinstance(kernel, str) and may_separate(vars(self))
        return self.separate_kernels

    def reselection(self, subset: Any) -> Reselection | None:
        """When and how to choose the subset anew with the selector `subset`: in the first half of a run, if at all."""
        if self.reselect_every is None:
            return None
        if self.reselect_every > self.max_iter // 2:
            raise ConfigurationError(
                f"reselect_every={self.reselect_every} never happens: subsets move in the first half of max_iter="
                f"{self.max_iter} only; use at most {self.max_iter // 2}."
            )
        return Reselection(self.reselect_every, self.max_iter // 2, get_selector(subset))

    def check_known_noise(self) -> None:
        """Raise ConfigurationError unless the options go together with noise variances that are known."""
        if self.inference != "sod":
            raise ConfigurationError(
                f"noise_variance is for inference='sod'; inference={self.inference!r} trains one noise for all rows."
            )
        noise = getattr(self._method, "noise", "homoscedastic")
        if noise != "homoscedastic":
            raise ConfigurationError(f"noise_variance is known noise, and noise={noise!r} learns it: use one.")
        if not self.tie_label_noise:
            raise ConfigurationError(
                "noise_variance is the noise of labels and likelihood: leave tie_label_noise at True."
            )
        if self.reselect_every is not None:
            raise ConfigurationError("noise_variance needs a subset that stays: leave reselect_every at None.")

    def automatic_size(self, X: Tensor) -> AutoSize | None:
        """What ``subset_size="auto"`` chooses for the scaled inputs X [N, D]; None for another `subset_size`."""
        if not isinstance(self.subset_size, Auto):
            return None
        batch_size = BATCH_SIZE if self.batch_size is None else self.batch_size
        if self.batch_size is None and self.inference == "sod":
            most = min(self.subset_size.max_size, (len(X) + 1) // 2)
            batch_size = most + self.batch_rows(most, len(X) - most)
        return self.subset_size.choose(
            X,
            self.initialization.noise_variance,
            batch_size=batch_size,
            n_samples=self.n_samples,
            n_layers=self.n_layers,
        )

    def subset_rows(self, n_rows: int) -> int:
        """Rows of the subset for a data set of that size; warns where the user asked for more than there are."""
        if isinstance(self.subset_size, int):
            if self.subset_size > n_rows:
                warnings.warn(
                    f"subset_size={self.subset_size} is more than the {n_rows} rows of the data: the subset is all of"
                    " them, and the rest is empty.",
                    SubsetSizeWarning,
                    stacklevel=5,
                )
            return min(self.subset_size, n_rows)
        if self.subset_size == "paper":
            return min(50 if n_rows < 5000 else 100, n_rows)
        # At least as many rows outside as inside: a rest that is seen only through the subset keeps q honest.
        return min(self.effort.subset_size, (n_rows + 1) // 2)

    def batch_rows(self, size: int, n_rest: int) -> int:
        """Rows of the rest in a step, beside a subset of that size; all rows for a method without batches."""
        if "batch_size" in UNUSED[self.inference]:
            return n_rest
        if self.batch_size is None and self.inference == "sod":
            share = min((size + n_rest) // _ROWS_FOR_ONE, _MOST_ROWS)
            # As many as the subset has, where somebody asked for a large one.
            return min(max(self.effort.batch_rows, share, size), n_rest)
        batch_size = BATCH_SIZE if self.batch_size is None else self.batch_size
        if batch_size <= size and n_rest > 0:
            raise ConfigurationError(
                f"batch_size={batch_size} counts the {size} rows of the subset in: none of the rest would be seen;"
                f" use more than {size}."
            )
        return min(max(batch_size - size, 0), n_rest)

    def hidden_widths(self, input_dim: int) -> list[int]:
        """Outputs of every hidden layer."""
        hidden = self.n_layers - 1
        if isinstance(self.hidden_width, list | tuple):
            if len(self.hidden_width) != hidden:
                raise ConfigurationError(
                    f"hidden_width={self.hidden_width!r} has {len(self.hidden_width)} entries, but n_layers="
                    f"{self.n_layers} has {hidden} hidden layers."
                )
            widths = [check_integer("hidden_width", width, minimum=1) for width in self.hidden_width]
        elif self.hidden_width is None:
            widths = [min(30, input_dim)] * hidden
        else:
            widths = [check_integer("hidden_width", self.hidden_width, minimum=1)] * hidden
        if self.parameterization == "paper" and any(width <= 2 for width in widths):
            warnings.warn(
                "parameterization='paper' with a hidden width of 1 or 2 is badly conditioned: the expected trace of"
                " K(Z_S)^-1 grows without bound as the jitter falls. Use 'whitened', or a wider layer.",
                NumericalWarning,
                stacklevel=5,
            )
        return widths


def _checked_steps(steps: Any, effort: Effort) -> int:
    return effort.max_iter if steps is None else check_integer("max_iter", steps, minimum=1)


def _checked_weight(estimator: Any) -> float:
    weight = estimator.predictive_weight
    return 0.0 if weight is None else check_share("predictive_weight", weight)
