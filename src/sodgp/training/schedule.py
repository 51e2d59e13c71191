"""The learning rate over a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sodgp.errors import ConfigurationError

__all__ = ["Schedule"]

SCHEDULES = ("constant", "cosine")
# Far below what moves a parameter, and far above where single precision ends: the rate may fall and be halved.
_SMALLEST_RATE = 1e-30


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

    Examples
    --------
    >>> schedule = Schedule(0.03, "cosine", max_iter=1000)
    >>> schedule.at(500), round(schedule.at(1000), 6)
    (0.03, 0.0003)
    """

    learning_rate: float
    kind: str
    max_iter: int
    hold: float = 0.5

    def __post_init__(self) -> None:
        if self.learning_rate < _SMALLEST_RATE:
            raise ConfigurationError(
                f"learning_rate={self.learning_rate!r} is below {_SMALLEST_RATE:g}: steps keep it in single precision."
            )
        if self.kind not in SCHEDULES:
            raise ConfigurationError(f"schedule={self.kind!r} is unknown; choose one of {', '.join(SCHEDULES)}.")

    def at(self, iteration: int) -> float:
        """The rate at an iteration, from 1."""
        progress = iteration / max(self.max_iter, 1)
        if self.kind == "constant" or progress <= self.hold:
            return self.learning_rate
        fall = (progress - self.hold) / (1.0 - self.hold)
        return self.learning_rate * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * fall)))
