"""The compiled objective is the plain one."""

import shutil
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from sodgp import DeepGPRegressor
from sodgp.errors import NumericalWarning

# In a process of its own: the tests' run-time check of shapes cannot be compiled.
PROGRAM = """
    import warnings

    import numpy as np
    from sodgp import DeepGPRegressor
    from sodgp.errors import NumericalWarning

    warnings.simplefilter("error", NumericalWarning)  # else a fit that fell back to the plain step would pass, too
    X = np.linspace(-1, 1, 24)[:, None]
    y = np.sign(X[:, 0])
    options = {"max_iter": 5, "subset_size": 8, "n_samples": 3, "n_predict_samples": 3, "random_state": 0}
    options["n_layers"] = 2
    plain = DeepGPRegressor().set_params(**options).fit(X, y)
    compiled = DeepGPRegressor().set_params(tuning__compile=True, **options).fit(X, y)
    np.testing.assert_allclose(compiled.history_.bound, plain.history_.bound, rtol=1e-10)
    np.testing.assert_allclose(compiled.predict(X), plain.predict(X), rtol=1e-9, atol=1e-10)
    print("equal")
"""


@pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("clang++") is None, reason="PyTorch's compiler needs a C++ compiler"
)
def test_a_compiled_fit_is_the_plain_fit():
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "equal", run.stderr


MANY = """
    import warnings
    from functools import partial

    import numpy as np
    import torch
    from sodgp import DeepGPRegressor
    from sodgp.errors import NumericalWarning

    warnings.simplefilter("error", NumericalWarning)
    torch.compile = partial(torch.compile, backend="eager")  # quicker, and the limit is the same
    for rows in range(12, 21):
        X = np.linspace(-1, 1, rows)[:, None]
        DeepGPRegressor().set_params(n_layers=1, tuning__compile=True, max_iter=1, subset_size=4).fit(X, X[:, 0])
    print("nine")
"""


def test_nine_models_compile_in_one_process():
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(MANY)], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "nine", run.stderr


# All functions, and a layer of another class; without arguments every method, too, alone and replicated, for minutes.
FAST = ("L", "L_inv", "times", "transpose_times", "solve", "log_det", "inverse_norm", "HiddenRows", "TotalRows")
FAST += ("SpreadRows", "QuadraticTrace", "Gram", "RBFPair", "OutputVariances", "sod, separate kernels")


def test_gradients_of_compiled_functions_are_the_plain_ones():
    # Without code generation: what is at stake is whether the compiler keeps every gradient, not how it fuses.
    program = Path(__file__).with_name("compiled_gradients.py")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(program), "aot_eager", *FAST], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "equal", run.stdout + run.stderr


def test_a_compiler_that_fails_or_loses_a_gradient_is_not_used(monkeypatch):
    def careless(function, **_):
        return lambda *numbers: {name: value.detach() + 0 * value for name, value in function(*numbers).items()}

    monkeypatch.setattr(torch, "compile", careless)
    X, y = np.linspace(0, 1, 12)[:, None], np.linspace(0, 1, 12)
    options = {"max_iter": 3, "subset_size": 4, "random_state": 0}
    with pytest.warns(NumericalWarning, match="another gradient"):
        model = DeepGPRegressor().set_params(tuning__compile=True, **options).fit(X, y)
    plain = DeepGPRegressor().set_params(**options).fit(X, y)
    assert model.history_.bound == plain.history_.bound

    def unable(function, **_):
        def refuse(*_):
            raise RuntimeError("no compiler was found\nand more")

        return refuse

    monkeypatch.setattr(torch, "compile", unable)
    with pytest.warns(NumericalWarning, match=r"cannot compile this model \(no compiler was found\)"):
        model = DeepGPRegressor().set_params(tuning__compile=True, **options).fit(X, y)
    assert model.history_.bound == plain.history_.bound
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DeepGPRegressor().set_params(tuning__compile=True, **options).fit(X, y)
