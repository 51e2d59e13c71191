"""The training loop: steps, their history, and roll-backs when training diverges."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import nn

from sodgp.errors import GradientError, NumericalError, NumericalWarning
from sodgp.inference.contract import Terms
from sodgp.linalg.cholesky import Climbs, counting
from sodgp.system.running import Interrupt, deferred_interrupt
from sodgp.training.distributed.contract import ALONE, Ranks
from sodgp.training.history import Callback, History, TrainingState
from sodgp.training.steps import GuardedAdam, Schedule, Snapshot, Step


@dataclass
class Course:
    """The state of a run between two iterations, beyond parameters, generators and batches.

    A roll-back restores `good`, of iteration `good_iteration`, and halves `shrink`, the factor of the learning rate.
    `fell_back` says whether a recorded or compiled step was given up, `seconds` how long earlier processes trained, and
    `stopped` why the run is over (empty while it is not). There is one history for each replicate.
    """

    histories: list[History]
    good: Snapshot
    good_iteration: int = 0
    iteration: int = 0
    rollbacks: int = 0
    bad_gradients: int = 0
    shrink: float = 1.0
    climbs: Climbs = field(default_factory=Climbs)
    fell_back: bool = False
    seconds: float = 0.0
    stopped: str = ""
    _began: float = field(default_factory=time.perf_counter)

    @property
    def elapsed(self) -> float:
        """Seconds of training, those of earlier processes included."""
        return self.seconds + self.seconds_here

    @property
    def seconds_here(self) -> float:
        """Seconds of training in this process."""
        return time.perf_counter() - self._began

    def close(self, stopped: str) -> list[History]:
        """Write the counts and the reason of the end into the histories."""
        for history in self.histories:
            history.rollbacks, history.stopped = self.rollbacks, stopped
            history.jitter_climbs, history.bad_gradients = self.climbs.count, self.bad_gradients
        return self.histories


class Journal(Protocol):
    """Writes a run to disk at intervals, and restores one."""

    def begin(self, course: Course, step: Step) -> None:
        """Restore the run to be continued, if there is one, into the course, the step and everything else."""

    def is_due(self, count: int) -> bool:
        """Whether to write after this iteration."""

    def write(self, course: Course, step: Step) -> None:
        """Write the run as it is."""


def train(
    step: Step,
    model: nn.Module,
    schedule: Schedule,
    *,
    replicates: int = 1,
    callbacks: Sequence[Callback] = (),
    journal: Journal | None = None,
    max_seconds: float | None = None,
    validation: Callable[[], float] | None = None,
    log_every: int = 50,
    max_rollbacks: int = 6,
    ranks: Ranks = ALONE,
) -> list[History]:
    """Run the step `schedule.max_iter` times; the history of each replicate.

    At every logged iteration the parameters are checked and saved. When the bound or a parameter stops being finite, or
    a covariance cannot be factorised with the largest jitter, training restores the last good parameters and halves the
    step for the rest of the run. Ctrl-C ends training after the present iteration with a usable model.

    Parameters
    ----------
    step, model, schedule
    replicates : int
        Models that train in this one program.
    callbacks : sequence of functions of TrainingState
        Called at logged iterations; one that returns True ends training.
    journal : Journal, optional
        Writes when it is due, and when training is stopped.
    max_seconds : float, optional
        Training ends after the iteration in which this process has trained for so long.
    validation : function () -> float, optional
        How well the present model predicts rows that it has not seen; called at logged iterations.
    log_every : int
    max_rollbacks : int
        After so many the error is raised, with the last good parameters in place.
    ranks : Ranks
        The processes that train this model. What one of them decides or finds, all do at the same iteration.

    """
    course = Course([History() for _ in range(replicates)], Snapshot(step.parameters, step.optimizer))
    try:
        _call(callbacks, "open")
        if journal is not None:
            journal.begin(course, step)
    except BaseException:
        _call(callbacks, "close")
        raise
    if course.stopped:
        _call(callbacks, "close")
        return course.close(course.stopped)
    stopped, terms = "max_iter", None
    try:
        with deferred_interrupt() as interrupt, counting(course.climbs):
            heard = ranks.listen(lambda: (interrupt.requested, _is_late(course, max_seconds)))
            while course.iteration < schedule.max_iter:
                course.iteration += 1
                iteration = course.iteration
                # In single precision, as a recorded step holds it: both kinds of step then take the same one.
                rate = float(np.float32(course.shrink * schedule.at(iteration)))
                step.set_learning_rate(rate)
                is_logged = iteration % log_every == 0 or iteration in (1, schedule.max_iter)
                before = Snapshot(step.parameters, step.optimizer) if is_logged else None
                try:
                    terms = step()
                    seen = None if before is None else _looked(ranks, terms, step, validation)
                except NumericalError as error:
                    _roll_back(course, step, error, max_rollbacks)
                    continue
                if before is not None and seen is not None:
                    values, score = seen
                    # Not the parameters after the step, whose bound is not known yet.
                    course.good, course.good_iteration = before, iteration - 1
                    means = _log(course, values, score)
                    bound = math.fsum(means.values())
                    state = TrainingState(
                        iteration, schedule.max_iter, bound, means, course.elapsed, rate, model, score
                    )
                    if any(ranks.together(partial(_asked, callbacks, state, interrupt))):
                        stopped = course.stopped = "callback"
                        break
                is_interrupted, is_late = heard()
                is_over = iteration < schedule.max_iter and (is_interrupted or is_late)
                if journal is not None and (is_over or journal.is_due(iteration)):
                    journal.write(course, step)
                if is_over:
                    stopped = "interrupted" if is_interrupted else "max_minutes"
                    break
            else:
                course.stopped = "max_iter"
    except KeyboardInterrupt:
        # In the middle of a step: nothing is written, and the last terms may belong to other parameters.
        stopped, terms = "interrupted", None
    finally:
        _call(callbacks, "close")
    if stopped in ("interrupted", "max_minutes"):
        _end_early(course, step, terms, validation)
    if stopped == "interrupted":
        warnings.warn(
            f"training was interrupted at iteration {course.iteration}; the model is usable as it is.",
            NumericalWarning,
            stacklevel=2,
        )
    return course.close(stopped)


def _roll_back(course: Course, step: Step, error: NumericalError, max_rollbacks: int) -> None:
    """Restore the last good parameters, and go on plainly or with half the step; at last raise the error."""
    course.good.restore(step.parameters, step.optimizer)
    course.iteration = course.good_iteration
    course.bad_gradients += isinstance(error, GradientError)
    if step.fall_back():
        # Recorded and compiled steps cannot raise the jitter, nor say what failed: plain ones can.
        course.fell_back = True
        return
    if course.rollbacks == max_rollbacks:
        _explain(error, max_rollbacks, course.good_iteration, step.parameters[0].dtype)
        error.histories = course.close("failed")
        raise error
    course.rollbacks += 1
    course.shrink *= 0.5


def _looked(
    ranks: Ranks, terms: Terms, step: Step, validation: Callable[[], float] | None
) -> tuple[dict[str, list[float]], float | None]:
    """The terms and the held-out rows' log density as the first process finds them; all must have its parameters."""
    return ranks.together(lambda: (_checked(terms, step), _scored(validation)), same=step.parameters)[0]


def _asked(callbacks: Sequence[Callback], state: TrainingState, interrupt: Interrupt) -> bool:
    """Whether a callback ends training."""
    try:
        answers = [callback(state) for callback in callbacks]
    except KeyboardInterrupt:
        interrupt.requested = True
        return False
    return any(answers)


def _is_late(course: Course, max_seconds: float | None) -> bool:
    return max_seconds is not None and course.seconds_here >= max_seconds


def _log(course: Course, values: dict[str, list[float]], score: float | None) -> dict[str, float]:
    """Add an entry to every history, and return the terms' means over replicates."""
    seconds = course.elapsed
    for replicate, history in enumerate(course.histories):
        history.log(course.iteration, {name: value[replicate] for name, value in values.items()}, seconds, score)
    return {name: math.fsum(value) / len(value) for name, value in values.items()}


def _end_early(course: Course, step: Step, terms: Terms | None, validation: Callable[[], float] | None) -> None:
    """Log the last iteration if it was not, or restore the last good parameters if it failed unnoticed."""
    try:
        if terms is not None:
            values = _checked(terms, step)
            if course.histories[0].iteration[-1:] != [course.iteration]:
                _log(course, values, _scored(validation))
        elif not all(bool(torch.isfinite(p).all()) for p in step.parameters):
            course.good.restore(step.parameters, step.optimizer)
    except NumericalError:
        course.good.restore(step.parameters, step.optimizer)


def _call(callbacks: Sequence[Callback], name: str) -> None:
    """Call the method `open` or `close` of the callbacks that have it."""
    for callback in callbacks:
        getattr(callback, name, lambda: None)()


def _checked(terms: Terms, step: Step) -> dict[str, list[float]]:
    """The terms of every replicate; NumericalError unless they, the parameters and the gradients are finite."""
    values = {name: value.double().reshape(-1).tolist() for name, value in terms.items()}
    if not all(math.isfinite(number) for value in values.values() for number in value):
        raise NumericalError("the bound is not finite.")
    if not all(bool(torch.isfinite(p).all()) for p in step.parameters):
        raise NumericalError("a parameter is not finite.")
    if isinstance(step.optimizer, GuardedAdam) and step.optimizer.look():
        raise GradientError("a gradient is not finite.")
    return values


def _scored(validation: Callable[[], float] | None) -> float | None:
    """The held-out rows' log density, if there are any."""
    score = None if validation is None else validation()
    if score is not None and not math.isfinite(score):
        raise NumericalError("the log density of the held-out rows is not finite.")
    return score


def _explain(error: NumericalError, rollbacks: int, iteration: int, dtype: torch.dtype) -> None:
    """Add to the error what training tried, and what the user can."""
    narrow = ""
    if dtype == torch.float32:
        narrow = " The numbers were float32, which has seven digits; dtype='float64' has sixteen and often just works."
    error.args = (
        f"{error.args[0]} Training went back {rollbacks} times and halved its step each time; the last good"
        f" parameters are those of iteration {iteration}.{narrow}",
    )
