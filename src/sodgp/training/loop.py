"""The training loop: Adam, a learning-rate schedule, and a way back when numbers run away."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from sodgp.errors import ConfigurationError, NumericalError, NumericalWarning
from sodgp.training.steps import Snapshot, Step

SCHEDULES = ("constant", "cosine")


@dataclass(frozen=True)
class TrainingState:
    """What a callback sees.

    Attributes
    ----------
    iteration, max_iter : int
    bound : float
        Sum of the terms at this iteration (mean over replicates), in nats.
    terms : dict of str to float
    seconds : float
        Since training began.
    learning_rate : float
    model : DeepGP
        Live: look, do not touch.
    """

    iteration: int
    max_iter: int
    bound: float
    terms: dict[str, float]
    seconds: float
    learning_rate: float
    model: nn.Module


# A callback is called at every logged iteration and ends training by returning True. Where it has a method `close`,
# that is called when training is over, however it ended.
Callback = Callable[[TrainingState], bool | None]


@dataclass
class History:
    """The course of a fit, one entry for each logged iteration.

    Attributes
    ----------
    iteration : list of int
    bound : list of float
    terms : dict of str to list of float
    seconds : list of float
    rollbacks : int
        How often training went back to the last good parameters and halved the step.
    stopped : str
        Why training ended: ``"max_iter"``, ``"callback"``, ``"interrupted"`` or ``"failed"``.
    reselections : list of dict
        One for each time that the subset was chosen anew: ``iteration``, ``bound_before``, ``bound_after``,
        ``n_changed`` (rows) and ``variant`` (see `sodgp.training.carry.carried`; empty where nothing changed).
    """

    iteration: list[int] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    terms: dict[str, list[float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    rollbacks: int = 0
    stopped: str = "max_iter"
    reselections: list[dict[str, Any]] = field(default_factory=list)

    def log(self, iteration: int, terms: dict[str, float], seconds: float) -> None:
        """Append one entry; an iteration that is run again after a roll-back replaces its own."""
        if self.iteration and self.iteration[-1] == iteration:
            self.iteration.pop()
            for column in (self.bound, self.seconds, *self.terms.values()):
                column.pop()
        self.iteration.append(iteration)
        self.bound.append(math.fsum(terms.values()))
        self.seconds.append(seconds)
        for name, value in terms.items():
            self.terms.setdefault(name, []).append(value)


class Change(Protocol):
    """Something that changes model and data between two iterations, in place."""

    def is_due(self, iteration: int) -> bool:
        """Whether to change after this iteration."""
        ...

    def __call__(self, iteration: int, step: Step, histories: Sequence[History]) -> None:
        """Change parameters, optimiser state and data, and say so in the histories."""
        ...


@dataclass(frozen=True)
class Schedule:
    """Learning rate over a run.

    Parameters
    ----------
    learning_rate : float
    kind : {"constant", "cosine"}
        ``"cosine"`` holds the rate for the first part of the run, then lets it fall along half a cosine to 1 %.
    max_iter : int
    hold : float
        Share of the run before the fall.
    """

    learning_rate: float
    kind: str
    max_iter: int
    hold: float = 0.5

    def __post_init__(self) -> None:
        if self.kind not in SCHEDULES:
            raise ConfigurationError(f"schedule={self.kind!r} is unknown; choose one of {', '.join(SCHEDULES)}.")

    def at(self, iteration: int) -> float:
        """The rate at an iteration, from 1."""
        progress = iteration / max(self.max_iter, 1)
        if self.kind == "constant" or progress <= self.hold:
            return self.learning_rate
        fall = (progress - self.hold) / (1.0 - self.hold)
        return self.learning_rate * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * fall)))


def train(
    step: Step,
    model: nn.Module,
    schedule: Schedule,
    *,
    replicates: int = 1,
    callbacks: Sequence[Callback] = (),
    change: Change | None = None,
    log_every: int = 50,
    max_rollbacks: int = 6,
) -> list[History]:
    """Run the step `schedule.max_iter` times.

    At every logged iteration the parameters are checked and kept. When the bound or a parameter stops being finite, or
    a covariance cannot be factorised with the largest jitter, training goes back to the last kept parameters and halves
    the step for the rest of the run. Ctrl-C ends training with a usable model.

    Parameters
    ----------
    step : Step
    model : nn.Module
    schedule : Schedule
    replicates : int
        Models that train in this one program.
    callbacks : sequence of functions of TrainingState
        Called at logged iterations; one that returns True ends training.
    change : Change, optional
        Made after the iterations that it names, which are logged; training never goes back behind one.
    log_every : int
    max_rollbacks : int
        After so many the error is raised, with the last good parameters in place.

    Returns
    -------
    list of History
        One for each replicate.

    Raises
    ------
    NumericalError
        With layer, condition and what to try.
    """
    histories, began = [History() for _ in range(replicates)], time.perf_counter()
    rollbacks = 0
    good, good_iteration, shrink = Snapshot(step.parameters, step.optimizer), 0, 1.0
    iteration, stopped = 0, "max_iter"
    try:
        while iteration < schedule.max_iter:
            iteration += 1
            # In single precision, as a recorded step holds it: both kinds of step then take the same one.
            rate = float(np.float32(shrink * schedule.at(iteration)))
            step.set_learning_rate(rate)
            is_due = change is not None and change.is_due(iteration)
            is_logged = is_due or iteration % log_every == 0 or iteration in (1, schedule.max_iter)
            before = Snapshot(step.parameters, step.optimizer) if is_logged else None
            try:
                terms = step()
                if before is None:
                    continue
                values = {name: value.double().reshape(-1).tolist() for name, value in terms.items()}
                _check(values, step.parameters)
            except NumericalError as error:
                good.restore(step.parameters, step.optimizer)
                if step.fall_back():
                    # Recorded and compiled steps cannot raise the jitter, nor say what failed: plain ones can.
                    iteration = good_iteration
                    continue
                rollbacks += 1
                if rollbacks > max_rollbacks:
                    _say_what_was_tried(error, max_rollbacks, good_iteration)
                    for history in histories:
                        history.rollbacks, history.stopped = max_rollbacks, "failed"
                    error.histories = histories
                    raise
                iteration, shrink = good_iteration, 0.5 * shrink
                continue
            # Not the parameters after the step: nobody has seen a bound of theirs yet.
            good, good_iteration = before, iteration - 1
            seconds = time.perf_counter() - began
            for replicate, history in enumerate(histories):
                history.log(iteration, {name: value[replicate] for name, value in values.items()}, seconds)
            means = {name: math.fsum(value) / replicates for name, value in values.items()}
            state = TrainingState(iteration, schedule.max_iter, math.fsum(means.values()), means, seconds, rate, model)
            answers = [callback(state) for callback in callbacks]
            if any(answers):
                stopped = "callback"
                break
            if change is not None and is_due:
                change(iteration, step, histories)
                good, good_iteration = Snapshot(step.parameters, step.optimizer), iteration
    except KeyboardInterrupt:
        stopped = "interrupted"
        if not all(bool(torch.isfinite(p).all()) for p in step.parameters):
            good.restore(step.parameters, step.optimizer)
        warnings.warn(
            f"training was interrupted at iteration {iteration}; the model is usable as it is.",
            NumericalWarning,
            stacklevel=2,
        )
    finally:
        for callback in callbacks:
            getattr(callback, "close", _nothing)()
    for history in histories:
        history.rollbacks, history.stopped = rollbacks, stopped
    return histories


def _nothing() -> None:
    """A callback without `close` has nothing to close."""


def _check(values: dict[str, list[float]], parameters: Sequence[nn.Parameter]) -> None:
    if not all(math.isfinite(number) for value in values.values() for number in value):
        raise NumericalError("the bound is not finite.")
    if not all(bool(torch.isfinite(p).all()) for p in parameters):
        raise NumericalError("a parameter is not finite.")


def _say_what_was_tried(error: NumericalError, rollbacks: int, iteration: int) -> None:
    error.args = (
        f"{error.args[0]} Training went back {rollbacks} times and halved its step each time; the parameters of"
        f" iteration {iteration} are kept.",
    )
