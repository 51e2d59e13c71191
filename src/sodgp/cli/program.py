"""The program and its commands. Each imports what it needs when it runs: help and completion must not wait."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sodgp.cli.columns import Decimal, Encoding, KeptInFit, KeptInFront, Kinds, Missing, Reading, Separator, encoder_of
from sodgp.cli.config import FitConfig, read_config
from sodgp.cli.group import DEBUG, Commands, ExitCode
from sodgp.cli.options import estimator_flags
from sodgp.cli.predictions import predictions
from sodgp.cli.rows import Cache, Stream, rows_of_fit
from sodgp.cli.summary import line, print_json, print_summary, print_table, print_written
from sodgp.cli.tables import (
    as_json_columns,
    check_output,
    known_targets,
    levels,
    model_inputs,
    table_suffix,
    with_columns,
    write_table,
)
from sodgp.cli.tasks import estimator_for, told_task
from sodgp.errors import ConfigurationError
from sodgp.system.memory import keep_freed_memory
from sodgp.system.progress import progress, say

if TYPE_CHECKING:
    from sodgp import DeepGPClassifier, DeepGPRegressor
    from sodgp.training.callbacks import EarlyStopping


_EPILOG = """Examples:

[bold]sodgp demo[/]

[bold]sodgp fit data.csv --target y --out model/[/]

[bold]sodgp evaluate model/ held-out.csv[/]

[bold]sodgp report model/ held-out.csv --out report.html[/]

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

Table = Annotated[Path, typer.Argument(help="Table with a header row: .csv, .tsv (also .gz) or .parquet.")]
ModelPath = Annotated[Path, typer.Argument(help="Model that `sodgp fit` or `DeepGPRegressor.save` wrote.")]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", help="Column with the target; repeat it for several. [dim]\\[default: the model's][/]"),
]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, for programs.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads. [dim]\\[default: 1][/]", show_default=False)]


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
    task: Annotated[
        str | None,
        typer.Option(
            help="regression, classification or counts. [dim]\\[default: classification for a target of text or of two"
            " values, else regression][/]",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file; its keys are the options below, data, target and so on. Flags win.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Column to leave out; repeat it for several.", show_default=False)
    ] = None,
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
    check_destination(said["out"])
    encoder = encoder_of(said.get("columns"), said.get("missing"), said.get("keep") or [])
    reading = Reading(said.get("separator"), said.get("decimal"), said.get("encoding"), tuple(encoder.missing))
    X, y, task = rows_of_fit(said, reading, chosen.get("likelihood"))
    model = estimator_for(task, chosen).set_params(columns=encoder)
    asked = Configuration.from_estimator(model)
    began = time.perf_counter()
    with progress(asked.n_members * asked.n_restarts, "training", shown=shown) as begin:
        model.set_params(callbacks=[begin("training"), *_early_stopping(model, said.get("patience"))], verbose=False)
        model.fit(X, y, resume=resume)
    seconds = time.perf_counter() - began
    model.set_params(callbacks=None, verbose="auto")
    model.save(said["out"])
    if as_json:
        print_json({**describe(model), "wall_seconds": seconds, "saved_to": said["out"]})
    elif shown:
        print_summary(describe(model))
        line("seconds", f"{seconds:.1f}")
        line("saved to", said["out"])
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
    estimator = _loaded(model, threads)
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


@app.command(epilog="Example: [bold]sodgp evaluate model/ held-out.csv --json[/]")
def evaluate(
    model: ModelPath,
    data: Table,
    target: Targets = None,
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples behind the intervals; 0 for none.")] = 1000,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Score a saved model on a table that it has not seen: NLPP, RMSE, CRPS, coverage, each with a 95 % interval.

    Of classes log loss, Brier score, accuracy, area under the ROC curve and calibration error.
    """
    from sodgp.cli.predictions import observed
    from sodgp.cli.scores import as_dictionary, print_scores
    from sodgp.evaluation.scores import evaluate as run

    estimator = _loaded(model, threads)
    X, y, names = known_targets(estimator, data, target or [], Reading(separator, decimal, encoding))
    found = run(estimator, X, observed(estimator, y), targets=names)
    if as_json:
        print_json({"model": str(model), "data": str(data), **as_dictionary(found, bootstrap)})
    else:
        print_scores(found, bootstrap)


@app.command(epilog="Example: [bold]sodgp report model/ held-out.csv --out report.html[/]")
def report(
    model: ModelPath,
    data: Table,
    target: Targets = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page, one .html file.")] = Path("report.html"),
    cv: Annotated[
        int | None,
        typer.Option(min=2, help="Cross-validate on DATA, the training table, with so many fits.", show_default=False),
    ] = None,
    title: Annotated[str, typer.Option(help="Of the page. [dim]\\[default: Model of TARGET][/]")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Of folds, bootstrap and permutations.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes for the fits of --cv; -1: one for each core.")] = 1,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Write one HTML page about a model on rows it has not seen: scores, calibration, worst rows, warnings.

    With --cv the page rests on new fits with the model's options, each evaluated on the rows it did not see. The page
    opens offline, prints well and fits a phone.
    """
    from sodgp.cli.predictions import observed
    from sodgp.cli.scores import as_dictionary
    from sodgp.evaluation.format import counted
    from sodgp.report import cross_validated, held_out

    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigurationError(f"--out {out} must end in .html.")
    check_output(out, data, model)
    estimator = _loaded(model, threads)
    X, y, names = known_targets(estimator, data, target or [], Reading(separator, decimal, encoding))
    truth = observed(estimator, y)
    about: dict[str, Any] = {"title": title, "model_name": str(model), "data_name": str(data), "random_state": seed}
    if cv is None:
        found = held_out(estimator, X, truth, targets=names, **about)
    else:
        with progress(cv * estimator.n_members_, "cross-validation", shown=not as_json) as begin:
            found = cross_validated(estimator, X, truth, cv, targets=names, begin=begin, n_jobs=jobs, **about)
    found.write(out)
    if as_json:
        warned = [vars(finding) for finding in found.findings]
        print_json({"written_to": str(out), "findings": warned, **as_dictionary(found.evaluation, 1000)})
        return
    for finding in found.findings:
        say(f"{'Warning' if finding.level == 'bad' else 'Note'}: {finding.text}")
    say(f"Report on {counted(len(found.evaluation), 'row')} written to {out}")


@app.command(epilog="Example: [bold]sodgp info model/[/]")
def info(model: ModelPath, as_json: Json = False) -> None:
    """Say what a saved model is: its inputs, targets, layers, training and noise."""
    from sodgp.estimator.describe import describe

    about = describe(_loaded(model))
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


def _loaded(path: Path, threads: int | None = None) -> DeepGPRegressor | DeepGPClassifier:
    from sodgp.estimator.files.records import load_any

    model = load_any(path)
    return model.set_params(n_threads=threads or model.n_threads)


def _early_stopping(model: DeepGPRegressor | DeepGPClassifier, patience: int | None) -> list[EarlyStopping]:
    from sodgp.training.callbacks import EarlyStopping

    if patience is None:
        return []
    monitor = "bound" if model.validation_fraction is None else "validation"
    return [EarlyStopping(monitor, patience=patience)]
