"""Every rule about two or more arguments, in one table.

Rules about one argument are in `sodgp.estimator.options.fields`, those about the fields of one method or likelihood in
its class.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from sodgp.errors import ConfigurationError
from sodgp.inference.contract import Inference
from sodgp.likelihoods.known_noise import KnownNoise
from sodgp.system.jobs import job_count
from sodgp.system.progress import ProgressBar
from sodgp.training.callbacks import EarlyStopping

if TYPE_CHECKING:
    from sodgp.estimator.options.configuration import Configuration

__all__ = ["Combination", "Rule", "check_many_processes", "check_rules", "check_several_models", "rules"]


class Combination(NamedTuple):
    """The arguments of an estimator as given, what they stand for, and those of `fit`."""

    estimator: BaseEstimator
    config: Configuration
    knows_noise: bool = False
    from_source: bool = False
    resume: bool = False
    has_weights: bool = False

    @property
    def method(self) -> Inference:
        """The inference method."""
        return self.config.method


class Rule(NamedTuple):
    """One rule for a combination: its name, whether it is broken, and the message for the user."""

    name: str
    is_broken: bool
    message: str


def rules(c: Combination) -> Iterator[Rule]:
    """All rules, for a combination."""
    config, method = c.config, c.method.name
    is_plain, is_validated = config.likelihood.is_plain, config.validation_fraction is not None
    unused = _unused(c)
    yield Rule("an argument that the method does not use", unused is not None, unused or "")
    yield Rule(
        "compile with a sampler",
        config.compile and c.method.sampler is not None,
        f"compile=True has no meaning for inference={method!r}; leave it at False.",
    )
    yield Rule(
        "warm_start with a method that begins anew",
        config.warm_start and not c.method.can_warm_start,
        f"warm_start=True has no meaning for inference={method!r}, whose parameters belong to the rows or chains of one"
        " fit; use 'sod' or 'dsvi', or warm_start=False.",
    )
    yield Rule(
        "warm_start with noise that varies",
        config.warm_start and not is_plain and config.likelihood.is_conjugate,
        "warm_start=True does not carry noise that varies: use likelihood='gaussian'.",
    )
    yield Rule(
        "warm_start with n_restarts",
        config.warm_start and config.n_restarts > 1,
        f"warm_start=True continues one fit, and n_restarts={config.n_restarts} begins several anew; use one of"
        " the two.",
    )
    alone = {"n_restarts": 1, "warm_start": False, "validation_fraction": None}
    name = next((n for n, default in alone.items() if getattr(config, n) != default), "")
    yield Rule(
        "n_members with what is about one model",
        config.n_members > 1 and bool(name),
        f"n_members={config.n_members} and {name}={getattr(config, name, None)!r} do not go together; leave {name} at"
        f" {alone.get(name)!r}.",
    )
    yield Rule(
        "validation_fraction with n_restarts",
        is_validated and config.n_restarts > 1,
        "validation_fraction is for single fits, not for n_restarts, whose models train at once; leave it at None.",
    )
    yield Rule(
        "several models, a checkpoint and no seed",
        config.n_members * config.n_restarts > 1 and _lacks_seed(config),
        _SEEDS.format(config.random_state),
    )
    watching = [each for each in config.callbacks if not isinstance(each, EarlyStopping | ProgressBar)]
    yield Rule(
        "callbacks with models in other processes",
        bool(watching) and config.n_members * config.n_restarts > 1 and job_count(config.n_jobs) > 1,
        "callbacks are called in this process, and n_jobs trains members and restarts in others: use n_jobs=1, or no"
        " callback but EarlyStopping, of which each model then has a copy.",
    )
    widths, count = config.hidden_width, (config.n_layers or 1) - 1
    yield Rule(
        "one width for each hidden layer",
        isinstance(widths, list) and len(widths) != count,
        f"hidden_width={widths!r} has {len(widths) if isinstance(widths, list) else 1} entries, but"
        f" n_layers={count + 1} has {count} hidden layers.",
    )
    yield Rule(
        "noise_variance with a likelihood that learns the noise",
        c.knows_noise and not is_plain,
        f"noise_variance is known noise, and likelihood={config.likelihood.name!r} learns it: use one.",
    )
    yield Rule(
        "noise_variance with validation_fraction",
        c.knows_noise and is_validated,
        "validation_fraction and noise_variance do not go together; leave one out.",
    )
    refused = _transform_refused(c)
    yield Rule("target_transform with what needs y as it is", refused is not None, refused or "")
    yield Rule(
        "validation_fraction with transformed labels",
        is_validated and config.likelihood.targets == "classes" and config.likelihood.uses_subset,
        f"validation_fraction scores labels, and likelihood={config.likelihood.name!r} is trained on numbers made of"
        " them: leave one out.",
    )
    yield from _of_sources(c)
    yield Rule(
        "resume without a folder",
        c.resume and config.checkpoint is None,
        "resume=True needs a folder to resume from: set checkpoint='folder'.",
    )
    weightless = c.method.objection_to_weights() if c.has_weights else None
    yield Rule("sample_weight with a method that counts every row once", weightless is not None, weightless or "")
    objection = _objection(c)
    yield Rule("what the method objects to", objection is not None, objection or "")


def _of_sources(c: Combination) -> Iterator[Rule]:
    """Rules for rows that are read from a source: what needs all of them in memory is refused."""
    config, method = c.config, c.method
    yield Rule(
        "a source with a method whose steps need all rows",
        c.from_source and "batch_size" in method.unused_options,
        f"inference={method.name!r} needs all rows in every step, and a source has too many: use 'sod', 'dsvi' or"
        " 'sghmc', or fit(X, y) with fewer rows.",
    )
    yield Rule(
        "a source with an objective that keeps all rows",
        c.from_source and method.rows_given(1, 2) > 1,
        f"objective={method.objective!r} keeps all rows in the model, and those of a source do not fit: use"
        " 'predictive' or 'bound', or leave it at None.",
    )
    yield Rule(
        "a source with transformed labels",
        c.from_source and config.likelihood.targets == "classes" and config.likelihood.uses_subset,
        f"likelihood={config.likelihood.name!r} has known noise for every row, which is not read from a source: use"
        " 'bernoulli' or 'softmax'.",
    )
    yield Rule(
        "a source with noise_variance",
        c.from_source and c.knows_noise,
        "noise_variance is given for rows in memory, and these come from a source: leave it out.",
    )
    yield Rule(
        "a source with sample_weight",
        c.from_source and c.has_weights,
        "sample_weight is given for rows in memory, and these come from a source: leave it out, or repeat rows there.",
    )


def check_rules(combination: Combination) -> None:
    """Raise ConfigurationError for the first rule that a combination breaks."""
    for rule in rules(combination):
        if rule.is_broken:
            raise ConfigurationError(rule.message)


def check_several_models(config: Configuration) -> None:
    """ConfigurationError for many models with a checkpoint whose seeds a resumed fit could not draw again."""
    if _lacks_seed(config):
        raise ConfigurationError(_SEEDS.format(config.random_state))


def check_many_processes(config: Configuration, n_estimators: int = 1) -> None:
    """ConfigurationError for what many processes do not train; what the method says of it is asked later."""
    for name in ("n_members", "n_restarts"):
        if getattr(config, name) > 1:
            raise ConfigurationError(
                f"{name}={getattr(config, name)}: many processes train one model at a time. Use {name}=1, or one"
                " process with n_jobs."
            )
    if n_estimators > 1:
        raise ConfigurationError("many processes train one model at a time: fit the estimators one by one.")
    if config.compile:
        raise ConfigurationError("compile=True is for one process; leave it out where many train one model.")


_SEEDS = (
    "several models (n_members or n_restarts above 1) with a checkpoint need an integer random_state, not {0!r}: a"
    " resumed fit has to draw the same seeds again."
)


def _lacks_seed(config: Configuration) -> bool:
    return config.checkpoint is not None and not isinstance(config.random_state, int | np.integer)


def _unused(c: Combination) -> str | None:
    """About an argument that means nothing for the method, and is not at its default."""
    parameters = inspect.signature(type(c.estimator).__init__).parameters
    for name in c.method.unused_options:
        value, default = getattr(c.estimator, name), parameters[name].default
        if value is not default and value != default:
            return f"{name}={value!r} has no meaning for inference={c.method.name!r}; leave it at {default!r}."
    return None


def _transform_refused(c: Combination) -> str | None:
    """About an argument that does not go with a transform of y."""
    likelihood = c.config.likelihood
    said = f"target_transform={c.config.target_transform!r}"
    if c.config.target_transform == "none":
        return None
    if likelihood.targets != "numbers":
        return f"{said} is for numbers, and likelihood={likelihood.name!r} is of {likelihood.targets}: leave it 'none'."
    if not likelihood.is_conjugate:
        return (
            f"{said} does not go with likelihood={likelihood.name!r}: mapped back, its tails give y no mean. Use"
            " 'gaussian', 'heteroscedastic' or 'heavy_tailed'."
        )
    if c.knows_noise:
        return f"noise_variance is noise of y, and with {said} noise is that of the transformed y: use one of the two."
    if likelihood.get_params().get("outlier_probability"):
        return (
            f"outlier_probability does not go with {said}: an outlier with ten times the standard deviation of the"
            " transformed y has a mean of y far from all others. Leave it at None."
        )
    return None


def _objection(c: Combination) -> str | None:
    """What the method itself says against the other arguments."""
    likelihood = KnownNoise() if c.knows_noise else c.config.likelihood
    try:
        c.method.settled(n_rows=1, n_layers=c.config.n_layers, kernel=c.config.kernel, likelihood=likelihood)
    except ConfigurationError as error:
        return f"noise_variance is known noise for every row: {error}" if c.knows_noise else str(error)
    return None
