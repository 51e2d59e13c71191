"""The options of an estimator, checked once and turned into what the rooms below understand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sodgp.errors import ConfigurationError, NumericalWarning, SubsetSizeWarning
from sodgp.estimator.columns import checked_columns
from sodgp.estimator.options.fields import (
    EFFORTS,
    TRANSFORMS,
    Checkpoint,
    Effort,
    check_seed,
    checked_callbacks,
    checked_fraction,
    checked_jobs,
    checked_layers,
    checked_size,
    checked_width,
    checkpoint_of,
    likelihood_for,
    method_of,
    progress_of,
    tuning_of,
)
from sodgp.estimator.options.rules import Combination, check_rules
from sodgp.inference.contract import Inference
from sodgp.kernels.make import KERNEL_NAMES, KernelSpec
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.linalg.cholesky import Jitter
from sodgp.model.architecture import Initialization
from sodgp.selectors import Selector, get_selector
from sodgp.selectors.auto import Auto, AutoSize
from sodgp.system.notice import warn_user
from sodgp.system.validation import (
    check_choice,
    check_flag,
    check_integer,
    check_positive,
    check_threads,
    resolve_device,
)
from sodgp.training.history import Callback

if TYPE_CHECKING:
    from sodgp.estimator.base import DeepGPEstimator

__all__ = ["BATCH_SIZE", "Configuration"]

# Rows of a step where neither the user nor the method says, as in the paper.
BATCH_SIZE = 2000
_DTYPES = {"float64": torch.float64, "float32": torch.float32}


@dataclass(frozen=True)
class Configuration:
    """Checked options. Build one with `from_estimator`; see `sodgp.DeepGPRegressor` for their meaning.

    Where `is_open`, the number of classes decides the likelihood: see `likelihood_for`.
    """

    method: Inference
    likelihood: LikelihoodOptions
    is_open: bool
    n_layers: int | None
    hidden_width: int | list[int] | None
    hidden_mean: str
    target_transform: str
    kernel: KernelSpec
    selector: Selector
    subset_size: int | str | Auto | None
    n_samples: int
    n_predict_samples: int
    effort: Effort
    max_iter: int | None
    batch_size: int | None
    learning_rate: float | None
    n_members: int
    n_restarts: int
    warm_start: bool
    validation_fraction: float | None
    max_seconds: float | None
    callbacks: list[Callback]
    checkpoint: Checkpoint | None
    initialization: Initialization
    jitter: Jitter
    schedule: str
    compile: bool
    n_jobs: int | None
    n_threads: int | str | None
    dtype: torch.dtype
    device: torch.device
    random_state: int | np.random.RandomState | None

    @classmethod
    def from_estimator(
        cls,
        estimator: DeepGPEstimator,
        *,
        knows_noise: bool = False,
        has_weights: bool = False,
        from_source: bool = False,
        resume: bool = False,
    ) -> Configuration:
        """Check every option of an estimator, and every rule about two of them.

        Parameters
        ----------
        estimator : DeepGPEstimator
        knows_noise, has_weights, from_source, resume : bool
            Whether `fit` gets noise variances and weights of rows, whether it reads rows from a source, and whether it
            continues from a checkpoint.

        Raises
        ------
        ConfigurationError
            Naming the option, what it was, and what it may be.
        """
        e = estimator
        method, tuning = method_of(e.inference), tuning_of(e.tuning)
        likelihood = likelihood_for(e.likelihood, e.takes, None)
        checkpoint, callbacks = checkpoint_of(e.checkpoint), checked_callbacks(e.callbacks)
        width, size, fraction = (
            checked_width(e.hidden_width),
            checked_size(e.subset_size),
            checked_fraction(e.validation_fraction),
        )
        check_seed(e.random_state)
        checked_columns(e.columns)
        selector = get_selector(e.subset)
        check_flag("resume", resume)
        check_choice("target_transform", e.target_transform, TRANSFORMS)
        check_choice("hidden_mean", e.hidden_mean, ("linear", "zero"))
        check_choice("dtype", e.dtype, tuple(_DTYPES))
        check_choice("effort", e.effort, tuple(EFFORTS))
        if not callable(e.kernel):
            check_choice("kernel", e.kernel, KERNEL_NAMES)
        dtype, effort = _DTYPES[e.dtype], EFFORTS[e.effort]
        n_members, n_restarts = _n_members(e, method, effort), check_integer("n_restarts", e.n_restarts, minimum=1)
        config = cls(
            method=method,
            likelihood=likelihood,
            is_open=e.likelihood is None,
            n_layers=checked_layers(e.n_layers, width),
            hidden_width=width,
            hidden_mean=e.hidden_mean,
            target_transform=e.target_transform,
            kernel=e.kernel,
            selector=selector,
            subset_size=size,
            n_samples=check_integer("n_samples", e.n_samples, minimum=1),
            n_predict_samples=check_integer("n_predict_samples", e.n_predict_samples, minimum=1),
            effort=effort,
            max_iter=None if e.max_iter is None else check_integer("max_iter", e.max_iter, minimum=1),
            batch_size=None if e.batch_size is None else check_integer("batch_size", e.batch_size, minimum=1),
            learning_rate=None if e.learning_rate is None else check_positive("learning_rate", e.learning_rate),
            n_restarts=n_restarts,
            warm_start=check_flag("warm_start", e.warm_start),
            validation_fraction=fraction,
            max_seconds=None if e.max_minutes is None else 60.0 * check_positive("max_minutes", e.max_minutes),
            n_jobs=checked_jobs(e.n_jobs),
            n_threads=check_threads(e.n_threads),
            device=resolve_device(e.device),
            n_members=n_members,
            callbacks=[*callbacks, *progress_of(e.verbose, n_members * n_restarts)],
            checkpoint=checkpoint,
            initialization=tuning.initialization or Initialization(),
            jitter=tuning.jitter_of(dtype),
            schedule=tuning.schedule,
            compile=tuning.compile,
            dtype=dtype,
            random_state=e.random_state,
        )
        check_rules(Combination(e, config, knows_noise, from_source, resume, has_weights))
        return config

    def likelihood_for(self, n_classes: int) -> LikelihoodOptions:
        """The likelihood, for so many classes where y has some."""
        return likelihood_for(None, ("classes",), n_classes) if self.is_open else self.likelihood

    def automatic_size(self, method: Inference, X: Tensor) -> AutoSize | None:
        """What ``subset_size="auto"`` chooses for the settled method and X [N, D]; None for another `subset_size`."""
        if not isinstance(self.subset_size, Auto):
            return None
        batch_size = BATCH_SIZE if self.batch_size is None else self.batch_size
        most = min(self.subset_size.max_size, (len(X) + 1) // 2)
        usual = method.usual_batch(most, len(X) - most, self.effort.batch_rows)
        if self.batch_size is None and usual is not None:
            batch_size = most + usual
        return self.subset_size.choose(
            X,
            self.initialization.noise_variance,
            batch_size=batch_size,
            n_samples=self.n_samples,
            n_layers=self.layers_of(method, len(X)),
        )

    def subset_rows(self, n_rows: int) -> int:
        """Rows of the subset for a data set of that size; warns where the user asked for more than there are."""
        if isinstance(self.subset_size, int):
            if self.subset_size > n_rows:
                warn_user(
                    f"subset_size={self.subset_size} is more than the {n_rows} rows of the data: the subset is all of"
                    " them, and the rest is empty.",
                    SubsetSizeWarning,
                )
            return min(self.subset_size, n_rows)
        if self.subset_size == "paper":
            return min(50 if n_rows < 5000 else 100, n_rows)
        # At least as many rows outside as inside: a rest that is seen only through the subset keeps q honest.
        return min(self.effort.subset_size, (n_rows + 1) // 2)

    def batch_rows(self, method: Inference, size: int, n_rest: int) -> int:
        """Rows of the rest in a step of the settled method; all rows for a method without batches."""
        if "batch_size" in method.unused_options:
            return n_rest
        usual = method.usual_batch(size, n_rest, self.effort.batch_rows)
        if self.batch_size is None and usual is not None:
            return usual
        batch_size = BATCH_SIZE if self.batch_size is None else self.batch_size
        if batch_size <= size and n_rest > 0:
            raise ConfigurationError(
                f"batch_size={batch_size} counts the {size} rows of the subset in: none of the rest would be seen;"
                f" use more than {size}."
            )
        return min(max(batch_size - size, 0), n_rest)

    def steps_of(self, method: Inference, n_rows: int) -> int:
        """Steps of a fit by the settled method."""
        return method.usual_steps(self.effort.max_iter, n_rows) if self.max_iter is None else self.max_iter

    def layers_of(self, method: Inference, n_rows: int) -> int:
        """Layers of a model of the settled method, the last one included."""
        return method.usual_layers(n_rows) if self.n_layers is None else self.n_layers

    def hidden_widths(self, method: Inference, n_rows: int, input_dim: int) -> list[int]:
        """Outputs of every hidden layer; warns of widths that the method has trouble with."""
        if isinstance(self.hidden_width, list):
            widths = self.hidden_width
        else:
            width = min(30, input_dim) if self.hidden_width is None else self.hidden_width
            widths = [width] * (self.layers_of(method, n_rows) - 1)
        caution = method.caution(widths)
        if caution is not None:
            warn_user(caution, NumericalWarning)
        return widths


def _n_members(e: DeepGPEstimator, method: Inference, effort: Effort) -> int:
    """Models that predict as one: as many as the user says, or as method and effort want where no option objects."""
    if e.n_members is not None:
        return check_integer("n_members", e.n_members, minimum=1)
    is_one_fit = e.n_restarts == 1 and not e.warm_start and e.validation_fraction is None
    # A kernel given as code may not be made for many models in one program.
    return method.usual_members(effort.members) if isinstance(e.kernel, str) and is_one_fit else 1
