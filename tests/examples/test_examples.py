"""The scripts of examples/ run with few steps and find what they show; their pages and notebooks are up to date."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"
NEEDS = {"bayesian_optimisation": "botorch", "large_parquet": "pyarrow"}
USES_FRAMES = ("tabular", "several_outputs", "pipeline", "partial_dependence", "tabular_report", "many_processes")


def load():
    spec = importlib.util.spec_from_file_location("make_gallery", ROOT / "docs" / "make_gallery.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


gallery = load()


def better(found):
    """The second of two scores is lower."""
    first, second, *_ = found["scores"].values()
    return second < first


# What a script must have found even after a few steps, by the names that it leaves behind.
FINDINGS = {
    "step_function": lambda found: found["scores"][2] < found["scores"][1],
    "tabular": lambda found: "3 levels" in found["model"].columns_["district"] and found["scores"]["r2"].value > 0.5,
    "several_outputs": lambda found: all(error < 0.2 for error in found["errors"].values()),
    "classification": lambda found: found["scores"]["accuracy"] > 0.8,
    "counts": better,
    "heteroscedastic": lambda found: set(found["coverage"]) == {"gaussian", "heteroscedastic"},
    "outliers": lambda found: len(set(found["wrong"]) & set(found["found"])) >= 8,
    "calibration": lambda found: better({"scores": {k: v["nlpp"].value for k, v in found["scores"].items()}}),
    "partial_dependence": lambda found: "bmi" in found["columns"],
    "tabular_report": lambda found: Path("report.html").is_file() and Path("model.sodgp").is_file(),
    "pipeline": lambda found: found["score"] > 0.8,
    "bayesian_optimisation": lambda found: 0.5 < found["best"] <= 1.2,
    "active_learning": lambda found: len(set(found["known"])) == len(found["known"]) == 12,
    "custom_kernel": lambda found: found["scores"]["season and trend"] < found["scores"]["rbf"] - 0.5,
    "custom_likelihood": better,
    "custom_selector": lambda found: len(found["model"].subset_indices_) == 16,
    "large_parquet": lambda found: max(found["errors"]) < 0.3,
    "many_processes": lambda found: found["difference"] < 1e-6,
    "adding_rows": lambda found: np.isfinite(found["scores"]).all() and len(found["scores"]) == 5,
}


@pytest.mark.parametrize("name", gallery.names())
def test_a_script_runs_and_shows_what_it_promises(name, tmp_path, monkeypatch):
    if name in NEEDS or name in USES_FRAMES:
        pytest.importorskip(NEEDS.get(name, "pandas"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPS", "15")
    drawn = 0
    for namespace, _, figures in gallery.run(gallery.read(name)):
        found = namespace
        drawn += len(figures)
    assert FINDINGS[name](found)
    assert drawn >= 1


def test_every_script_is_in_the_gallery_and_tested():
    assert sorted(gallery.names()) == sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(FINDINGS)


def test_pages_and_notebooks_have_the_text_of_the_scripts():
    assert gallery.stale() == [], "run python docs/make_gallery.py"


def test_a_page_keeps_its_results_when_its_text_is_renewed():
    script = gallery.read("counts")
    results = [("", []), ("one\n", []), ("", ["counts-2.png"]), ("two\n", [])]
    page = gallery.page(script, results, "a minute")
    assert gallery.results_in(page, script) == (results, "a minute")
    assert gallery.results_in("", script) == ([("", [])] * 4, "")


@pytest.mark.parametrize("path", sorted(gallery.NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPS", "2")
    content = json.loads(path.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in content["cells"]}) == len(content["cells"])
    cells = ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]
    notebook = gallery.Script(path.stem, "", "", tuple(("", cell) for cell in cells))
    *_, (namespace, _, _) = gallery.run(notebook)
    assert namespace["model"].n_iter_ >= 1
