"""The program and its commands. Each imports what it needs when it runs: help and completion must not wait."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sodgp.cli import judge
from sodgp.cli.arguments import Dropped, Json, ModelPath, Table, TaskName, Threads, loaded
from sodgp.cli.calibration import calibrate
from sodgp.cli.columns import (
    Decimal,
    Encoding,
    KeptInFit,
    KeptInFront,
    Kinds,
    Missing,
    Reading,
    Separator,
    Weight,
    encoder_of,
)
from sodgp.cli.config import FitConfig, read_config
from sodgp.cli.distributed import Distributed, among_processes
from sodgp.cli.group import DEBUG, Commands, ExitCode
from sodgp.cli.options import estimator_flags
from sodgp.cli.predictions import predictions
from sodgp.cli.rows import Cache, Stream, rows_of_fit
from sodgp.cli.summary import print_fit, print_json, print_summary, print_table, print_written
from sodgp.cli.tables import (
    as_json_columns,
    check_output,
    levels,
    model_inputs,
    table_suffix,
    with_columns,
    write_table,
)
from sodgp.cli.tasks import estimator_for, told_task
from sodgp.errors import ConfigurationError
from sodgp.system.memory import keep_freed_memory
from sodgp.system.progress import progress

if TYPE_CHECKING:
    from sodgp import DeepGPClassifier, DeepGPRegressor
    from sodgp.training.callbacks import EarlyStopping


_EPILOG = """Examples:

[bold]sodgp demo[/]

[bold]sodgp fit data.csv --target y --out model/[/]

[bold]sodgp evaluate model/ held-out.csv[/]

[bold]sodgp report model/ held-out.csv --out report.html[/]

[bold]sodgp compare data.csv --target y[/]

[bold]sodgp predict model/ new.csv --out predictions.csv[/]

Exit codes: 0 success, 1 bad data or files, 2 usage, 3 numbers or memory run out, 4 a bug, 130 interrupted."""

app = typer.Typer(
    cls=Commands,
    help="Deep Gaussian processes: train on a table, predict with honest uncertainty.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of the ``sodgp`` program."""
    keep_freed_memory()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What cannot be shown is written as its number: names stay different, and nothing fails.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="sodgp")


def _version(wanted: bool) -> None:
    if wanted:
        import sodgp

        typer.echo(f"sodgp {sodgp.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show the traceback of an error; allowed anywhere in the line.")
    ] = False,
) -> None: ...


@app.command(epilog="Example: [bold]sodgp fit data.csv --target y --out model/ --n-layers 3 --random-state 0[/]")
@estimator_flags
def fit(
    options: dict[str, Any],
    data: Annotated[
        Path | None, typer.Argument(help="Table with a header row: .csv, .tsv (also .gz) or .parquet.")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option(help="Column to predict; repeat it for several.", show_default=False)
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Where to save: a folder (model/) or one file (m.sodgp).")
    ] = None,
    task: TaskName = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file; its keys are the options below, data, target and so on. Flags win.")
    ] = None,
    drop: Dropped = None,
    weight: Weight = None,
    columns: Kinds = None,
    keep: KeptInFit = None,
    missing: Missing = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    stream: Stream = None,
    cache: Cache = None,
    as_json: Json = False,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Stop after so many steps without a better bound (validation score with --validation-fraction).",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the newest checkpoint in the folder of --checkpoint.")
    ] = False,
    distributed: Distributed = False,
    verbose: Annotated[
        bool | None, typer.Option("--verbose/--quiet", help="Show progress and a summary.", show_default=False)
    ] = None,
) -> None:
    """Train a model on a table and save it. Every column that is not a target and not dropped is an input.

    Text, dates, yes and no, gaps: what becomes of every column is in the summary. Rows without a target are left out.
    Nothing is written unless training succeeds; Ctrl-C during training ends it and saves what there is.
    """
    from sodgp.estimator.describe import describe
    from sodgp.estimator.options.configuration import Configuration
    from sodgp.system.container import check_destination

    file = FitConfig() if config is None else read_config(config)
    flags = {
        "data": data,
        "target": target,
        "out": out,
        "drop": drop,
        "weight": weight,
        "patience": patience,
        "verbose": verbose,
        "task": task,
        "columns": columns,
        "keep": keep,
        "missing": missing,
        "separator": separator,
        "decimal": decimal,
        "encoding": encoding,
        "stream": stream,
        "cache": cache,
    }
    said = file.command | {name: value for name, value in flags.items() if value not in (None, [])}
    for name, how in (("data", "a table, such as data.csv"), ("target", "--target"), ("out", "--out")):
        if not said.get(name):
            raise ConfigurationError(f"sodgp fit needs {how}, on the command line or as {name!r} in a config file.")
    shown = said.get("verbose", True)
    given = dict(file.options)
    if "effort" in options:
        # A flag wins over the file, also over the numbers that it stands for.
        stood_for = ("max_iter", "subset_size", "batch_size", "n_members")
        given = {name: value for name, value in given.items() if name not in stood_for}
    chosen = {"random_state": 0, **given, **options}
    told = told_task(chosen.get("likelihood"), said.get("task"))
    # Before the table is read, which may take long.
    Configuration.from_estimator(estimator_for(told or "regression", chosen))
    with among_processes(distributed, chosen.get("device", "auto")) as is_first:
        if is_first:
            check_destination(said["out"])
        encoder = encoder_of(said.get("columns"), said.get("missing"), said.get("keep") or [])
        reading = Reading(said.get("separator"), said.get("decimal"), said.get("encoding"), tuple(encoder.missing))
        X, y, task, weights = rows_of_fit(said, reading, chosen.get("likelihood"))
        model = estimator_for(task, chosen).set_params(columns=encoder)
        asked = Configuration.from_estimator(model)
        began = time.perf_counter()
        with progress(asked.n_members * asked.n_restarts, "training", shown=shown and is_first) as begin:
            callbacks = [begin("training"), *_early_stopping(model, said.get("patience"))]
            model.set_params(callbacks=callbacks, verbose=False)
            model.fit(X, y, weights, resume=resume)
        seconds = time.perf_counter() - began
        model.set_params(callbacks=None, verbose="auto")
        if is_first:
            model.save(said["out"])
            print_fit(describe(model), seconds, said["out"], as_json=as_json, shown=shown)
    if model.history_.stopped == "interrupted":
        raise typer.Exit(ExitCode.INTERRUPTED)


@app.command(epilog="Example: [bold]sodgp predict model/ new.csv --out predictions.csv --quantiles 0.05,0.95[/]")
def predict(
    model: ModelPath,
    data: Table,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Predictions: .csv, .tsv (also .gz) or .parquet.")
    ] = None,
    quantiles: Annotated[
        str | None,
        typer.Option(
            help="Probabilities, with commas; empty for none. [dim]\\[default: 0.05,0.5,0.95; none for classes][/]",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes for a large table; -1: one for each core.")] = 1,
    keep: KeptInFront = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Predict the target for every row of a table: mean, standard deviation and quantiles, noise included.

    Of classes the label and the probability of each; quantiles are those of the probabilities over draws of the model.

    Columns are found by their names; others than the model's inputs play no part, with a note. The result has the
    columns of the table in front; without --out it is written to stdout. With --out a table of more than 50,000 rows is
    read and written in parts, in the memory of a few of them; the same command continues after an interruption.
    """
    from sodgp.cli.parts import Shown, predict_in_parts
    from sodgp.tables.pieces import is_large

    wanted = None if quantiles is None else levels(quantiles)
    if out is not None:
        table_suffix(out)
        check_output(out, data)
    estimator = loaded(model, threads)
    reading = Reading(separator, decimal, encoding).for_model(estimator)
    if out is not None and is_large(data):
        shown = Shown(wanted, keep, is_json=as_json)
        print_written(*predict_in_parts(estimator, model, data, out, shown, jobs, reading), out, as_json)
        return
    frame = reading.table(data)
    X = model_inputs(estimator, frame, data)
    result = with_columns(estimator, frame, predictions(estimator, X, wanted), keep, is_json=as_json)
    if out is None and as_json:
        print_json({"rows": len(result), "predictions": as_json_columns(result)})
        return
    if out is None:
        print_table(result)
        return
    write_table(result, out)
    print_written(len(result), list(result), out, as_json)


app.command(epilog="Example: [bold]sodgp evaluate model/ held-out.csv --json[/]")(judge.evaluate)
app.command(epilog="Example: [bold]sodgp report model/ held-out.csv --out report.html[/]")(judge.report)
app.command(epilog="Example: [bold]sodgp calibrate model/ kept-apart.csv[/]")(calibrate)
app.command(epilog="Example: [bold]sodgp compare data.csv --target y --cv 5 --jobs 2[/]")(judge.compare)


@app.command(epilog="Example: [bold]sodgp info model/[/]")
def info(model: ModelPath, as_json: Json = False) -> None:
    """Say what a saved model is: its inputs, targets, layers, training and noise."""
    from sodgp.estimator.describe import describe

    about = describe(loaded(model))
    if as_json:
        print_json(about)
    else:
        print_summary(about)


@app.command(epilog="Example: [bold]sodgp demo --out sodgp-demo[/]")
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the picture step.png.")] = Path("sodgp-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Fixes every random number.")] = 0,
) -> None:
    """Fit deep GPs with 1, 2 and 3 layers to a step and to the diabetes data; print scores, draw the step.

    Takes under two minutes on two cores, and needs neither network nor data files.
    """
    from sodgp.cli.demo import run

    run(out, seed)


def _early_stopping(model: DeepGPRegressor | DeepGPClassifier, patience: int | None) -> list[EarlyStopping]:
    from sodgp.training.callbacks import EarlyStopping

    if patience is None:
        return []
    monitor = "bound" if model.validation_fraction is None else "validation"
    return [EarlyStopping(monitor, patience=patience)]
