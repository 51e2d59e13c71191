"""Every picture of the documentation is made by code in the repository, and the graphs are those of the code."""

import importlib.util
import re
import sys
from pathlib import Path

import matplotlib
import pytest
import torch

from sodgp.inference.contract import TrainingSet
from sodgp.inference.dsvi import DSVI
from sodgp.inference.mean_field import MeanField
from sodgp.inference.sod import SoD
from sodgp.model.architecture import Architecture

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
METHODS = {"mean-field": MeanField(), "DSVI": DSVI(), "SoD-VI": SoD()}
# What the pages show beside the pictures of docs/make_figures.py, and the program that writes it.
PLOTS = (
    "calibration",
    "comparison",
    "fit",
    "hidden",
    "history",
    "predictions",
    "relevance",
    "residuals",
    "subset",
    "warp",
)
MADE_ELSEWHERE: dict[str, str] = {f"docs/images/plot-{name}.png": "docs/make_plots.py" for name in PLOTS}
MADE_ELSEWHERE |= {
    f"docs/images/{name}": "docs/make_results.py"
    for name in ("results-rmse.png", "results-curves.png", "subsets-nlpp.png")
}
MADE_ELSEWHERE["docs/images/rooms.png"] = "docs/make_architecture.py"


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_figures", DOCS / "make_figures.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_figures"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["make_figures"]


def shown():
    pictures = set()
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md"]:
        for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            pictures.add((page.parent / target).resolve())
    return sorted(pictures)


def test_every_picture_is_there_and_is_made_by_code(maker):
    assert len(shown()) >= 2
    for picture in shown():
        assert picture.is_file(), picture
        name = picture.relative_to(ROOT).as_posix()
        if picture.parent == maker.IMAGES and picture.name in maker.FIGURES:
            continue
        if picture.parent == DOCS / "gallery":  # examples/NAME.py draws docs/gallery/NAME-CELL.png
            assert (ROOT / "examples" / f"{picture.stem.split('-')[0]}.py").is_file(), name
            continue
        assert (ROOT / MADE_ELSEWHERE[name]).is_file(), f"{name}: which program makes it?"


def test_no_picture_is_left_over(maker):
    assert {*maker.IMAGES.iterdir(), *(DOCS / "gallery").glob("*.png")} <= set(shown())


def test_the_graphs_are_drawn_as_committed(maker, tmp_path):
    maker.graphs(tmp_path / "graphs.svg")
    committed, drawn = (folder.joinpath("graphs.svg").read_text() for folder in (maker.IMAGES, tmp_path))
    assert "<svg" in drawn
    if f"Matplotlib {matplotlib.__version__}<" in committed:
        assert drawn == committed, "run python docs/make_figures.py graphs.svg"


@pytest.mark.parametrize("name", METHODS)
def test_grey_squares_are_what_the_code_trains(maker, name):
    X, y = torch.randn(12, 2, dtype=torch.float64), torch.randn(12, 1, dtype=torch.float64)
    cut = 4 if METHODS[name].uses_subset else 0
    data = TrainingSet(X[:cut], y[:cut], X[cut:], y[cut:])
    architecture = Architecture(2, 1, 4, [torch.eye(2, dtype=torch.float64)])
    model = METHODS[name].build(architecture, data, torch.Generator().manual_seed(0))
    trained = set()
    for parameter, _ in model.named_parameters():
        layer = int(parameter.split(".")[1]) if parameter.startswith("layers") else 0
        if parameter.endswith("inducing_inputs"):
            trained.add(rf"\bar Z^{layer}")
        elif parameter.endswith(("q_mean", "q_factor")):
            trained.add(rf"\lambda_{'S' if METHODS[name].uses_subset else 'U'}^{layer + 1}")
        elif ".latent." in parameter:
            trained.add(rf"\lambda_Z^{max(layer, 1)}")
    assert trained == set(maker.POSTERIORS[name].trained)


@pytest.mark.parametrize("name", METHODS)
def test_edges_join_nodes(maker, name):
    for graph in (maker.MODELS[name], maker.POSTERIORS[name]):
        assert {end for edge in (*graph.edges, *graph.dashed) for end in edge} <= set(graph.nodes)
