"""What is imported when: every module costs each process time that nobody gets back."""

import subprocess
import sys

import pytest

IMPORT = "import sys; from sodgp import DeepGPRegressor; model = DeepGPRegressor(n_layers=2, max_iter=2); repr(model)"
FIT = f"{IMPORT}; model.fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0]).predict([[0.5]])"


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (IMPORT, "torch gpytorch jaxtyping matplotlib rich typer jinja2 safetensors sklearn.cluster"),
        (FIT, "torch._dynamo matplotlib typer jinja2 sodgp.plots sodgp.report sodgp.evaluation"),
        (FIT.replace("n_layers=2", "inference='sghmc'"), "torch._dynamo"),
    ],
    ids=["import", "fit", "sampling"],
)
def test_nothing_is_imported_that_is_not_needed(code, unwanted):
    code += f"; print(*(name for name in {unwanted.split()} if name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "\n"
