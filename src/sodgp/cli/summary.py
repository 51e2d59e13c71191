"""What a model is, on stdout: for people and for programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sodgp.errors import printable
from sodgp.system.progress import say

if TYPE_CHECKING:
    import pandas as pd


def print_summary(about: dict[str, Any]) -> None:
    """What `sodgp.estimator.describe.describe` says, in lines."""
    from sodgp.estimator.describe import target_facts  # with PyTorch

    count = len(about["inputs"])
    shown = ", ".join(about["inputs"][:8]) + (" ..." if count > 8 else "")
    layers = f"{about['n_layers']} layer{'s' * (about['n_layers'] > 1)}"
    each = " for each output of the first layer" if about["separate_kernels"] else ""
    kernel = f"kernel {about['kernel']}{each}"
    line("method", f"{about['method']}, {about['likelihood']}, {layers}, widths {about['widths']}, {kernel}")
    if about["n_layers_reason"] is not None:
        line("depth", about["n_layers_reason"])
    line("inputs", f"{count} ({shown})")
    plain = ", ".join(name for name, said in about["columns"].items() if said == "number")
    others = [f"{name}: {said}" for name, said in about["columns"].items() if said != "number"]
    for number, text in enumerate([*([f"numbers: {plain}"] if plain else []), *others] if others else []):
        line("" if number else "columns", text)
    line("targets", ", ".join(about["targets"]))
    if about["classes"] is not None:
        names = ", ".join(map(str, about["classes"][:8])) + (" ..." if len(about["classes"]) > 8 else "")
        line("classes", f"{len(about['classes'])} ({names})")
    line("rows", f"{about['rows']:,}, {about['subset_rows']} in the subset")
    for name, text in target_facts(about):
        line(name, text)
    line("objective", about["objective"])
    has_members = about["members"] > 1
    line("parameters", f"{about['parameters']:,}" + (f" of {about['members']} members" if has_members else ""))
    if has_members:
        shrunk = "" if about["member_spread"] == 1.0 else f", each shrunk to {about['member_spread']:.3g} of its spread"
        line("members", f"{about['members']}{shrunk}")
    if about["bound"] is not None:
        label = "bound" if about["objective"] == "bound" else "value"
        whose = ", the first member" if has_members else ""
        line(label, f"{about['bound']:.2f} nats after {about['iterations']} steps ({about['stopped']}{whose})")
    line("safeguards", about["safeguards"])
    typical = "typical " if about["likelihood"] == "heteroscedastic" else ""
    if about["noise_std"]:
        line("noise std", typical + ", ".join(f"{name} {value:.4g}" for name, value in about["noise_std"].items()))
    if about["task"] == "regression":
        line("outliers", f"{about['outlier_probability']:.3g} of the probability of a prediction")


def print_fit(about: dict[str, Any], seconds: float, saved_to: str, *, as_json: bool, shown: bool) -> None:
    """What came of a fit, where it is shown at all."""
    if as_json:
        print_json({**about, "wall_seconds": seconds, "saved_to": saved_to})
    elif shown:
        print_summary(about)
        line("seconds", f"{seconds:.1f}")
        line("saved to", saved_to)


def print_json(content: dict[str, Any]) -> None:
    """A dictionary as JSON."""
    # JSON can escape what the stream cannot hold.
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    typer.echo(printable(json.dumps(content, indent=2, allow_nan=False, ensure_ascii=not is_unicode)))


def print_table(frame: pd.DataFrame) -> None:
    """A frame as CSV: for programs as it is, on a terminal with control characters as escapes."""
    text = frame.to_csv(index=False, lineterminator="\n")
    typer.echo(printable(text) if sys.stdout.isatty() else text, nl=False)


def print_written(rows: int, columns: list[str], out: Path, as_json: bool) -> None:
    """That so many predictions are in a file: for people on stderr."""
    if as_json:
        print_json({"rows": rows, "columns": columns, "written_to": str(out)})
    else:
        say(f"{rows:,} prediction{'s' * (rows != 1)} written to {out}")


def line(name: str, value: str) -> None:
    """One line of a summary."""
    typer.echo(f"{name:<11} {printable(value, one_line=True)}")
