"""Single options of an estimator: what each may be, and what it becomes; ConfigurationError for anything else.

The tables here are the only place that knows which methods, likelihoods and efforts there are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import torch
from sklearn.utils import check_random_state

from sodgp.errors import ConfigurationError
from sodgp.inference.contract import Inference
from sodgp.inference.dsvi import DSVI
from sodgp.inference.mean_field import MeanField
from sodgp.inference.sghmc import SGHMC
from sodgp.inference.sod import SoD
from sodgp.likelihoods import (
    Bernoulli,
    Dirichlet,
    Gaussian,
    HeavyTailed,
    Heteroscedastic,
    NegativeBinomial,
    Poisson,
    Softmax,
    StudentT,
)
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.linalg.cholesky import DEFAULT_JITTER, Jitter
from sodgp.model.architecture import Initialization
from sodgp.selectors.auto import Auto
from sodgp.system.parameters import Parameters
from sodgp.system.progress import ProgressBar, is_watched
from sodgp.system.validation import check_choice, check_flag, check_integer, check_positive
from sodgp.training.checkpoint.folder import Cadence
from sodgp.training.history import Callback
from sodgp.training.steps import SCHEDULES

E = TypeVar("E")

METHODS: Final[dict[str, type[SoD | DSVI | SGHMC | MeanField]]] = {
    method.name: method for method in (SoD, DSVI, SGHMC, MeanField)
}
_OF_NUMBERS: Final = (Gaussian, Heteroscedastic, HeavyTailed, StudentT)
_OF_COUNTS: Final = (Poisson, NegativeBinomial)
_OF_CLASSES: Final = (Bernoulli, Softmax, Dirichlet)
LIKELIHOODS: Final[dict[str, type[Any]]] = {each.name: each for each in (*_OF_NUMBERS, *_OF_COUNTS, *_OF_CLASSES)}
# What y may be turned into before training; positive numbers all but the first.
TRANSFORMS: Final = ("none", "log", "box_cox")
# Fields of methods and likelihoods that training does not use: they may be changed without a new fit.
OF_PREDICTION_ONLY: Final = frozenset({"member_spread", "outlier_probability"})


@dataclass(frozen=True)
class Effort:
    """Rows of the subset, steps of training, rows of the rest in a step, and members.

    Examples
    --------
    >>> EFFORTS["standard"]
    Effort(subset_size=100, max_iter=1400, batch_rows=200, members=1)
    """

    subset_size: int
    max_iter: int
    batch_rows: int
    members: int = 1


EFFORTS: Final = {
    "quick": Effort(50, 450, 150),
    "standard": Effort(100, 1400, 200),
    "thorough": Effort(200, 2000, 500, members=4),
}


@dataclass(frozen=True)
class Tuning(Parameters):
    """Fine tuning of training, which hardly anybody needs.

    Parameters
    ----------
    initialization : sodgp.model.architecture.Initialization or None
        Values at which training starts.
    jitter : float, "program" or None
        Added to the diagonal of covariance matrices, relative to its mean; None is 1e-6 in float64 and 1e-4 in float32.
        ``"program"`` adds an absolute 1e-6 wherever the authors' program does.
    schedule : {"cosine", "constant"}
        ``"cosine"`` holds the learning rate for half of the run and then lets it fall to one hundredth.
    compile : bool
        Let PyTorch's compiler fuse the small operations of a step. It takes 10 to 60 seconds once and pays in long
        runs, above all on a GPU; it needs a C++ compiler, or Triton on CUDA. Two such runs on a GPU were the same up to
        rounding, not bit for bit.

    Examples
    --------
    >>> Tuning(jitter=1e-5).set_params(schedule="constant")
    Tuning(initialization=None, jitter=1e-05, schedule='constant', compile=False)
    """

    initialization: Initialization | None = None
    jitter: float | str | None = None
    schedule: str = "cosine"
    compile: bool = False

    def __post_init__(self) -> None:
        check_choice("schedule", self.schedule, SCHEDULES)
        check_flag("compile", self.compile)
        if isinstance(self.jitter, str) and self.jitter != "program":
            raise ConfigurationError(f"jitter={self.jitter!r} is unknown; give a number, 'program' or None.")
        if self.jitter is not None and not isinstance(self.jitter, str):
            check_positive("jitter", self.jitter)
        start = self.initialization
        if start is None:
            return
        if not isinstance(start, Initialization):
            raise ConfigurationError(f"initialization must be an Initialization or None, not {start!r}.")
        check_choice("initialization.means", start.means, ("zero", "uniform"))
        for part in fields(start):
            value = getattr(start, part.name)
            if part.name != "means" and not (part.name == "lengthscale" and value is None):
                check_positive(f"initialization.{part.name}", value)

    def jitter_of(self, dtype: torch.dtype) -> Jitter:
        """What is added to diagonals."""
        if self.jitter is None:
            return DEFAULT_JITTER[dtype]
        if isinstance(self.jitter, str):
            return Jitter(1e-6, relative=False, on_draws=True)
        return Jitter(float(self.jitter))


@dataclass(frozen=True)
class Checkpoint(Parameters):
    """Where and how often training is written, so that ``fit(X, y, resume=True)`` continues from there bit for bit.

    Parameters
    ----------
    folder : path
        For this fit alone.
    every : int or str
        After so many steps, or after a time such as ``"90s"``, ``"10min"`` or ``"2h"``.

    Examples
    --------
    >>> Checkpoint("runs/first", every=500)
    Checkpoint(folder='runs/first', every=500)
    """

    folder: str | os.PathLike[str]
    every: int | str = "10min"

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | os.PathLike) or not os.fspath(self.folder):
            raise ConfigurationError(
                f"checkpoint must be a Checkpoint, the path of a folder or None, not {self.folder!r}."
            )
        self.cadence()

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.folder)

    def cadence(self) -> Cadence:
        """How often checkpoints are written."""
        if not isinstance(self.every, str):
            return Cadence(steps=check_integer("every of the checkpoint", self.every, minimum=1))
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h)\s*", self.every)
        if not match or not float(match[1]) > 0:
            raise ConfigurationError(
                f"every={self.every!r} of the checkpoint is not understood; give a number of steps, such as 500, or a"
                " time such as '90s', '10min' or '2h'."
            )
        return Cadence(seconds=float(match[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0}[match[2]])


# They are frozen: one of each class is enough.
_METHODS: Final[dict[str, Inference]] = {name: cls() for name, cls in METHODS.items()}
_LIKELIHOODS: Final[dict[str, LikelihoodOptions]] = {name: cls() for name, cls in LIKELIHOODS.items()}
_TUNING: Final = Tuning()


def method_of(inference: Any) -> Inference:
    """The method that a name stands for, with its defaults; or the object itself.

    Examples
    --------
    >>> method_of("dsvi")
    DSVI(learn_inducing_inputs=True, objective='bound')
    """
    if not isinstance(inference, str | type) and isinstance(inference, Inference):
        return inference
    return _named("inference", inference, _METHODS)


def likelihood_of(likelihood: Any) -> LikelihoodOptions | None:
    """The likelihood that a name stands for, with its defaults; or the object itself, or None where data decide."""
    if likelihood is None:
        return None
    if not isinstance(likelihood, str | type) and isinstance(likelihood, LikelihoodOptions):
        return likelihood
    return _named("likelihood", likelihood, _LIKELIHOODS)


def likelihood_for(likelihood: Any, takes: Sequence[str], n_classes: int | None) -> LikelihoodOptions:
    """The likelihood of a fit to so many classes; None for a number that is not known yet.

    Raises
    ------
    ConfigurationError
        It is unknown, or of another kind of y than the estimator takes.
    """
    if likelihood is None and "classes" not in takes:
        raise ConfigurationError(f"likelihood=None is unknown; give one of {', '.join(map(repr, _names(takes)))}.")
    found = likelihood_of(likelihood) or _LIKELIHOODS["bernoulli" if n_classes in (None, 2) else "softmax"]
    if found.targets not in takes:
        other = "DeepGPClassifier" if found.targets == "classes" else "DeepGPRegressor"
        raise ConfigurationError(
            f"likelihood={found.name!r} is of {found.targets}, for {other}; here it is one of"
            f" {', '.join(map(repr, _names(takes)))}."
        )
    return found


def _names(takes: Sequence[str]) -> list[str]:
    """Names of the likelihoods of such y."""
    return [name for name, each in LIKELIHOODS.items() if each.targets in takes]


def _named(argument: str, value: Any, known: Mapping[str, E]) -> E:
    if isinstance(value, str):
        if value not in known:
            check_choice(argument, value, tuple(known))
        return known[value]
    classes = ", ".join(type(each).__name__ for each in known.values())
    raise ConfigurationError(
        f"{argument}={value!r:.100} is unknown; give one of {', '.join(map(repr, known))}, or an object: {classes}."
    )


def tuning_of(tuning: Any) -> Tuning:
    """The tuning itself; None stands for the defaults."""
    if tuning is not None and not isinstance(tuning, Tuning):
        raise ConfigurationError(f"tuning must be a Tuning or None, not {tuning!r:.100}.")
    return _TUNING if tuning is None else tuning


def checkpoint_of(checkpoint: Any) -> Checkpoint | None:
    """Where and how often to write: the object itself, or that of a path."""
    return checkpoint if checkpoint is None or isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)


# Arguments of the estimator that are objects, or stand for one.
OBJECTS: Final[dict[str, Callable[[Any], Inference | LikelihoodOptions | Tuning | Checkpoint | None]]] = {
    "inference": method_of,
    "likelihood": likelihood_of,
    "tuning": tuning_of,
    "checkpoint": checkpoint_of,
}


def checked_size(size: Any) -> int | str | Auto | None:
    """Rows of the subset, or how they are chosen."""
    if size is None or isinstance(size, Auto):
        return size
    if isinstance(size, str):
        if size not in ("paper", "auto"):
            raise ConfigurationError(
                f"subset_size={size!r} is unknown; give 'auto', an Auto, a number of rows, 'paper' or None."
            )
        return Auto() if size == "auto" else size
    return check_integer("subset_size", size, minimum=1)


def checked_width(width: Any) -> int | list[int] | None:
    """Outputs of the hidden layers: one number for all, a list with one for each, or None."""
    if width is None:
        return None
    if isinstance(width, list | tuple):
        return [check_integer("hidden_width", each, minimum=1) for each in width]
    return check_integer("hidden_width", width, minimum=1)


def check_seed(random_state: Any) -> None:
    """Raise ConfigurationError unless scikit-learn knows what to do with it."""
    try:
        check_random_state(random_state)
    except ValueError as error:
        raise ConfigurationError(
            f"random_state must be an integer from 0 to 2**32 - 1, a RandomState or None, not {random_state!r}."
        ) from error


def checked_callbacks(callbacks: Any) -> list[Callback]:
    """The functions that are called during training; one may stand alone."""
    if callable(callbacks):
        return [callbacks]
    if not isinstance(callbacks, list | tuple | None):
        raise ConfigurationError(f"callbacks must be a function, a list of functions or None, not {callbacks!r}.")
    for callback in callbacks or []:
        if not callable(callback):
            raise ConfigurationError(f"callbacks must be functions of a TrainingState, not {callback!r}.")
    return list(callbacks or [])


def progress_of(verbose: Any, fits: int) -> list[ProgressBar]:
    """The progress bar of so many models, where it is wanted."""
    if isinstance(verbose, str) and verbose == "auto":
        return [ProgressBar(fits, auto=True)] if is_watched() else []
    if not isinstance(verbose, bool | np.bool_):
        check_integer("verbose (unless it is 'auto')", verbose, minimum=0)
    return [ProgressBar(fits)] if verbose else []


def checked_layers(n_layers: Any, width: int | list[int] | None) -> int | None:
    """Layers of a model; None leaves them to the method, unless a list of widths says how many."""
    if n_layers is None:
        return len(width) + 1 if isinstance(width, list) else None
    return check_integer("n_layers", n_layers, minimum=1)


def checked_jobs(n_jobs: Any) -> int | None:
    """Processes by joblib's convention."""
    if n_jobs is None or (isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool) and n_jobs != 0):
        return None if n_jobs is None else int(n_jobs)
    raise ConfigurationError(f"n_jobs must be an integer other than 0 (-1: all cores) or None, not {n_jobs!r}.")


def checked_fraction(fraction: Any) -> float | None:
    """Share of the rows to hold out."""
    if fraction is not None and check_positive("validation_fraction", fraction) >= 1.0:
        raise ConfigurationError(f"validation_fraction must be between 0 and 1, not {fraction!r}.")
    return None if fraction is None else float(fraction)
