"""The names that stand for objects: inference methods, likelihoods, and None or a path for the other two.

This table is the only place that knows which methods and likelihoods there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sodgp.errors import ConfigurationError
from sodgp.estimator.options.tuning import Checkpoint, Tuning
from sodgp.inference.contract import Inference
from sodgp.inference.dsvi import DSVI
from sodgp.inference.mean_field import MeanField
from sodgp.inference.sghmc import SGHMC
from sodgp.inference.sod import SoD
from sodgp.likelihoods import Gaussian, HeavyTailed, Heteroscedastic
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.likelihoods.known_noise import KnownNoise
from sodgp.system.parameters import Parameters
from sodgp.system.validation import check_choice

__all__ = [
    "LIKELIHOODS",
    "METHODS",
    "OBJECTS",
    "OF_PREDICTION_ONLY",
    "checkpoint_of",
    "known_noise",
    "likelihood_of",
    "method_of",
    "tuning_of",
]

METHODS: Final[dict[str, type[SoD | DSVI | SGHMC | MeanField]]] = {
    method.name: method for method in (SoD, DSVI, SGHMC, MeanField)
}
LIKELIHOODS: Final[dict[str, type[Gaussian | Heteroscedastic | HeavyTailed]]] = {
    likelihood.name: likelihood for likelihood in (Gaussian, Heteroscedastic, HeavyTailed)
}


def method_of(inference: Any) -> Inference:
    """The method that a name stands for, with its defaults; or the object itself.

    Examples
    --------
    >>> method_of("dsvi")
    DSVI(learn_inducing_inputs=True, predictive_weight=0.0)
    """
    if not isinstance(inference, str | type) and isinstance(inference, Inference):
        return inference
    return METHODS[_checked_name("inference", inference, METHODS)]()


def likelihood_of(likelihood: Any) -> LikelihoodOptions:
    """The likelihood that a name stands for, with its defaults; or the object itself."""
    if not isinstance(likelihood, str | type) and isinstance(likelihood, LikelihoodOptions):
        return likelihood
    return LIKELIHOODS[_checked_name("likelihood", likelihood, LIKELIHOODS)]()


def known_noise(likelihood: LikelihoodOptions) -> KnownNoise:
    """The likelihood of noise variances that are known, with the present options of the plain one."""
    return KnownNoise(**likelihood.get_params())


def tuning_of(tuning: Any) -> Tuning:
    """The tuning itself; None stands for the defaults."""
    if tuning is not None and not isinstance(tuning, Tuning):
        raise ConfigurationError(f"tuning must be a Tuning or None, not {tuning!r:.100}.")
    return Tuning() if tuning is None else tuning


def checkpoint_of(checkpoint: Any) -> Checkpoint | None:
    """Where and how often to write: the object itself, or that of a path."""
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return checkpoint
    return Checkpoint(checkpoint)


def _checked_name(argument: str, value: Any, known: Mapping[str, type[Parameters]]) -> str:
    if isinstance(value, str):
        check_choice(argument, value, tuple(known))
        return value
    classes = ", ".join(each.__name__ for each in known.values())
    raise ConfigurationError(
        f"{argument}={value!r:.100} is unknown; give one of {', '.join(map(repr, known))}, or an object: {classes}."
    )


# Fields of methods and likelihoods that training does not use: they may be changed without a new fit.
OF_PREDICTION_ONLY: Final = frozenset({"member_spread", "outlier_probability"})
# Arguments of the estimator that are objects, or stand for one.
OBJECTS: Final[dict[str, Callable[[Any], Any]]] = {
    "inference": method_of,
    "likelihood": likelihood_of,
    "tuning": tuning_of,
    "checkpoint": checkpoint_of,
}
