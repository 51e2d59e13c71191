"""The history of a fit, and the state of training that a callback sees."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import nn

__all__ = ["History", "TrainingState"]


@dataclass(frozen=True, repr=False)
class TrainingState:
    """The state of training at a logged iteration, as a callback sees it.

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
        The live model: do not change it. Models that train in one program have a leading axis in every tensor.
    validation : float or None
        With `validation_fraction`: mean log predictive density of a held-out row, jointly over its targets, in
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

    def __repr__(self) -> str:
        share = "" if self.validation is None else f", validation {self.validation:.4g}"
        return f"step {self.iteration} of {self.max_iter}: bound {self.bound:.6g}{share}, {self.seconds:.1f} s"


# `sodgp.training.callbacks` says what a callback may have beyond being called.
Callback = Callable[[TrainingState], bool | None]


@dataclass(repr=False)
class History:
    """The course of a fit, one entry for each logged iteration.

    Attributes
    ----------
    iteration : list of int
    bound : list of float
    terms : dict of str to list of float
    seconds : list of float
    rollbacks : int
        How often training (or a sampler, also after its burn-in) restored the last good parameters and halved the step.
    stopped : str
        Why training ended: ``"max_iter"``, ``"max_minutes"``, ``"callback"``, ``"interrupted"`` or ``"failed"``.
    jitter_climbs : int
        Covariance matrices that could be factorised only with more jitter.
    bad_gradients : int
        Gradients that were not finite, which Adam therefore skipped; each also rolled training back.
    validation : list of float
        With `validation_fraction`: mean log predictive density of a held-out row, jointly over its targets; else empty.

    Examples
    --------
    >>> history = History()
    >>> history.log(1, {"rest": -30.0, "kl_last": -2.0}, seconds=0.1)
    >>> history.bound, history.terms
    ([-32.0], {'rest': [-30.0], 'kl_last': [-2.0]})
    >>> history
    History(1 entries up to step 1, 0.1 s, stopped: max_iter, safeguards: none needed)
      sum of terms -32 -> -32, last: rest -30, kl_last -2
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

    def __repr__(self) -> str:
        if not self.iteration:
            return "History(nothing was logged)"
        terms = ", ".join(f"{name} {values[-1]:.4g}" for name, values in self.terms.items())
        lines = [
            f"History({len(self.iteration)} entries up to step {self.iteration[-1]}, {self.seconds[-1]:.1f} s,"
            f" stopped: {self.stopped}, safeguards: {self.safeguards()})",
            f"  sum of terms {self.bound[0]:.6g} -> {self.bound[-1]:.6g}, last: {terms}",
        ]
        lines += [f"  validation {self.validation[0]:.4g} -> {self.validation[-1]:.4g}"] if self.validation else []
        return "\n".join(lines)

    def log(self, iteration: int, terms: dict[str, float], seconds: float, validation: float | None = None) -> None:
        """Append one entry; it replaces that of the same iteration, which is run again after a roll-back."""
        if self.iteration[-1:] == [iteration]:
            del self.iteration[-1:]
            for column in (self.bound, self.seconds, self.validation, *self.terms.values()):
                del column[-1:]
        if validation is not None:
            self.validation.append(validation)
        self.iteration.append(iteration)
        self.bound.append(math.fsum(terms.values()))
        self.seconds.append(seconds)
        for name, value in terms.items():
            self.terms.setdefault(name, []).append(value)

    def safeguards(self) -> str:
        """One line that says which numerical safeguards acted, and how often."""
        counts = {
            "roll-backs, each with half the step": self.rollbacks,
            "matrices with more jitter": self.jitter_climbs,
            "gradients that were not finite": self.bad_gradients,
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "none needed"
