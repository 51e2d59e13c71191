"""Every public entry of a predictive distribution computes with its own number of threads, as PyTorch says inside."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

import sodgp.predictive
from sodgp import DeepGPClassifier, DeepGPRegressor
from sodgp.errors import ConfigurationError
from sodgp.predictive.classes import ClassDistribution
from sodgp.predictive.contract import Units
from sodgp.predictive.counts import CountMixture
from sodgp.predictive.mixture import GaussianMixture
from sodgp.predictive.student import StudentMixture
from sodgp.system import running

OUTSIDE, INSIDE = 2, 1
Y = np.zeros(5)
# How every public entry of a mixture is called.
ENTRIES = {
    "mean": None,
    "variance": None,
    "std": None,
    "outlier_probability": None,
    "n_components": None,
    "n_outputs": None,
    "log_prob": (Y,),
    "cdf": (Y,),
    "sf": (Y,),
    "shape": None,
    "crps": (Y,),
    "quantile": ([0.1, 0.9],),
    "quantile_at": (np.full((2, 5), 0.3),),
    "interval": (0.9,),
    "sample": (3, 0),
    "affine": (2.0, 1.0),
    "around_mean": (0.9,),
    "align": (Y,),
    "__getitem__": (slice(2),),
}


class Asking(TorchFunctionMode):
    """Asks at every operation how many threads it has."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.add(torch.get_num_threads())
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def threads_outside():
    before = torch.get_num_threads()
    torch.set_num_threads(OUTSIDE)
    yield
    assert torch.get_num_threads() == OUTSIDE
    torch.set_num_threads(before)


MOMENTS = np.zeros((4, 5)), np.ones((4, 5))


def mixture(n_threads=INSIDE):
    return GaussianMixture(*MOMENTS, outlier_probability=0.1, n_threads=n_threads)


def threads_of(work):
    with Asking() as asking:
        result = work()
    return asking.seen, result


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_has_the_threads_of_the_distribution(name):
    dist, arguments = mixture(), ENTRIES[name]
    seen, result = threads_of(lambda: getattr(dist, name) if arguments is None else getattr(dist, name)(*arguments))
    assert seen <= {INSIDE}
    assert seen or name in ("n_components", "n_outputs", "shape", "align")
    if isinstance(result, GaussianMixture):
        assert result.n_threads == INSIDE


def test_making_and_joining_too():
    assert threads_of(mixture)[0] == {INSIDE}
    parts = [mixture(), mixture()]
    for join in (GaussianMixture.concatenate, GaussianMixture.pool):
        seen, joined = threads_of(lambda join=join: join(parts))
        assert seen == {INSIDE}
        assert joined.n_threads == INSIDE


def test_no_entry_is_left_out():
    public = {
        name
        for name, entry in vars(GaussianMixture).items()
        if not name.startswith("_") and not isinstance(entry, classmethod)
    }
    assert public == ENTRIES.keys() - {"__getitem__"}


def test_none_leaves_pytorchs_number():
    seen, _ = threads_of(lambda: mixture(None).crps(Y))
    assert seen == {OUTSIDE}


@pytest.mark.parametrize("n_threads", [0, -1, "all", True])
def test_bad_numbers_of_threads_are_typed_errors(models, n_threads):
    with pytest.raises(ConfigurationError, match="n_threads"):
        mixture(n_threads)
    X, (model, _) = models
    with pytest.raises(ConfigurationError, match="n_threads"):
        model.set_params(n_threads=n_threads).predict(X)


def test_every_distribution_is_guarded():
    """Every class of the room that knows how many threads it may use runs its public entries through the one guard."""
    guard = running._limited(len).__code__
    found = []
    for module in pkgutil.iter_modules(sodgp.predictive.__path__):
        for cls in vars(importlib.import_module(f"sodgp.predictive.{module.name}")).values():
            is_ours = inspect.isclass(cls) and cls.__module__.startswith("sodgp.predictive")
            if is_ours and "n_threads" in inspect.signature(cls).parameters:
                found.append(cls)
                assert cls.log_prob.__code__ is guard, f"decorate {cls.__name__} with running.in_own_threads"
    assert GaussianMixture in found


OTHERS = {
    "counts": CountMixture([0.0], np.full((1, 5, 1), 2.0)).in_units(Units(np.ones(1), np.zeros(1), is_vector=True)),
    "students": StudentMixture([0.0], np.zeros((1, 5, 1)), 1.0, 4.0).in_units(
        Units(np.ones(1), np.zeros(1), is_vector=True)
    ),
    "classes": ClassDistribution(np.full((5, 2), 0.5), np.full((3, 5, 2), 0.5)),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", ENTRIES)
def test_the_other_distributions_ask_nothing_of_pytorch(kind, name):
    dist, arguments = OTHERS[kind], {**ENTRIES, "around_mean": (1.0,)}[name]
    if hasattr(dist, name) and not (kind == "classes" and name == "log_prob"):
        seen, _ = threads_of(lambda: getattr(dist, name) if arguments is None else getattr(dist, name)(*arguments))
        assert not seen


PREDICTIONS = {
    "predict": lambda m, X: m.predict(X),
    "std": lambda m, X: m.predict(X, return_std=True),
    "cov": lambda m, X: m.predict(X, return_cov=True),
    "distribution": lambda m, X: m.predict_distribution(X),
    "sample_y": lambda m, X: m.sample_y(X, 2),
}


@pytest.fixture(scope="module")
def models():
    X = np.linspace(-1, 1, 12)[:, None]
    small = {"n_layers": 2, "subset_size": 5, "max_iter": 2, "n_predict_samples": 3, "random_state": 0}
    return X, [DeepGPRegressor(**small, n_members=members).fit(X, np.sin(X[:, 0])) for members in (1, 2)]


@pytest.mark.parametrize("name", PREDICTIONS)
@pytest.mark.parametrize("members", [1, 2])
def test_predictions_have_the_threads_of_the_estimator(models, name, members):
    X, fitted = models
    model = fitted[members - 1].set_params(n_threads=INSIDE)
    seen, result = threads_of(lambda: PREDICTIONS[name](model, X))
    assert seen == {INSIDE}
    if name == "distribution":
        assert result.n_threads == INSIDE
        assert threads_of(lambda: result.crps(np.sin(X[:, 0])))[0] == {INSIDE}


@pytest.mark.parametrize("entry", ["predict_proba", "predict_distribution"])
def test_predictions_of_classes_and_counts_too(models, entry):
    X, _ = models
    small = {"n_layers": 2, "subset_size": 5, "max_iter": 2, "n_predict_samples": 3, "random_state": 0}
    if entry == "predict_proba":
        model = DeepGPClassifier(**small).fit(X, X[:, 0] > 0)
    else:
        model = DeepGPRegressor(**small, likelihood="poisson").fit(X, np.arange(12))
    seen, _ = threads_of(lambda: getattr(model, entry)(X))
    assert seen == {INSIDE}
