"""From an estimator's options to the plan of its checkpoints: the folder, how often, and which fit they belong to."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from sodgp.errors import CheckpointError, CheckpointWarning
from sodgp.estimator.options.fields import OBJECTS, OF_PREDICTION_ONLY, Checkpoint
from sodgp.system.container import Record
from sodgp.system.notice import warn_user
from sodgp.system.version import VERSION
from sodgp.training.checkpoint.folder import CheckpointFolder
from sodgp.training.checkpoint.journal import Plan

if TYPE_CHECKING:
    from sodgp.estimator.base import DeepGPEstimator

__all__ = ["plans_for", "seeds_of"]

# Options that leave the numbers of a fit alone, or that are compared in another way (device, seed). n_threads is not
# among them: threads share out sums, and another number of them adds in another order, which rounds otherwise.
_FREE: Final = OF_PREDICTION_ONLY | {
    *(
        "callbacks",
        "checkpoint",
        "device",
        "max_minutes",
        "n_jobs",
        "n_members",
        "n_restarts",
        "random_state",
        "verbose",
    )
}
# Those that a fit needs for the scores of held-out rows only.
_OF_HELD_OUT_ROWS: Final = frozenset({"n_predict_samples"})


def plans_for(estimator: DeepGPEstimator, checkpoint: Checkpoint, count: int, *, resume: bool) -> list[Plan]:
    """The plans of a fit's checkpoints: one for each of its programs, in folders of their own where there are many.

    With `resume` each continues from the newest checkpoint that is whole; where there is none it begins, with a warning
    if that is so for all.

    Raises
    ------
    CheckpointError
        Nothing can be written to the folder, its checkpoints cannot be read, or they are of an unfinished run that
        would be lost.
    """
    paths = [checkpoint.path / f"model-{i}" for i in range(count)] if count > 1 else [checkpoint.path]
    folders = [CheckpointFolder(path) for path in paths]
    records = _continued(checkpoint, folders) if resume else [None] * count
    free = _FREE if estimator.validation_fraction is not None else _FREE | _OF_HELD_OUT_ROWS
    if not resume:
        _refuse_to_lose(checkpoint, folders)
    options = estimator.get_params(deep=False)
    options |= {name: object_of(options[name]) for name, object_of in OBJECTS.items()}
    return [
        Plan(
            folder=folder,
            every=checkpoint.cadence(),
            options={name: _plain(value) for name, value in options.items() if name not in free},
            versions={"sodgp": VERSION, "torch": torch.__version__},
            seeds=[],
            saved=saved,
        )
        for folder, saved in zip(folders, records, strict=True)
    ]


def seeds_of(plan: Plan, random_state: int | np.random.RandomState | None) -> list[int] | None:
    """The seeds of the fit to continue, where `random_state` does not fix them; else None."""
    if plan.saved is None or isinstance(random_state, int | np.integer):
        return None
    seeds = plan.saved.info.get("seeds")
    if not isinstance(seeds, list) or len(seeds) != 3 or not all(type(seed) is int for seed in seeds):
        raise CheckpointError(f"the checkpoint in {plan.folder.path} has no seeds; start anew in another folder.")
    return seeds


def _continued(checkpoint: Checkpoint, folders: Sequence[CheckpointFolder]) -> list[Record | None]:
    records = [folder.read() for folder in folders]
    if not any(records):
        warn_user(
            f"there is no checkpoint in {checkpoint.path} to resume from; training starts from the beginning.",
            CheckpointWarning,
        )
    return records


def _refuse_to_lose(checkpoint: Checkpoint, folders: Sequence[CheckpointFolder]) -> None:
    finished = []
    for folder in folders:
        try:
            there = folder.read(quiet=True)
        except CheckpointError:
            there = None  # nothing in it can be read, so nothing is lost
        finished.append(None if there is None else bool(there.info.get("is_finished")))
    # Models that are done are part of an unfinished fit while others have not begun.
    if False in finished or (True in finished and None in finished):
        raise CheckpointError(
            f"{checkpoint.path} holds the checkpoint of an unfinished fit, which starting anew would overwrite."
            " Continue it with fit(X, y, resume=True) (--resume on the command line), name another folder, or delete"
            " this one."
        )


def _plain(value: Any) -> Any:
    """An option as JSON: functions and objects by their names, data classes with their fields."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.name not in OF_PREDICTION_ONLY}
        return {"type": type(value).__qualname__, **{name: _plain(part) for name, part in fields.items()}}
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
