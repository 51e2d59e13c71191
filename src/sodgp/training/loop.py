"""The training loop: Adam, a learning-rate schedule, and a way back when numbers run away."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from sodgp.errors import ConfigurationError, NumericalError, NumericalWarning
from sodgp.inference.base import Terms

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


# A callback is called at every logged iteration and ends training by returning True.
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
        Why training ended: ``"max_iter"``, ``"callback"`` or ``"interrupted"``.
    """

    iteration: list[int] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    terms: dict[str, list[float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    rollbacks: int = 0
    stopped: str = "max_iter"

    def log(self, state: TrainingState) -> None:
        """Append one entry."""
        self.iteration.append(state.iteration)
        self.bound.append(state.bound)
        self.seconds.append(state.seconds)
        for name, value in state.terms.items():
            self.terms.setdefault(name, []).append(value)


@dataclass(frozen=True)
class Schedule:
    """Learning rate over a run.

    Parameters
    ----------
    learning_rate : float
    kind : {"constant", "cosine"}
        ``"cosine"`` holds the rate for the first part of the run, then lets it fall along half a cosine to one hundredth.
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


class EagerStep:
    """One step of Adam on minus the bound, operation by operation.

    Parameters
    ----------
    model : nn.Module
    objective : function () -> Terms
        Draws its own batch and noise.
    learning_rate : float
    """

    def __init__(self, model: nn.Module, objective: Callable[[], Terms], learning_rate: float) -> None:
        self.objective = objective
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(self.parameters, lr=learning_rate, fused=True)

    def set_learning_rate(self, rate: float) -> None:
        """Use this rate from now on."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def __call__(self) -> Terms:
        """Step once; the terms before the step, detached.

        Raises
        ------
        NumericalError
            When the bound is not finite; the parameters are then untouched.
        """
        terms = self.objective()
        loss = -torch.stack(list(terms.values())).sum()
        if not loss.is_cuda and not bool(torch.isfinite(loss)):
            raise NumericalError("the bound is not finite.")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return {name: value.detach() for name, value in terms.items()}


class Snapshot:
    """Parameters and optimiser state at a moment known to be good."""

    def __init__(self, parameters: Sequence[nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        self.values = [p.detach().clone() for p in parameters]
        self.optimizer = {
            p: {k: v.clone() if isinstance(v, Tensor) else v for k, v in state.items()}
            for p, state in optimizer.state.items()
        }

    def restore(self, parameters: Sequence[nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        """Put everything back, in place."""
        with torch.no_grad():
            for p, value in zip(parameters, self.values, strict=True):
                p.copy_(value)
        for p, state in optimizer.state.items():
            good = self.optimizer.get(p)
            for key, value in state.items():
                if isinstance(value, Tensor):
                    value.copy_(good[key]) if good is not None else value.zero_()


def train(
    step: EagerStep,
    model: nn.Module,
    schedule: Schedule,
    *,
    callbacks: Sequence[Callback] = (),
    log_every: int = 50,
    max_rollbacks: int = 6,
) -> History:
    """Run the step `schedule.max_iter` times.

    At every logged iteration the parameters are checked and kept. When the bound or a parameter stops being finite, or a
    covariance cannot be factorised with the largest jitter, training goes back to the last kept parameters and halves the
    step for the rest of the run. Ctrl-C ends training with a usable model.

    Parameters
    ----------
    step : EagerStep
    model : nn.Module
    schedule : Schedule
    callbacks : sequence of functions of TrainingState
        Called at logged iterations; one that returns True ends training.
    log_every : int
    max_rollbacks : int
        After so many the error is raised, with the last good parameters in place.

    Raises
    ------
    NumericalError
        With layer, condition and what to try.
    """
    history, began = History(), time.perf_counter()
    good, good_iteration, shrink = Snapshot(step.parameters, step.optimizer), 0, 1.0
    iteration = 0
    try:
        while iteration < schedule.max_iter:
            iteration += 1
            rate = shrink * schedule.at(iteration)
            step.set_learning_rate(rate)
            try:
                terms = step()
                if iteration % log_every and iteration != schedule.max_iter and iteration != 1:
                    continue
                values = {name: float(value.mean()) for name, value in terms.items()}
                _check(values, step.parameters)
            except NumericalError as error:
                good.restore(step.parameters, step.optimizer)
                history.rollbacks += 1
                if history.rollbacks > max_rollbacks:
                    raise _give_up(error, history.rollbacks - 1, good_iteration)
                iteration, shrink = good_iteration, 0.5 * shrink
                continue
            good, good_iteration = Snapshot(step.parameters, step.optimizer), iteration
            state = TrainingState(
                iteration, schedule.max_iter, sum(values.values()), values, time.perf_counter() - began, rate, model
            )
            history.log(state)
            if any([callback(state) for callback in callbacks]):
                history.stopped = "callback"
                break
    except KeyboardInterrupt:
        history.stopped = "interrupted"
        warnings.warn(
            f"training was interrupted at iteration {iteration}; the model is usable as it is.",
            NumericalWarning,
            stacklevel=2,
        )
    return history


def _check(values: dict[str, Any], parameters: Sequence[nn.Parameter]) -> None:
    if not all(math.isfinite(value) for value in values.values()):
        raise NumericalError("the bound is not finite.")
    if not all(bool(torch.isfinite(p).all()) for p in parameters):
        raise NumericalError("a parameter is not finite.")


def _give_up(error: NumericalError, rollbacks: int, iteration: int) -> NumericalError:
    """The same error, with what was tried."""
    error.args = (
        f"{error.args[0]} Training went back {rollbacks} times and halved its step each time; the parameters of"
        f" iteration {iteration} are kept.",
        *error.args[1:],
    )
    return error
