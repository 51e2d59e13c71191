"""Options as results hold them: plain dictionaries with a flat name for each, whatever the estimator calls it.

Committed results hold options by these names. They are the benchmarks' own and stay as they are, so that results of any
age can be compared: `options_of` writes those of an estimator, `estimator_of` makes an estimator of some.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from sodgp.errors import ConfigurationError

if TYPE_CHECKING:
    from sodgp import DeepGPRegressor

# None of these changes the numbers of a result beyond rounding; the seed is written apart.
NOT_SETTINGS = (
    "callbacks",
    "checkpoint",
    "checkpoint_every",
    "compile",
    "device",
    "n_threads",
    "random_state",
    "verbose",
)
# Arguments that are objects, whose fields stand in results instead.
_OBJECTS = ("inference", "likelihood", "tuning")
# Objectives, and the weight of the predictive density that results hold in their place; None: the rows decide. Others
# stand in results by name.
_WEIGHTS = {None: None, "bound": 0.0, "predictive": 1.0}
# Names of likelihoods, and what results call them.
_NOISES = {"gaussian": "homoscedastic", "heteroscedastic": "heteroscedastic", "heavy_tailed": "heavy_tailed"}


def estimator_of(options: Mapping[str, Any]) -> DeepGPRegressor:
    """The estimator with these options; an option that is left out is at its default.

    Examples
    --------
    >>> estimator_of({"inference": "dsvi", "learn_inducing_inputs": False, "max_iter": 5}).inference
    DSVI(learn_inducing_inputs=False, objective='bound')
    """
    from sodgp import DeepGPRegressor, Tuning
    from sodgp.estimator.options.fields import LIKELIHOODS, METHODS

    rest = dict(options)

    def taken(cls: type) -> dict[str, Any]:
        return {field.name: rest.pop(field.name) for field in fields(cls) if field.name in rest}

    if "predictive_weight" in rest:
        rest["objective"] = _objective_of(rest.pop("predictive_weight"))
    names = {noise: name for name, noise in _NOISES.items()}
    method = METHODS[rest.pop("inference", "sod")]
    likelihood = LIKELIHOODS[names[rest.pop("noise", "homoscedastic")]]
    objects = {"inference": method(**taken(method)), "likelihood": likelihood(**taken(likelihood))}
    return DeepGPRegressor(**objects, tuning=Tuning(**taken(Tuning)), **rest)


def _objective_of(weight: float | str | None) -> str | None:
    if isinstance(weight, str):
        return weight
    for objective, known in _WEIGHTS.items():
        if known == weight:
            return objective
    raise ConfigurationError(
        f"predictive_weight={weight!r} is no longer trainable: use 0, the bound, or 1, the predictive density."
    )


def options_of(estimator: DeepGPRegressor) -> dict[str, Any]:
    """The options of an estimator that decide its numbers, as JSON can hold them.

    What depends on the effort, whose meaning may change, is written out; where the rows decide, as for tables of more
    than 2,000. Options of other methods are at their defaults.

    Examples
    --------
    >>> from sodgp import DeepGPRegressor
    >>> options = options_of(DeepGPRegressor(inference="dsvi"))
    >>> options["inference"], options["max_iter"], options["noise"], options["coupling"]
    ('dsvi', 1400, 'homoscedastic', 'ancestral')
    """
    from sodgp import DSVI, SGHMC, SoD, Tuning
    from sodgp.estimator.options.configuration import BATCH_SIZE, Configuration
    from sodgp.inference.sod import MANY_ROWS

    config = Configuration.from_estimator(estimator)
    method, likelihood = config.method, config.likelihood
    options = {**SGHMC().get_params(), **SoD().get_params(), **DSVI().get_params(), "separate_kernels": False}
    options |= {name: value for name, value in estimator.get_params(deep=False).items() if name not in _OBJECTS}
    options |= method.get_params() | likelihood.get_params() | (estimator.tuning or Tuning()).get_params()
    if options["target_transform"] == "none":
        del options["target_transform"]  # older results have none
    objective = options.pop("objective")
    options["predictive_weight"] = _WEIGHTS.get(objective, objective)
    if options["natural_gradients"] is None:
        # Results are of Gaussian noise, for which the question has no meaning.
        del options["natural_gradients"]
    options |= {"inference": method.name, "noise": _NOISES[likelihood.name], "max_iter": config.max_iter}
    usual = {"max_iter": config.effort.max_iter, "learning_rate": 0.03, "n_layers": 3}
    options |= {name: value for name, value in usual.items() if options[name] is None}
    options |= {"n_members": config.n_members, "member_spread": method.usual_spread(config.n_members)}
    # What None means whatever the rows of the data are.
    if isinstance(method, SoD) and options["separate_kernels"] is None:
        settled = method.settled(
            n_rows=MANY_ROWS, n_layers=config.n_layers, kernel=config.kernel, likelihood=likelihood
        )
        options["separate_kernels"] = None if settled.separate_kernels else False
    if options["batch_size"] is None and not method.uses_subset:
        options["batch_size"] = BATCH_SIZE
    if options["outlier_probability"] is None and options["predictive_weight"] == 0.0:
        options["outlier_probability"] = 0.0
    return {name: plain(value) for name, value in options.items() if name not in NOT_SETTINGS}


def plain(value: Any) -> Any:
    """An option's value as JSON can hold it."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if value is None or isinstance(value, str | int | float | list | tuple):
        return value
    return repr(value)
