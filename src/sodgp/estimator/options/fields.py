"""Single options of an estimator: what each may be, and what it becomes; ConfigurationError for anything else."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from sodgp.errors import ConfigurationError
from sodgp.linalg.cholesky import Jitter
from sodgp.model.architecture import Initialization
from sodgp.selectors.auto import Auto
from sodgp.system.progress import ProgressBar
from sodgp.system.validation import check_choice, check_integer, check_positive, check_share
from sodgp.training.checkpoint.folder import Cadence
from sodgp.training.history import Callback


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


def checked_pause(steps: Any) -> int | None:
    """Steps between two choices of the subset."""
    return None if steps is None else check_integer("reselect_every", steps, minimum=1)


def checked_outliers(probability: Any) -> float | None:
    """Probability of outliers in predictions."""
    share = None if probability is None else check_share("outlier_probability", probability)
    if share == 1.0:
        raise ConfigurationError("outlier_probability=1 would make every observation an outlier; use a small number.")
    return share


def checked_spread(factor: Any) -> float | None:
    """Factor of the members' spreads in their mixture."""
    number = None if factor is None else check_positive("member_spread", factor)
    if number is not None and not 0.1 <= number <= 10.0:
        raise ConfigurationError(f"member_spread={factor!r} must be from 0.1 to 10; 1 leaves the members as they are.")
    return number


def checked_initialization(initialization: Any) -> Initialization:
    """Values at which training starts."""
    if initialization is None:
        return Initialization()
    if not isinstance(initialization, Initialization):
        raise ConfigurationError(f"initialization must be an Initialization or None, not {initialization!r}.")
    check_choice("initialization.means", initialization.means, ("zero", "uniform"))
    for part in fields(initialization):
        value = getattr(initialization, part.name)
        if part.name != "means" and not (part.name == "lengthscale" and value is None):
            check_positive(f"initialization.{part.name}", value)
    return initialization


def check_seed(random_state: Any) -> None:
    """Raise ConfigurationError unless scikit-learn knows what to do with it."""
    try:
        check_random_state(random_state)
    except ValueError as error:
        raise ConfigurationError(
            f"random_state must be an integer from 0 to 2**32 - 1, a RandomState or None, not {random_state!r}."
        ) from error


def checked_jitter(jitter: Any, dtype: torch.dtype) -> Jitter:
    """What is added to diagonals."""
    if jitter is None:
        return Jitter.default(dtype)
    if jitter == "program":
        return Jitter(1e-6, relative=False, on_draws=True)
    if isinstance(jitter, str):
        raise ConfigurationError(f"jitter={jitter!r} is unknown; give a number, 'program' or None.")
    return Jitter(check_positive("jitter", jitter))


def checked_callbacks(callbacks: Any, verbose: Any, max_iter: int) -> list[Callback]:
    """Callbacks, with a progress bar where one is wanted."""
    if not isinstance(callbacks, list | tuple | None):
        raise ConfigurationError(f"callbacks must be a list of functions or None, not {callbacks!r}.")
    if not isinstance(verbose, bool | np.bool_):
        check_integer("verbose", verbose, minimum=0)
    checked = list(callbacks or [])
    for callback in checked:
        if not callable(callback):
            raise ConfigurationError(f"callbacks must be functions of a TrainingState, not {callback!r}.")
    return [*checked, ProgressBar(max_iter)] if verbose else checked


def checked_fraction(fraction: Any) -> float | None:
    """Share of the rows to hold out."""
    if fraction is None:
        return None
    if check_positive("validation_fraction", fraction) >= 1.0:
        raise ConfigurationError(f"validation_fraction must be between 0 and 1, not {fraction!r}.")
    return float(fraction)


def checked_folder(folder: Any) -> Path | None:
    """Where checkpoints go."""
    if folder is None:
        return None
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise ConfigurationError(f"checkpoint must be the path of a folder or None, not {folder!r}.")
    return Path(folder)


def checked_cadence(every: Any) -> Cadence:
    """How often checkpoints are written."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h)\s*", every) if isinstance(every, str) else None
    if match and float(match[1]) > 0:
        return Cadence(seconds=float(match[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0}[match[2]])
    if isinstance(every, str):
        raise ConfigurationError(
            f"checkpoint_every={every!r} is not understood; give a number of steps, such as 500, or a time such as"
            " '90s', '10min' or '2h'."
        )
    return Cadence(steps=check_integer("checkpoint_every", every, minimum=1))
