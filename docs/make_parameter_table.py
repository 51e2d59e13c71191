"""The tables of docs/parameters.md: what each method trains, counted by the code.

python docs/make_parameter_table.py          writes them into docs/parameters.md
python docs/make_parameter_table.py --check  says whether the page holds what the code counts
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import torch

from sodgp.data.catalogue import find
from sodgp.inference.contract import Inference, TrainingSet
from sodgp.inference.dsvi import DSVI
from sodgp.inference.mean_field import MeanField
from sodgp.inference.sghmc import SGHMC
from sodgp.inference.sod import SoD
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP

PAGE = Path(__file__).with_name("parameters.md")
BEGIN, END = "<!-- begin: make_parameter_table.py -->", "<!-- end: make_parameter_table.py -->"
DATA_SETS, LAYERS = ("boston", "energy", "protein"), (2, 3)
# The library refuses the mean-field method on large data; here its parameters are only counted.
METHODS: dict[str, Inference] = {
    "mean-field (Fig. 1a)": MeanField(max_rows=10**9, max_latents=10**12),
    "DSVI (Fig. 1b)": DSVI(),
    "DSVI*": DSVI(learn_inducing_inputs=False),
    "SGHMC": SGHMC(n_posterior_samples=1),
    "**SoD-VI (Fig. 1c)**": SoD(),
}
PARTS = ("inducing inputs", "q(U) or q(F_S)", "q(Z)", "kernels, noises")


def shape_of(name: str) -> tuple[int, int, int]:
    """Training rows N, columns D and subset size M of a data set, as in the paper: 90 % of the rows, M = 50 or 100."""
    entry = find(name)
    rows = int(0.9 * entry.rows)
    return rows, len(entry.columns) - 1, 50 if rows < 5000 else 100


def build(method: Inference, n_rows: int, columns: int, size: int, n_layers: int) -> DeepGP:
    """A model with hidden width min(30, D) and one output; only shapes count, so every row is zero."""
    widths = [columns, *[min(30, columns)] * (n_layers - 1)]
    weights = [torch.eye(a, b, dtype=torch.float64) for a, b in pairwise(widths)]
    X, y = torch.zeros(n_rows, columns, dtype=torch.float64), torch.zeros(n_rows, 1, dtype=torch.float64)
    subset = size if method.uses_subset else 0
    data = TrainingSet(X[:subset], y[:subset], X[subset:], y[subset:])
    return method.build(Architecture(columns, 1, size, weights), data, torch.Generator().manual_seed(0))


def count(model: DeepGP) -> dict[str, int]:
    """Trained (for SGHMC: trained and sampled) numbers by part; of a covariance factor only the lower triangle."""
    parts = dict.fromkeys(PARTS, 0)
    for name, parameter in model.named_parameters():
        leaf, numbers = name.rsplit(".", 1)[-1], parameter.numel()
        if leaf == "inducing_inputs":
            parts["inducing inputs"] += numbers
        elif leaf == "q_factor":
            size = parameter.shape[-1]
            parts["q(U) or q(F_S)"] += numbers // size**2 * (size * (size + 1) // 2)
        elif leaf == "q_mean":
            parts["q(U) or q(F_S)"] += numbers
        elif ".latent." in name:
            parts["q(Z)"] += numbers
        else:
            parts["kernels, noises"] += numbers
    if sum(parts.values()) != model.n_parameters:
        raise AssertionError(f"the parts {parts} do not add up to n_parameters = {model.n_parameters}.")
    return parts


def table(name: str) -> str:
    """The table of one data set, in Markdown."""
    n_rows, columns, size = shape_of(name)
    lines = [
        f"**{name}**: N = {n_rows:,}, D = {columns}, M = {size}, hidden width {min(30, columns)}",
        "",
        f"| L | method | {' | '.join(PARTS)} | total | total / SoD-VI |",
        "|---|---|" + "---:|" * (len(PARTS) + 2),
    ]
    for n_layers in LAYERS:
        counts = {label: count(build(method, n_rows, columns, size, n_layers)) for label, method in METHODS.items()}
        sod = sum(counts["**SoD-VI (Fig. 1c)**"].values())
        for label, parts in counts.items():
            total = sum(parts.values())
            numbers = " | ".join(f"{parts[part]:,}" for part in PARTS)
            lines.append(f"| {n_layers} | {label} | {numbers} | {total:,} | {total / sod:.3f} |")
    return "\n".join(lines)


def tables() -> str:
    """All tables, between the marks of the page."""
    return "\n\n".join([BEGIN, *(table(name) for name in DATA_SETS), END])


def renewed(page: str) -> str:
    """The page with its tables counted afresh."""
    before, rest = page.split(BEGIN)
    return before + tables() + rest.split(END)[1]


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` compare it."""
    page = PAGE.read_text(encoding="utf-8")
    fresh = renewed(page)
    if "--check" not in arguments:
        PAGE.write_text(fresh, encoding="utf-8")
        return 0
    print("docs/parameters.md is as counted." if page == fresh else "docs/parameters.md is out of date.")
    return int(page != fresh)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
