"""Arguments that several commands have, and the model they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sodgp import DeepGPClassifier, DeepGPRegressor

Table = Annotated[Path, typer.Argument(help="Table with a header row: .csv, .tsv (also .gz) or .parquet.")]
ModelPath = Annotated[Path, typer.Argument(help="Model that `sodgp fit` or `DeepGPRegressor.save` wrote.")]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", help="Column with the target; repeat it for several. [dim]\\[default: the model's][/]"),
]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, for programs.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads. [dim]\\[default: 1][/]", show_default=False)]
TaskName = Annotated[
    str | None,
    typer.Option(
        "--task",
        help="regression, classification or counts. [dim]\\[default: classification for a target of text or of two"
        " values, else regression][/]",
        show_default=False,
    ),
]
Dropped = Annotated[
    list[str] | None, typer.Option("--drop", help="Column to leave out; repeat it for several.", show_default=False)
]


def loaded(path: Path, threads: int | None = None) -> DeepGPRegressor | DeepGPClassifier:
    """The model of a file."""
    from sodgp.estimator.files.records import load_any

    model = load_any(path)
    return model.set_params(n_threads=threads or model.n_threads)
