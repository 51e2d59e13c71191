"""The compiled objective is the plain one."""

import shutil
import subprocess
import sys
import textwrap

import pytest

# In a process of its own: the tests' run-time check of shapes cannot be compiled.
PROGRAM = """
    import numpy as np
    from sodgp import DeepGPRegressor

    X = np.linspace(-1, 1, 24)[:, None]
    y = np.sign(X[:, 0])
    options = {"max_iter": 5, "subset_size": 8, "n_samples": 3, "n_predict_samples": 3, "random_state": 0}
    plain = DeepGPRegressor(**options).fit(X, y)
    compiled = DeepGPRegressor(compile=True, **options).fit(X, y)
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
