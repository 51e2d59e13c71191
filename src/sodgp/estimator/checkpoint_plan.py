"""From an estimator's options to the plan of its checkpoints: the folder, how often, and which fit they belong to."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import torch

from sodgp.errors import CheckpointError, CheckpointWarning, ConfigurationError
from sodgp.estimator.options.configuration import Configuration
from sodgp.system.container import Record
from sodgp.system.validation import check_flag
from sodgp.training.checkpoint.folder import CheckpointFolder
from sodgp.training.checkpoint.journal import Plan

# Options that leave the numbers of a fit alone, or that are compared in another way (device, seed). n_threads is not
# among them: threads share out sums, and another number of them adds in another order, which rounds otherwise.
_FREE = frozenset(
    {
        "callbacks",
        "checkpoint",
        "checkpoint_every",
        "device",
        "max_minutes",
        "member_spread",
        "n_members",
        "n_restarts",
        "outlier_probability",
        "random_state",
        "verbose",
    }
)
# Those that a fit needs for the scores of held-out rows only.
_OF_HELD_OUT_ROWS = frozenset({"n_predict_samples"})


def plan_for(estimator: Any, resume: Any) -> Plan | None:
    """The plan of a fit's checkpoints; None where the estimator asks for none.

    Parameters
    ----------
    estimator : DeepGPRegressor
    resume : bool
        Continue from the newest checkpoint that is whole; where there is none at all, begin, with a warning.

    Raises
    ------
    ConfigurationError
        `resume` without a folder.
    CheckpointError
        Nothing can be written to the folder, its checkpoints cannot be read, or they are of an unfinished run that
        would be lost.
    """
    config = Configuration.from_estimator(estimator)
    resume = check_flag("resume", resume)
    if config.checkpoint is None:
        if resume:
            raise ConfigurationError("resume=True needs a folder to resume from: set checkpoint='folder'.")
        return None
    folder = CheckpointFolder(config.checkpoint)
    saved = _continued(folder) if resume else None
    free = _FREE if config.validation_fraction is not None else _FREE | _OF_HELD_OUT_ROWS
    if not resume:
        _refuse_to_lose(folder)
    return Plan(
        folder=folder,
        every=config.checkpoint_every,
        options={k: _plain(v) for k, v in estimator.get_params(deep=False).items() if k not in free},
        versions=_versions(),
        seeds=[],
        saved=saved,
    )


def seeds_of(plan: Plan | None, random_state: Any) -> list[int] | None:
    """The seeds of the fit to continue, where `random_state` does not fix them; else None."""
    if plan is None or plan.saved is None or isinstance(random_state, int | np.integer):
        return None
    seeds = plan.saved.info.get("seeds")
    if not isinstance(seeds, list) or len(seeds) != 3 or not all(type(seed) is int for seed in seeds):
        raise CheckpointError(f"the checkpoint in {plan.folder.path} has no seeds; start anew in another folder.")
    return seeds


def check_seed_is_kept(checkpoint: Any, random_state: Any) -> None:
    """ConfigurationError for several models with a checkpoint whose seeds would be others after a restart."""
    if checkpoint is not None and not isinstance(random_state, int | np.integer):
        raise ConfigurationError(
            f"several models (restarts, or members; see n_members) with checkpoint={str(checkpoint)!r} need an integer"
            f" random_state, not {random_state!r}: a resumed fit has to draw the same seeds again."
        )


def _continued(folder: CheckpointFolder) -> Record | None:
    saved = folder.read()
    if saved is None:
        warnings.warn(
            f"there is no checkpoint in {folder.path} to resume from; training starts from the beginning.",
            CheckpointWarning,
            stacklevel=4,
        )
    return saved


def _refuse_to_lose(folder: CheckpointFolder) -> None:
    try:
        there = folder.read(quiet=True)
    except CheckpointError:
        return  # nothing in it can be read, so nothing is lost
    if there is not None and not there.info.get("is_finished"):
        raise CheckpointError(
            f"{folder.path} holds the checkpoint of an unfinished fit, which starting anew would overwrite. Continue it"
            " with fit(X, y, resume=True) (--resume on the command line), name another folder, or delete this one."
        )


def _versions() -> dict[str, str]:
    import sodgp

    return {"sodgp": sodgp.__version__, "torch": torch.__version__}


def _plain(value: Any) -> Any:
    """An option as JSON: functions and objects by their names, data classes with their fields."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__qualname__, **{k: _plain(v) for k, v in dataclasses.asdict(value).items()}}
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
