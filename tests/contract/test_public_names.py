"""Every public name has a docstring with a runnable example.

Public are the names in ``__all__`` of the modules below. Their examples run as doctests with the rest of the suite, and
`test_docs_site.py` looks for each of them in the API reference.
"""

import importlib
import importlib.util
import inspect
import re

import pytest

MODULES = (
    "sodgp",
    "sodgp.system.memory",
    "sodgp.model.architecture",
    "sodgp.training.callbacks",
    "sodgp.training.callbacks",
    "sodgp.data",
    "sodgp.linalg.draws",
    "sodgp.errors",
    "sodgp.evaluation",
    "sodgp.inference.contract",
    "sodgp.inference.diagnostics",
    "sodgp.inference.dsvi",
    "sodgp.inference.mean_field",
    "sodgp.inference.sghmc",
    "sodgp.inference.sod",
    "sodgp.kernels.make",
    "sodgp.layers.prior",
    "sodgp.layers.families",
    "sodgp.layers.inducing",
    "sodgp.model.architecture",
    "sodgp.likelihoods",
    "sodgp.layers.subset",
    "sodgp.linalg.cholesky",
    "sodgp.predictive.metrics",
    "sodgp.model.deep_gp",
    "sodgp.plots",
    "sodgp.estimator.presets",
    "sodgp.report",
    "sodgp.selectors",
    "sodgp.selectors.auto",
    "sodgp.training.history",
    "sodgp.training.run",
    "sodgp.training.steps",
    "sodgp.training.stacking",
)
if importlib.util.find_spec("botorch") is not None:
    MODULES = (*MODULES, "sodgp.integrations.botorch")
# Whose methods are what users call.
USED_DIRECTLY = {"DeepGPRegressor", "GaussianMixture"}


def public():
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            value = getattr(importlib.import_module(module), name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield pytest.param(module, name, value, id=f"{module}.{name}")


def methods(value):
    for name, member in inspect.getmembers(value):
        plain = inspect.isfunction(member) or inspect.ismethod(member)
        if plain and not name.startswith("_") and member.__module__.startswith("sodgp"):
            yield name, member


def is_alias(value):
    """A type spelt out once, such as ``dict[str, Tensor]``."""
    return not value.__module__.startswith("sodgp")


@pytest.mark.parametrize(("module", "name", "value"), list(public()))
def test_a_public_name_says_what_it_is_and_shows_it(module, name, value):
    if is_alias(value):
        return
    text = inspect.getdoc(value) or ""
    assert len(text.splitlines()[0]) > 10
    assert re.search(r"^Examples\n-+\n>>> ", text, re.M), f"{module}.{name} has no example"


@pytest.mark.parametrize(("module", "name", "value"), list(public()))
def test_methods_of_public_classes_say_what_they_do(module, name, value):
    for method, member in methods(value) if inspect.isclass(value) else ():
        text = inspect.getdoc(member) or ""
        assert text, f"{module}.{name}.{method}"
        if name in USED_DIRECTLY:
            assert ">>> " in text, f"{module}.{name}.{method} has no example"


@pytest.mark.parametrize("module", MODULES)
def test_arguments_are_documented(module):
    """A function with several parameters says what they are, by name."""
    for name in importlib.import_module(module).__all__:
        value = getattr(importlib.import_module(module), name)
        if not inspect.isfunction(value):
            continue
        parameters = [p for p in inspect.signature(value).parameters if not p.startswith("_")]
        text = inspect.getdoc(value)
        missing = [p for p in parameters if len(parameters) > 3 and not re.search(rf"\b{p}\b", text)]
        assert not missing, f"{module}.{name}: {missing}"
