"""The scripts of examples/ run, with few iterations, and find what they promise to show."""

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.main


def test_step_function(tmp_path, capsys):
    picture = tmp_path / "step.png"
    found = example("step_function")(["--iterations", "60", "--out", str(picture)])
    assert picture.stat().st_size > 10_000
    assert found[2] < found[1]
    assert capsys.readouterr().out.count("NLPP") == 3


def test_several_outputs(capsys):
    pytest.importorskip("pandas")
    found = example("several_outputs")(["--rows", "150", "--iterations", "30"])
    assert list(found) == ["x", "y", "reach"]
    # Better than the mean, whose error is the standard deviation: 0.86 for x and y, 0.49 for reach.
    assert found["x"] < 0.6
    assert found["y"] < 0.6
    assert found["reach"] < 0.4
    assert capsys.readouterr().out.count("90 % interval") == 3


def test_custom_kernel(capsys):
    found = example("custom_kernel")(["--iterations", "30"])
    assert found["season and trend"] < found["rbf"] - 0.5
    assert "forecast" in capsys.readouterr().out


def test_bayesian_optimisation(capsys):
    pytest.importorskip("botorch")
    best = example("bayesian_optimisation")(["--steps", "1", "--iterations", "30"])
    assert 0.5 < best <= 1.2
    assert capsys.readouterr().out.startswith("step 1")


def test_pipeline(capsys):
    pytest.importorskip("pandas")
    score, weights = example("pipeline")(["--iterations", "40"])
    assert score > 0.8
    assert weights["day"] < 0.1 < min(weights["area"], weights["district"])
    assert "remainder__area" in capsys.readouterr().out


def test_classification(tmp_path, capsys):
    picture = tmp_path / "classes.png"
    found = example("classification")(["--rows", "80", "--iterations", "40", "--out", str(picture)])
    assert picture.stat().st_size > 10_000
    assert found["log_loss"] < 0.5 < 0.85 < found["accuracy"]
    assert capsys.readouterr().out.startswith("log_loss: ")


def test_every_example_is_tested():
    sources = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py"))
    for script in FOLDER.glob("*.py"):
        assert script.stem in sources, script.name
