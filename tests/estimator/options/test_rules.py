"""What goes with what: every rule of the table, broken once, and nothing broken by what is usual."""

import numpy as np
import pytest

from sodgp import DSVI, DeepGPClassifier, DeepGPRegressor, SoD
from sodgp.errors import ConfigurationError
from sodgp.estimator.options.configuration import Configuration
from sodgp.estimator.options.fields import METHODS
from sodgp.estimator.options.rules import Combination, rules

FIT = ("knows_noise", "has_weights", "from_source", "resume")
# Rule -> arguments that break it, and part of the message.
BROKEN = {
    "an argument that the method does not use": (
        {"inference": "dsvi", "subset": "random"},
        "subset='random' has no meaning for inference='dsvi'; leave it at 'kmeans'",
    ),
    "compile with a sampler": ({"inference": "sghmc", "tuning__compile": True}, "compile=True has no meaning"),
    "warm_start with a method that begins anew": (
        {"inference": "mean_field", "warm_start": True},
        "warm_start=True has no meaning for inference='mean_field'",
    ),
    "warm_start with noise that varies": (
        {"warm_start": True, "likelihood": "heavy_tailed"},
        "use likelihood='gaussian'",
    ),
    "warm_start with n_restarts": ({"warm_start": True, "n_restarts": 2}, "n_restarts=2 begins several anew"),
    "n_members with what is about one model": (
        {"n_members": 2, "n_restarts": 3},
        "n_members=2 and n_restarts=3 do not go together",
    ),
    "validation_fraction with n_restarts": (
        {"validation_fraction": 0.1, "n_restarts": 2},
        "validation_fraction is for single fits",
    ),
    "several models, a checkpoint and no seed": (
        {"n_members": 2, "checkpoint": "folder"},
        "need an integer random_state",
    ),
    "callbacks with models in other processes": (
        {"callbacks": [print], "n_members": 2, "n_jobs": 2},
        "use n_jobs=1, or no callback but EarlyStopping",
    ),
    "one width for each hidden layer": (
        {"hidden_width": [2], "n_layers": 3},
        "has 1 entries, but n_layers=3 has 2 hidden layers",
    ),
    "noise_variance with a likelihood that learns the noise": (
        {"knows_noise": True, "likelihood": "heteroscedastic"},
        "likelihood='heteroscedastic' learns it",
    ),
    "noise_variance with validation_fraction": (
        {"knows_noise": True, "validation_fraction": 0.1},
        "validation_fraction and noise_variance",
    ),
    "target_transform with what needs y as it is": (
        {"target_transform": "log", "likelihood": "poisson"},
        "target_transform='log'",
    ),
    "validation_fraction with transformed labels": (
        {"likelihood": "dirichlet", "validation_fraction": 0.1},
        "likelihood='dirichlet' is trained on numbers made of them",
    ),
    "a source with a method whose steps need all rows": (
        {"inference": "mean_field", "from_source": True},
        "inference='mean_field' needs all rows in every step",
    ),
    "a source with an objective that keeps all rows": (
        {"inference": SoD(objective="collapsed"), "from_source": True},
        "objective='collapsed' keeps all rows",
    ),
    "a source with transformed labels": (
        {"likelihood": "dirichlet", "from_source": True},
        "likelihood='dirichlet' has known noise for every row",
    ),
    "a source with noise_variance": (
        {"knows_noise": True, "from_source": True},
        "noise_variance is given for rows in memory",
    ),
    "a source with sample_weight": (
        {"has_weights": True, "from_source": True},
        "sample_weight is given for rows in memory",
    ),
    "resume without a folder": ({"resume": True}, "resume=True needs a folder"),
    "sample_weight with a method that counts every row once": (
        {"inference": "mean_field", "has_weights": True},
        "mean_field",
    ),
    "what the method objects to": (
        {"likelihood": "heavy_tailed", "inference__tie_label_noise": False},
        "likelihood='heavy_tailed' cannot be combined with tie_label_noise=False",
    ),
}


def configured(**arguments):
    fit = {name: arguments.pop(name) for name in FIT if name in arguments}
    estimator = DeepGPClassifier() if arguments.get("likelihood") == "dirichlet" else DeepGPRegressor()
    return Configuration.from_estimator(estimator.set_params(**arguments), **fit)


def test_every_rule_is_here():
    combination = Combination(DeepGPRegressor(), configured())
    assert [rule.name for rule in rules(combination)] == list(BROKEN)


@pytest.mark.parametrize("name", BROKEN)
def test_a_combination_that_breaks_a_rule_is_refused_and_each_part_alone_is_not(name):
    arguments, words = BROKEN[name]
    with pytest.raises(ConfigurationError) as caught:
        configured(**arguments)
    assert words in str(caught.value)
    for left_out in arguments if len(arguments) > 1 else ():
        configured(**{key: value for key, value in arguments.items() if key != left_out and key != "hidden_width"})


@pytest.mark.parametrize(
    "arguments",
    [
        {"inference": "dsvi", "n_members": 2},
        {"inference": "dsvi", "warm_start": True},
        {"warm_start": True, "validation_fraction": 0.1},
        {"n_members": 2, "checkpoint": "folder", "random_state": np.int64(3)},
        {"checkpoint": "folder", "resume": True},
        {"n_layers": 1, "hidden_width": 5},
        {"knows_noise": True, "inference__objective": "predictive"},
        {"likelihood": "heavy_tailed", "inference__separate_kernels": True},
        *({"inference": name} for name in METHODS),
    ],
    ids=str,
)
def test_what_is_allowed(arguments):
    configured(**arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"inference": DSVI(), "likelihood": "heteroscedastic"}, "use inference='sod'"),
        ({"inference": DSVI(), "knows_noise": True}, "noise_variance is known noise"),
        ({"inference": SoD(tie_label_noise=False), "knows_noise": True}, "tie_label_noise"),
        ({"inference": SoD(separate_kernels=True), "n_layers": 1}, "n_layers=2 or more"),
        ({"inference": "mean_field", "batch_size": 100}, "batch_size=100 has no meaning"),
        ({"inference": "mean_field", "n_samples": 5}, "n_samples=5 has no meaning"),
        ({"inference": "sghmc", "n_samples": 5}, "n_samples=5 has no meaning"),
        ({"inference": "sghmc", "validation_fraction": 0.5}, "validation_fraction=0.5 has no meaning"),
        ({"n_members": 2, "warm_start": True}, "warm_start=True do not go together"),
        ({"n_members": 2, "validation_fraction": 0.1}, "validation_fraction=0.1 do not go together"),
    ],
    ids=str,
)
def test_what_is_refused(arguments, words):
    with pytest.raises(ConfigurationError, match=words):
        configured(**arguments)
