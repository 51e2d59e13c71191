"""Draw docs/images/rooms.png: the rooms of the library and what they import, from the import graph itself.

python docs/make_architecture.py            # writes the picture
python docs/make_architecture.py --list     # prints the rooms and their imports
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path

import grimp
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "rooms.png"
# What a row of rooms is about, beside the picture.
BANDS = {
    "what users touch": ("cli", "report", "integrations", "plots", "evaluation"),
    "original units": ("estimator", "tables", "data"),
    "scaled units": ("training", "inference", "selectors", "model"),
    "algebra": ("likelihoods", "predictive", "layers", "kernels", "linalg"),
    "the machine": ("system", "errors"),
}
ROLES = {
    "cli": "commands; prints and exits",
    "report": "one HTML page about a model",
    "integrations": "BoTorch",
    "plots": "pictures: Axes in, Axes out",
    "evaluation": "scores with intervals",
    "estimator": "options, scaling, model files",
    "tables": "tables in files",
    "data": "benchmark sets, splits",
    "training": "loop, steps, checkpoints",
    "inference": "one method, one file",
    "selectors": "which rows are S",
    "model": "layers in a row + a likelihood",
    "likelihoods": "p(y | f)",
    "predictive": "what a prediction is",
    "layers": "the algebra of one layer",
    "kernels": "covariances",
    "linalg": "factors, products, draws",
    "system": "files, memory, threads",
    "errors": "what can go wrong",
}
COLOURS = ("#dbe7f5", "#e3f0dd", "#fbeed3", "#f3dfe6", "#e7e7e7")


def layers() -> list[list[str]]:
    """The rooms from top to bottom, as the contract in pyproject.toml has them."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [row.split(" : ") for row in rows]


def imports() -> dict[str, set[str]]:
    """For every room the rooms that its modules import."""
    graph = grimp.build_graph("sodgp")
    found: dict[str, set[str]] = {room: set() for row in layers() for room in row}
    for module in graph.modules:
        room = module.split(".")[1] if "." in module else ""
        for other in graph.find_modules_directly_imported_by(module) if room in found else ():
            target = other.split(".")[1] if other.startswith("sodgp.") else ""
            if target in found and target != room:
                found[room].add(target)
    return found


def reduced(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """The edges without those that a longer way implies."""

    def reached(room: str) -> set[str]:
        return set().union(*({other} | reached(other) for other in edges[room]))

    return {
        room: {other for other in others if not any(other in reached(via) for via in others - {other})}
        for room, others in edges.items()
    }


def draw(path: Path) -> None:
    """The picture."""
    rows = layers()
    figure, axes = plt.subplots(figsize=(8.6, 10.4))
    centre: dict[str, tuple[float, float]] = {}
    colour = {room: COLOURS[i] for i, band in enumerate(BANDS.values()) for room in band}
    for i, row in enumerate(rows):
        for k, room in enumerate(row):
            # Every other room to the side, so that arrows past a room stay visible.
            x = 4.2 + (1.35 if i % 2 else -1.35) + (2.7 * (k - 0.5 * (len(row) - 1)))
            centre[room] = (x, -float(i))
            box = FancyBboxPatch(
                (x - 1.15, -i - 0.29), 2.3, 0.58, boxstyle="round,pad=0.02", facecolor=colour[room], edgecolor="#666"
            )
            axes.add_patch(box)
            axes.text(x, -i + 0.06, room, ha="center", va="center", fontsize=11, weight="bold")
            axes.text(x, -i - 0.17, ROLES[room], ha="center", va="center", fontsize=7.5, color="#555")
    for room, others in reduced(imports()).items():
        for other in others:
            (x0, y0), (x1, y1) = centre[room], centre[other]
            bend = 0.0 if y0 - y1 < 1.5 else (0.22 if x1 <= 4.2 else -0.22)
            arrow = FancyArrowPatch(
                (x0, y0 - 0.31),
                (x1, y1 + 0.31),
                connectionstyle=f"arc3,rad={bend}",
                arrowstyle="-|>",
                mutation_scale=9,
                color="#5b6b7f",
                linewidth=1.0,
                zorder=0,
            )
            axes.add_patch(arrow)
    for (name, band), shade in zip(BANDS.items(), COLOURS, strict=True):
        ys = [centre[room][1] for room in band]
        axes.axhspan(min(ys) - 0.5, max(ys) + 0.5, color=shade, alpha=0.28, zorder=-2)
        axes.text(-0.55, (min(ys) + max(ys)) / 2, name, rotation=90, ha="center", va="center", fontsize=9, color="#444")
    axes.set_xlim(-0.8, 8.9)
    axes.set_ylim(-len(rows) + 0.4, 0.6)
    axes.axis("off")
    figure.tight_layout(pad=0.3)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main() -> None:
    """Write the picture or print the edges."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print instead of drawing")
    if parser.parse_args().list:
        for room, others in imports().items():
            print(f"{room:<13} {', '.join(sorted(others))}")
    else:
        draw(PICTURE)


if __name__ == "__main__":
    main()
