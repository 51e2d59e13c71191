"""What a model is, for people: the lines of ``sodgp info`` and ``sodgp fit``."""

from __future__ import annotations

from typing import Any

import typer


def print_summary(about: dict[str, Any]) -> None:
    """What `sodgp.estimator.describe.describe` says."""
    count = len(about["inputs"])
    shown = ", ".join(about["inputs"][:8]) + (" ..." if count > 8 else "")
    layers = f"{about['n_layers']} layer{'s' * (about['n_layers'] > 1)}"
    each = " for each output of the first layer" if about["separate_kernels"] else ""
    kernel = f"kernel {about['kernel']}{each}"
    line("method", f"{about['method']}, {about['likelihood']}, {layers}, widths {about['widths']}, {kernel}")
    line("inputs", f"{count} ({shown})")
    plain = ", ".join(name for name, said in about["columns"].items() if said == "number")
    others = [f"{name}: {said}" for name, said in about["columns"].items() if said != "number"]
    for number, text in enumerate([*([f"numbers: {plain}"] if plain else []), *others] if others else []):
        line("" if number else "columns", text)
    line("targets", ", ".join(about["targets"]))
    line("rows", f"{about['rows']:,}, {about['subset_rows']} in the subset")
    line("objective", about["objective"])
    has_members = about["members"] > 1
    line("parameters", f"{about['parameters']:,}" + (f" of {about['members']} members" if has_members else ""))
    if has_members:
        line("members", f"{about['members']}, each shrunk to {about['member_spread']:.3g} of its spread")
    if about["bound"] is not None:
        label = "bound" if about["objective"] == "bound" else "value"
        whose = ", the first member" if has_members else ""
        line(label, f"{about['bound']:.2f} nats after {about['iterations']} steps ({about['stopped']}{whose})")
    line("safeguards", about["safeguards"])
    typical = "typical " if about["likelihood"] == "heteroscedastic" else ""
    line("noise std", typical + ", ".join(f"{name} {value:.4g}" for name, value in about["noise_std"].items()))
    line("outliers", f"{about['outlier_probability']:.3g} of the probability of a prediction")


def line(name: str, value: str) -> None:
    """A name and its value."""
    typer.echo(f"{name:<11} {value}")
