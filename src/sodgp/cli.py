"""The command line: ``sodgp demo``, ``fit``, ``predict`` and ``info``."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sodgp.errors import ConfigurationError, InputError, SodgpError, SodgpWarning

USAGE_ERROR, DATA_ERROR = 2, 1

_EPILOG = "Examples: [bold]sodgp demo[/] · [bold]sodgp fit data.csv --target y --out model/[/] · \
[bold]sodgp predict model/ new.csv --out predictions.csv[/]"


class _Commands(TyperGroup):
    """Commands whose expected errors are one line on stderr and an exit code, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("always", SodgpWarning)
            warnings.showwarning = _show_warning
            try:
                return super().invoke(ctx)
            except ConfigurationError as error:
                _say(f"Error: {error}")
                raise typer.Exit(USAGE_ERROR) from error
            except (SodgpError, OSError) as error:
                _say(f"Error: {error}")
                raise typer.Exit(DATA_ERROR) from error


app = typer.Typer(
    cls=_Commands,
    help="Deep Gaussian processes: train on a table, predict with honest uncertainty.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Table = Annotated[Path, typer.Argument(help="Table with a header row: .csv, .tsv (also .gz) or .parquet.")]
ModelPath = Annotated[Path, typer.Argument(help="Model that `sodgp fit` or `DeepGPRegressor.save` wrote.")]


def main() -> None:
    """Entry point of the ``sodgp`` program."""
    app()


def _version(wanted: bool) -> None:
    if wanted:
        import sodgp

        typer.echo(f"sodgp {sodgp.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None: ...


@app.command(epilog="Example: [bold]sodgp demo --out sodgp-demo[/]")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture step.png.")] = Path("sodgp-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Fixes every random number.")] = 0,
) -> None:
    """Fit deep GPs with 1, 2 and 3 layers to a step and to the diabetes data; print scores, draw the step.

    Takes under two minutes on two cores, and needs neither network nor data files.
    """
    from sodgp.demo import run

    run(out, seed)


@app.command(epilog="Example: [bold]sodgp fit data.csv --target y --out model/ --layers 3 --seed 0[/]")
def fit(
    data: Table,
    target: Annotated[list[str], typer.Option(help="Column to predict; repeat it for several.")],
    out: Annotated[str, typer.Option(help="Where to save: a folder (model/) or one file (m.sodgp).")],
    layers: Annotated[int | None, typer.Option(help="GP layers; 1 is a sparse GP. [dim]\\[default: 2][/]")] = None,
    hidden_width: Annotated[
        int | None, typer.Option(help="Outputs of hidden layers. [dim]\\[default: min(30, inputs)][/]")
    ] = None,
    subset_size: Annotated[int | None, typer.Option(help="Rows of the subset. [dim]\\[default: 100][/]")] = None,
    subset: Annotated[
        str | None, typer.Option(help="How its rows are chosen: kmeans, random, ... [dim]\\[default: kmeans][/]")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="rbf, matern12, matern32, matern52, rq; each also with -iso. [dim]\\[rbf][/]")
    ] = None,
    inference: Annotated[str | None, typer.Option(help="Inference method. [dim]\\[default: sod][/]")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Steps of training. [dim]\\[default: 3000][/]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows that a step sees. [dim]\\[default: 2000][/]")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="[dim]\\[default: 0.01][/]")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Fixes every random number.")] = 0,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda. [dim]\\[default: auto][/]")] = None,
    dtype: Annotated[str | None, typer.Option(help="float64 or float32. [dim]\\[default: float64][/]")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads. [dim]\\[default: half the cores][/]")] = None,
    verbose: Annotated[bool, typer.Option("--verbose/--quiet", help="Show a progress bar and a summary.")] = True,
) -> None:
    """Train a model on a table and save it. Every column that is not a target is an input.

    Nothing is written unless training succeeds.
    """
    from sodgp import DeepGPRegressor
    from sodgp.configuration import Configuration
    from sodgp.data.tables import read_table, split_target
    from sodgp.io import check_destination

    options = {
        "n_layers": layers,
        "hidden_width": hidden_width,
        "subset_size": subset_size,
        "subset": subset,
        "kernel": kernel,
        "inference": inference,
        "max_iter": max_iter,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "device": device,
        "dtype": dtype,
    }
    model: Any = DeepGPRegressor(random_state=seed, **{k: v for k, v in options.items() if v is not None})
    Configuration.from_estimator(model)
    check_destination(out)
    X, y = split_target(read_table(data), target)
    _refuse_gaps(X, data)
    _refuse_gaps(y, data)
    _set_threads(threads)
    began = time.perf_counter()
    with _bar(model.max_iter, "training", shown=verbose) as advance:
        model.set_params(callbacks=[lambda state: advance(state.iteration, state.bound)])
        model.fit(X, y.iloc[:, 0] if len(target) == 1 else y)
    seconds = time.perf_counter() - began
    model.set_params(callbacks=None)
    model.target_names_ = list(target)
    model.save(out)
    if verbose:
        _summary(model, {"rows": f"{len(X):,}", "seconds": f"{seconds:.1f}", "saved to": out})
