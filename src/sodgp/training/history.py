"""What a fit leaves behind and what a callback sees of it on the way."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import nn

__all__ = ["History", "TrainingState"]


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
        Since training began; a resumed run counts on.
    learning_rate : float
    model : DeepGP
        Live: look, do not touch. Several models that train in one program have a leading axis in every tensor.
    validation : float or None
        With `validation_fraction`: mean log predictive density of a held-out row, all its targets together, in
        original units of y.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> seen = []
    >>> model = DeepGPRegressor(n_layers=1, max_iter=100, callbacks=[lambda state: seen.append(state.iteration)])
    >>> _ = model.fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> seen
    [1, 50, 100]
    """

    iteration: int
    max_iter: int
    bound: float
    terms: dict[str, float]
    seconds: float
    learning_rate: float
    model: nn.Module
    validation: float | None = None


# A callback is called at every logged iteration and ends training by returning True. Where it has methods `open` and
# `close`, these are called when training begins and when it is over, however it ended; with `state` and `restore` it
# is carried through checkpoints: `state()` gives what JSON can hold, and `restore` takes it back after `open`.
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
        How often training (or a sampler, also after its burn-in) went back to the last good parameters and halved the
        step.
    stopped : str
        Why training ended: ``"max_iter"``, ``"max_minutes"``, ``"callback"``, ``"interrupted"`` or ``"failed"``.
    jitter_climbs : int
        Covariance matrices that could be factorised with more jitter only.
    bad_gradients : int
        Gradients that were not finite, and that Adam therefore never saw; each also rolled training back.
    validation : list of float
        With `validation_fraction`: mean log predictive density of a held-out row, all its targets together; else
        empty.

    Examples
    --------
    >>> history = History()
    >>> history.log(1, {"rest": -30.0, "kl_last": -2.0}, seconds=0.1)
    >>> history.bound, history.terms
    ([-32.0], {'rest': [-30.0], 'kl_last': [-2.0]})
    """

    iteration: list[int] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    terms: dict[str, list[float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    rollbacks: int = 0
    stopped: str = "max_iter"
    jitter_climbs: int = 0
    bad_gradients: int = 0
    validation: list[float] = field(default_factory=list)

    def log(self, iteration: int, terms: dict[str, float], seconds: float, validation: float | None = None) -> None:
        """Append one entry; an iteration that is run again after a roll-back replaces its own."""
        if self.iteration and self.iteration[-1] == iteration:
            self.iteration.pop()
            for column in (
                self.bound,
                self.seconds,
                *self.terms.values(),
                *([self.validation] * bool(self.validation)),
            ):
                column.pop()
        if validation is not None:
            self.validation.append(validation)
        self.iteration.append(iteration)
        self.bound.append(math.fsum(terms.values()))
        self.seconds.append(seconds)
        for name, value in terms.items():
            self.terms.setdefault(name, []).append(value)

    def safeguards(self) -> str:
        """One line: which numerical safeguards had to act, and how often."""
        counts = {
            "roll-backs, each with half the step": self.rollbacks,
            "matrices with more jitter": self.jitter_climbs,
            "gradients that were not finite": self.bad_gradients,
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "none needed"
