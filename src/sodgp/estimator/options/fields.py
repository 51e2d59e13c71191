"""Single options of an estimator: what each may be, and what it becomes; ConfigurationError for anything else."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from sodgp.errors import ConfigurationError
from sodgp.linalg.cholesky import Jitter
from sodgp.selectors.auto import Auto
from sodgp.system.progress import ProgressBar
from sodgp.system.validation import check_integer, check_positive
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


def check_jitter(jitter: Any) -> None:
    """Raise ConfigurationError for a jitter that is neither a positive number nor ``"program"`` nor None."""
    if isinstance(jitter, str) and jitter != "program":
        raise ConfigurationError(f"jitter={jitter!r} is unknown; give a number, 'program' or None.")
    if jitter is not None and not isinstance(jitter, str):
        check_positive("jitter", jitter)


def jitter_of(jitter: float | str | None, dtype: torch.dtype) -> Jitter:
    """What is added to diagonals."""
    if jitter is None:
        return Jitter.default(dtype)
    return Jitter(1e-6, relative=False, on_draws=True) if isinstance(jitter, str) else Jitter(float(jitter))


def checked_callbacks(callbacks: Any, verbose: Any, max_iter: int) -> Sequence[Callback]:
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


def checked_folder(folder: Any) -> Path:
    """Where checkpoints go."""
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise ConfigurationError(f"checkpoint must be a Checkpoint, the path of a folder or None, not {folder!r}.")
    return Path(folder)


def checked_cadence(every: Any) -> Cadence:
    """How often checkpoints are written."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h)\s*", every) if isinstance(every, str) else None
    if match and float(match[1]) > 0:
        return Cadence(seconds=float(match[1]) * {"s": 1.0, "min": 60.0, "h": 3600.0}[match[2]])
    if isinstance(every, str):
        raise ConfigurationError(
            f"every={every!r} of the checkpoint is not understood; give a number of steps, such as 500, or a time such"
            " as '90s', '10min' or '2h'."
        )
    return Cadence(steps=check_integer("every of the checkpoint", every, minimum=1))
