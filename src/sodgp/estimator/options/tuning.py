"""Fine tuning and checkpoints: options that are grouped into one object each."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from sodgp.errors import ConfigurationError
from sodgp.estimator.options.fields import check_jitter, checked_cadence, checked_folder
from sodgp.model.architecture import Initialization
from sodgp.system.parameters import Parameters
from sodgp.system.validation import check_choice, check_flag, check_positive
from sodgp.training.schedule import SCHEDULES

__all__ = ["Checkpoint", "Tuning"]


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
        check_jitter(self.jitter)
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

    folder: Any
    every: int | str = "10min"

    def __post_init__(self) -> None:
        checked_folder(self.folder)
        checked_cadence(self.every)
