"""The pictures of the documentation, drawn by code.

python docs/make_figures.py             draws all of them into docs/images (step.png fits models: half a minute)
python docs/make_figures.py graphs.svg  draws one
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

IMAGES = Path(__file__).with_name("images")
LATENT, OBSERVED, TRAINED, POINT = "latent", "observed", "trained", "point"


@dataclass(frozen=True)
class Graph:
    """A directed graph: nodes with their kind and place, edges by name; dashed edges are there in one variant only."""

    nodes: dict[str, tuple[str, float, float]]
    edges: tuple[tuple[str, str], ...]
    dashed: tuple[tuple[str, str], ...] = ()

    @property
    def trained(self) -> list[str]:
        """Names of the nodes that are parameters."""
        return [name for name, (kind, _, _) in self.nodes.items() if kind == TRAINED]


# Node names are LaTeX. Layers go from left to right, two of them, as in the paper's Fig. 1 with L = 2.
_INDUCING_EDGES = (
    (r"\bar Z^0", "U^1"), (r"\bar Z^0", "F^1"), ("U^1", "F^1"),
    (r"\bar Z^1", "U^2"), (r"\bar Z^1", "F^2"), ("U^2", "F^2"),
)  # fmt: skip
_INDUCING_NODES = {
    "X": (OBSERVED, 0.0, 1.0), "F^1": (LATENT, 1.4, 1.0), "F^2": (LATENT, 4.2, 1.0), "y": (OBSERVED, 5.6, 1.0),
    "U^1": (LATENT, 1.4, 2.2), "U^2": (LATENT, 4.2, 2.2),
    r"\bar Z^0": (POINT, 0.0, 2.2), r"\bar Z^1": (POINT, 2.8, 2.2),
}  # fmt: skip
_Q_EDGES = (
    (r"\lambda_U^1", "U^1"), (r"\bar Z^0", "F^1"), ("U^1", "F^1"), ("X", "F^1"),
    (r"\lambda_U^2", "U^2"), (r"\bar Z^1", "F^2"), ("U^2", "F^2"),
)  # fmt: skip
_Q_NODES = {name: place for name, place in _INDUCING_NODES.items() if name != "y"} | {
    r"\lambda_U^1": (TRAINED, 1.4, 3.4), r"\lambda_U^2": (TRAINED, 4.2, 3.4),
    r"\bar Z^0": (TRAINED, 0.0, 2.2), r"\bar Z^1": (TRAINED, 2.8, 2.2),
}  # fmt: skip
_Z = {"Z^1": (LATENT, 2.8, 1.0)}
_WHITENED = ((r"\bar Z^0", "U^1"), (r"\bar Z^1", "U^2"))  # U = mean + L u: with q over u, U hangs on its inputs
_SOD_NODES = {
    "X_S": (OBSERVED, 0.0, 2.2), "F_S^1": (LATENT, 1.4, 2.2), "Z_S^1": (LATENT, 2.8, 2.2),
    "F_S^2": (LATENT, 4.2, 2.2), "y_S": (OBSERVED, 5.6, 2.2),
    "X_R": (OBSERVED, 0.0, 1.0), "F_R^1": (LATENT, 1.4, 1.0), "Z_R^1": (LATENT, 2.8, 1.0),
    "F_R^2": (LATENT, 4.2, 1.0), "y_R": (OBSERVED, 5.6, 1.0),
}  # fmt: skip
# p(F_R | F_S, Z): the rest of a layer hangs on the subset's function values and on the inputs of both.
_SOD_REST = (
    ("X_R", "F_R^1"), ("X_S", "F_R^1"), ("F_S^1", "F_R^1"), ("F_R^1", "Z_R^1"), ("F_S^1", "Z_S^1"),
    ("Z_R^1", "F_R^2"), ("Z_S^1", "F_R^2"), ("F_S^2", "F_R^2"),
)  # fmt: skip

MODELS = {
    "mean-field": Graph(
        _INDUCING_NODES | _Z, (*_INDUCING_EDGES, ("X", "F^1"), ("F^1", "Z^1"), ("Z^1", "F^2"), ("F^2", "y"))
    ),
    "DSVI": Graph(_INDUCING_NODES, (*_INDUCING_EDGES, ("X", "F^1"), ("F^1", "F^2"), ("F^2", "y"))),
    "SoD-VI": Graph(_SOD_NODES, (*_SOD_REST, ("X_S", "F_S^1"), ("Z_S^1", "F_S^2"), ("F_S^2", "y_S"), ("F_R^2", "y_R"))),
}
POSTERIORS = {
    "mean-field": Graph(
        _Q_NODES | _Z | {r"\lambda_Z^1": (TRAINED, 2.8, -0.2)},
        (*_Q_EDGES, (r"\lambda_Z^1", "Z^1"), ("Z^1", "F^2")),
        _WHITENED,
    ),
    "DSVI": Graph(_Q_NODES, (*_Q_EDGES, ("F^1", "F^2")), _WHITENED),
    "SoD-VI": Graph(
        {name: place for name, place in _SOD_NODES.items() if name != "y_R"}
        | {r"\lambda_S^1": (TRAINED, 1.4, 3.4), r"\lambda_S^2": (TRAINED, 4.2, 3.4)},
        (*_SOD_REST, (r"\lambda_S^1", "F_S^1"), (r"\lambda_S^2", "F_S^2"), ("y_S", "F_S^2")),
        dashed=(("X_S", "F_S^1"), ("Z_S^1", "F_S^2")),
    ),
}


def graphs(path: Path) -> None:
    """Model (above) and approximate posterior (below) of the three methods: the paper's Fig. 1 for two layers."""
    figure = Figure(figsize=(13.5, 6.2), layout="constrained", facecolor="white")
    axes = figure.subplots(2, 3, height_ratios=[2.7, 4.4])
    for column, (letter, name) in enumerate(zip("abc", MODELS, strict=True)):
        _draw(axes[0, column], MODELS[name], (0.3, 3.0))
        _draw(axes[1, column], POSTERIORS[name], (-0.6, 3.8))
        axes[0, column].set_title(f"({letter}) {name}", fontsize=15)
    for row, title in enumerate(("model", "approximate posterior")):
        axes[row, 0].text(-0.9, 1.6, title, rotation=90, va="center", ha="center", fontsize=15)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write an SVG whose bytes depend on the picture and on Matplotlib's version only."""
    options = {"svg.hashsalt": "sodgp", "svg.fonttype": "path", "mathtext.fontset": "cm"}
    with matplotlib.rc_context(options):
        figure.savefig(path, metadata={"Date": None, "Creator": f"Matplotlib {matplotlib.__version__}"})


def step(path: Path) -> None:
    """The picture of ``sodgp demo``."""
    from sodgp.cli.demo import run

    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))
        path.write_bytes((Path(folder) / "step.png").read_bytes())


def report(path: Path) -> None:
    """A report on a desk and on a phone; needs Chromium."""
    spec = importlib.util.spec_from_file_location("make_screenshots", Path(__file__).with_name("make_screenshots.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(path)


FIGURES: dict[str, Callable[[Path], None]] = {"graphs.svg": graphs, "step.png": step, "report.png": report}


def _draw(axes: Axes, graph: Graph, height: tuple[float, float]) -> None:
    for edges, style in ((graph.edges, "-"), (graph.dashed, (0, (4, 3)))):
        for start, end in edges:
            places = [graph.nodes[name][1:] for name in (start, end)]
            arrow = FancyArrowPatch(
                *places, arrowstyle="-|>", mutation_scale=13, shrinkA=19, shrinkB=19, linestyle=style, color="black"
            )
            axes.add_patch(arrow)
    for name, (kind, x, y) in graph.nodes.items():
        if kind == TRAINED:
            axes.add_patch(Rectangle((x - 0.33, y - 0.33), 0.66, 0.66, facecolor="0.75", edgecolor="black", zorder=3))
        elif kind != POINT:
            colour = "#cfe0f3" if kind == OBSERVED else "white"
            axes.add_patch(Circle((x, y), 0.38, facecolor=colour, edgecolor="black", zorder=3))
        axes.text(x, y - 0.02, f"${name}$", ha="center", va="center", fontsize=15, zorder=4)
    axes.set(xlim=(-0.6, 6.2), ylim=height, aspect="equal")
    axes.axis("off")


def main(names: list[str]) -> None:
    """Draw the named pictures, or all."""
    for name in names or FIGURES:
        FIGURES[name](IMAGES / name)


if __name__ == "__main__":
    main(sys.argv[1:])
