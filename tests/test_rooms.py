"""The rooms of the library: nothing imports upward, not even inside a function."""

import ast
from pathlib import Path

import pytest

import sodgp

ROOT = Path(sodgp.__file__).parent
TOUCHED = {"cli", "report", "plots", "integrations", "bench", "demo"}
ESTIMATORS = {"estimators", "ensembles", "presets", "preparation", "prediction", "replicates", "several", "evaluation"}
# Room -> the rooms and modules above it.
ABOVE = {
    "estimators": TOUCHED,
    "training": TOUCHED | ESTIMATORS,
    "inference": TOUCHED | ESTIMATORS | {"training"},
    "model": TOUCHED | ESTIMATORS | {"training", "inference"},
    "layers": TOUCHED | ESTIMATORS | {"training", "inference", "model"},
    "subset": TOUCHED | ESTIMATORS | {"training", "inference", "model", "layers"},
    "data": TOUCHED | ESTIMATORS | {"training", "inference", "model", "layers", "subset"},
    "predictive": TOUCHED | ESTIMATORS | {"training", "inference", "model", "layers", "subset"},
    "metrics": TOUCHED | ESTIMATORS | {"training", "inference", "model", "layers", "subset"},
    "covariance": TOUCHED | ESTIMATORS | {"training", "inference", "model", "layers", "subset", "data", "predictive"},
    "linalg": TOUCHED | ESTIMATORS | {"training", "inference", "model", "layers", "subset", "data", "predictive"},
    "errors": TOUCHED | ESTIMATORS | {"training", "inference", "model", "layers", "subset", "data", "predictive"},
}


def imported(path):
    """Names below `sodgp` that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "sodgp" else [module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("sodgp."))


def files(room):
    if room == "estimators":
        return [ROOT / f"{name}.py" for name in sorted(ESTIMATORS)]
    return sorted((ROOT / room).rglob("*.py")) if (ROOT / room).is_dir() else [ROOT / f"{room}.py"]


@pytest.mark.parametrize("room", ABOVE)
def test_nothing_imports_upward(room):
    found = {path.relative_to(ROOT).as_posix(): ABOVE[room] & set(imported(path)) for path in files(room)}
    assert found
    assert {path: names for path, names in found.items() if names} == {}
