"""Every rule about two or more arguments, in one table.

Rules about one argument are in `sodgp.estimator.options.fields`, those about the fields of one method or likelihood in
its class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from sodgp.errors import ConfigurationError
from sodgp.inference.contract import Inference
from sodgp.likelihoods.known_noise import KnownNoise

if TYPE_CHECKING:
    from sodgp.estimator.options.configuration import Configuration
    from sodgp.estimator.options.fields import Checkpoint

__all__ = ["RULES", "Combination", "Rule", "check_rules", "check_several_models"]


class Combination(NamedTuple):
    """The arguments of an estimator as given, what they stand for, and those of `fit`."""

    estimator: BaseEstimator
    config: Configuration
    knows_noise: bool = False
    resume: bool = False

    @property
    def method(self) -> Inference:
        """The inference method."""
        return self.config.method


class Rule(NamedTuple):
    """One rule: its name, whether a combination breaks it, and the message for the user."""

    name: str
    is_broken: Callable[[Combination], bool]
    message: Callable[[Combination], str]


def check_rules(combination: Combination) -> None:
    """Raise ConfigurationError for the first rule that a combination breaks."""
    for rule in RULES:
        if rule.is_broken(combination):
            raise ConfigurationError(rule.message(combination))


def check_several_models(checkpoint: Checkpoint | None, random_state: int | np.random.RandomState | None) -> None:
    """ConfigurationError for many models with a checkpoint whose seeds a resumed fit could not draw again."""
    if checkpoint is not None and not isinstance(random_state, int | np.integer):
        raise ConfigurationError(_SEEDS.format(random_state))


_SEEDS = (
    "several models (n_members or n_restarts above 1) with a checkpoint need an integer random_state, not {0!r}: a"
    " resumed fit has to draw the same seeds again."
)


def _unused(c: Combination) -> tuple[str, object, object] | None:
    """Name, value and default of an argument that means nothing for the method, and is not at its default."""
    parameters = inspect.signature(type(c.estimator).__init__).parameters
    for name in c.method.unused_options:
        value, default = getattr(c.estimator, name), parameters[name].default
        if value is not default and value != default:
            return name, value, default
    return None


def _unused_message(c: Combination) -> str:
    name, value, default = _unused(c) or ("", None, None)
    return f"{name}={value!r} has no meaning for inference={c.method.name!r}; leave it at {default!r}."


def _objection(c: Combination) -> str | None:
    """What the method itself says against the other arguments."""
    likelihood = KnownNoise() if c.knows_noise else c.config.likelihood
    try:
        c.method.settled(n_rows=1, n_layers=c.config.n_layers, kernel=c.config.kernel, likelihood=likelihood)
    except ConfigurationError as error:
        return f"noise_variance is known noise for every row: {error}" if c.knows_noise else str(error)
    return None


def _more_than_one_fit(c: Combination) -> tuple[str, object, object] | None:
    """Name, value and default of an argument that is about one model only, and is not at its default."""
    alone = {"n_restarts": 1, "warm_start": False, "validation_fraction": None}
    return next(((n, getattr(c.config, n), d) for n, d in alone.items() if getattr(c.config, n) != d), None)


def _members_message(c: Combination) -> str:
    name, value, default = _more_than_one_fit(c) or ("", None, None)
    return f"n_members={c.config.n_members} and {name}={value!r} do not go together; leave {name} at {default!r}."


def _entries(c: Combination) -> int:
    """Widths in a list of them."""
    return len(c.config.hidden_width) if isinstance(c.config.hidden_width, list) else 0


RULES: Final = (
    Rule("an argument that the method does not use", lambda c: _unused(c) is not None, _unused_message),
    Rule(
        "compile with a sampler",
        lambda c: c.config.compile and c.method.sampler is not None,
        lambda c: f"compile=True has no meaning for inference={c.method.name!r}; leave it at False.",
    ),
    Rule(
        "warm_start with a method that begins anew",
        lambda c: c.config.warm_start and not c.method.can_warm_start,
        lambda c: (
            f"warm_start=True has no meaning for inference={c.method.name!r}, whose parameters belong to the rows or"
            " chains of one fit; use 'sod' or 'dsvi', or warm_start=False."
        ),
    ),
    Rule(
        "warm_start with noise that varies",
        lambda c: c.config.warm_start and not c.config.likelihood.is_plain,
        lambda c: "warm_start=True does not carry noise that varies: use likelihood='gaussian'.",
    ),
    Rule(
        "warm_start with n_restarts",
        lambda c: c.config.warm_start and c.config.n_restarts > 1,
        lambda c: (
            f"warm_start=True continues one fit, and n_restarts={c.config.n_restarts} begins several anew; use one"
            " of the two."
        ),
    ),
    Rule(
        "n_members with what is about one model",
        lambda c: c.config.n_members > 1 and _more_than_one_fit(c) is not None,
        _members_message,
    ),
    Rule(
        "validation_fraction with n_restarts",
        lambda c: c.config.validation_fraction is not None and c.config.n_restarts > 1,
        lambda c: (
            "validation_fraction is for single fits, not for n_restarts, whose models train in one program; leave it at"
            " None."
        ),
    ),
    Rule(
        "several models, a checkpoint and no seed",
        lambda c: (
            c.config.n_members * c.config.n_restarts > 1
            and c.config.checkpoint is not None
            and not isinstance(c.config.random_state, int | np.integer)
        ),
        lambda c: _SEEDS.format(c.config.random_state),
    ),
    Rule(
        "one width for each hidden layer",
        lambda c: isinstance(c.config.hidden_width, list) and _entries(c) != c.config.n_layers - 1,
        lambda c: (
            f"hidden_width={c.config.hidden_width!r} has {_entries(c)} entries, but n_layers="
            f"{c.config.n_layers} has {c.config.n_layers - 1} hidden layers."
        ),
    ),
    Rule(
        "noise_variance with a likelihood that learns the noise",
        lambda c: c.knows_noise and not c.config.likelihood.is_plain,
        lambda c: f"noise_variance is known noise, and likelihood={c.config.likelihood.name!r} learns it: use one.",
    ),
    Rule(
        "noise_variance with validation_fraction",
        lambda c: c.knows_noise and c.config.validation_fraction is not None,
        lambda c: "validation_fraction and noise_variance do not go together; leave one out.",
    ),
    Rule(
        "resume without a folder",
        lambda c: c.resume and c.config.checkpoint is None,
        lambda c: "resume=True needs a folder to resume from: set checkpoint='folder'.",
    ),
    Rule("what the method objects to", lambda c: _objection(c) is not None, lambda c: _objection(c) or ""),
)
