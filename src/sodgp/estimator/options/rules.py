"""Which options of an estimator go together, and which a method uses; ConfigurationError for anything else."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from sodgp.errors import ConfigurationError
from sodgp.system.validation import check_flag
from sodgp.training.restart.warm import WARM_METHODS

# Rows of a step of methods other than SoD-VI where none are asked for, as in the paper.
BATCH_SIZE = 2000

# What goes together with noise that varies, and with a kernel for each output, which also needs several layers.
_WITH_NOISE_THAT_VARIES = {"tie_label_noise": True, "reselect_every": None, "warm_start": False}
_WITH_SEPARATE_KERNELS = {"parameterization": "whitened", "reselect_every": None}

_OF_SUBSETS = (
    "subset",
    "reselect_every",
    "parameterization",
    "coupling",
    "tie_label_noise",
    "noise",
    "separate_kernels",
)
_SAMPLING = ("n_posterior_samples", "thinning", "step_size", "n_chains")
# What methods do that have no such option, or its default in older files: nothing is left out where it is asked for.
_ANYWAY = {"predictive_weight": 0.0, "separate_kernels": False, "batch_size": BATCH_SIZE}
# Options that a method does not use, and that must therefore stay at their defaults.
UNUSED: dict[str, tuple[str, ...]] = {
    "sod": ("learn_inducing_inputs", *_SAMPLING),
    "dsvi": (*_OF_SUBSETS, *_SAMPLING),
    # Every chain takes one hidden sample in a transition.
    # It has no model to judge before its draws.
    "sghmc": (*_OF_SUBSETS, "predictive_weight", "n_samples", "compile", "validation_fraction"),
    # Its bound is closed over all rows: neither batches nor training samples.
    "mean_field": (
        *_OF_SUBSETS,
        "predictive_weight",
        "learn_inducing_inputs",
        "n_samples",
        "batch_size",
        *_SAMPLING,
    ),
}


def refuse_unused(estimator: Any) -> None:
    """Nothing is silently ignored: an option that the chosen method does not use must be left at its default."""
    parameters = inspect.signature(type(estimator).__init__).parameters
    for name in UNUSED[estimator.inference]:
        value, default = getattr(estimator, name), parameters[name].default
        if value is not default and value not in (default, _ANYWAY.get(name, default)):
            raise ConfigurationError(
                f"{name}={value!r} has no meaning for inference={estimator.inference!r}; leave it at {default!r}."
            )


def check_warm_start(estimator: Any) -> None:
    """Raise ConfigurationError where there is nothing to carry over."""
    if not check_flag("warm_start", estimator.warm_start):
        return
    if estimator.inference not in WARM_METHODS:
        raise ConfigurationError(
            f"warm_start=True has no meaning for inference={estimator.inference!r}, whose parameters belong to the rows"
            f" or chains of one fit; use one of {', '.join(map(repr, WARM_METHODS))}, or warm_start=False."
        )
    if estimator.noise != "homoscedastic":
        raise ConfigurationError("warm_start=True does not carry noise that varies: use noise='homoscedastic'.")


def check_noise_that_varies(estimator: Any) -> None:
    """Raise ConfigurationError unless the other options leave room for it."""
    if estimator.noise != "homoscedastic":
        _check_beside(estimator, "noise", _WITH_NOISE_THAT_VARIES)


def may_separate(options: Mapping[str, Any]) -> bool:
    """Whether a model with these options can have a kernel for each output of its first layer.

    Examples
    --------
    >>> may_separate({"inference": "sod", "n_layers": 1, "parameterization": "whitened", "reselect_every": None})
    False
    """
    allowed = all(options[name] == needed for name, needed in _WITH_SEPARATE_KERNELS.items())
    return allowed and options["inference"] == "sod" and options["n_layers"] > 1


def checked_separation(estimator: Any) -> bool | None:
    """Whether the first layer has a kernel for each output; None where that is left open."""
    if estimator.separate_kernels is None:
        return None
    if not check_flag("separate_kernels", estimator.separate_kernels):
        return False
    _check_beside(estimator, "separate_kernels", _WITH_SEPARATE_KERNELS)
    if estimator.n_layers == 1:
        raise ConfigurationError("separate_kernels=True is about hidden layers: use n_layers=2 or more.")
    return True


def _check_beside(estimator: Any, option: str, needed: Mapping[str, Any]) -> None:
    """Raise ConfigurationError unless the other options are what the present value of one of them needs."""
    for name, value in needed.items():
        found = getattr(estimator, name)
        if found != value:
            raise ConfigurationError(
                f"{option}={getattr(estimator, option)!r} and {name}={found!r} do not go together; leave {name} at"
                f" {value!r}."
            )
