"""The command line: ``sodgp demo``, ``fit``, ``predict``, ``info`` and ``bench``."""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sodgp.bench.command import bench
from sodgp.errors import ConfigurationError, InputError, SodgpError, SodgpWarning
from sodgp.terminal import progress, say, show_warning

USAGE_ERROR, DATA_ERROR = 2, 1
_TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_PARQUET = (".parquet", ".pq")
_CHUNK_ROWS = 20_000

_EPILOG = """Examples:

[bold]sodgp demo[/]

[bold]sodgp fit data.csv --target y --out model/[/]

[bold]sodgp predict model/ new.csv --out predictions.csv[/]"""


class _Commands(TyperGroup):
    """Commands whose expected errors are one line on stderr and an exit code, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("always", SodgpWarning)
            warnings.showwarning = show_warning
            try:
                return super().invoke(ctx)
            except ConfigurationError as error:
                say(f"Error: {error}")
                raise typer.Exit(USAGE_ERROR) from error
            except SodgpError as error:
                say(f"Error: {error}")
                raise typer.Exit(DATA_ERROR) from error
            except OSError as error:
                say(f"Error: {error.filename}: {error.strerror}." if error.filename else f"Error: {error}.")
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
app.add_typer(bench, name="bench")

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
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
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
    subset_size: Annotated[int | None, typer.Option(help="Rows of the subset. [dim]\\[default: up to 100][/]")] = None,
    subset: Annotated[
        str | None, typer.Option(help="How its rows are chosen: kmeans, random, ... [dim]\\[default: kmeans][/]")
    ] = None,
    reselect_every: Annotated[
        int | None, typer.Option(help="Steps between two choices of the subset. [dim]\\[default: one choice][/]")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="rbf, matern12, matern32, matern52, rq; each also with -iso. [dim]\\[rbf][/]")
    ] = None,
    inference: Annotated[str | None, typer.Option(help="Inference method. [dim]\\[default: sod][/]")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Steps of training. [dim]\\[default: 1000][/]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows that a step sees. [dim]\\[default: 2000][/]")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="[dim]\\[default: 0.03][/]")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Fixes every random number.")] = 0,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda. [dim]\\[default: auto][/]")] = None,
    dtype: Annotated[str | None, typer.Option(help="float64 or float32. [dim]\\[default: float64][/]")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads. [dim]\\[default: 1][/]")] = None,
    verbose: Annotated[bool, typer.Option("--verbose/--quiet", help="Show a progress bar and a summary.")] = True,
) -> None:
    """Train a model on a table and save it. Every column that is not a target is an input.

    Nothing is written unless training succeeds.
    """
    from sodgp import DeepGPRegressor
    from sodgp.configuration import Configuration
    from sodgp.data.tables import read_table, split_target
    from sodgp.io import check_destination

    options: dict[str, Any] = {
        "n_layers": layers,
        "hidden_width": hidden_width,
        "subset_size": subset_size,
        "subset": subset,
        "reselect_every": reselect_every,
        "kernel": kernel,
        "inference": inference,
        "max_iter": max_iter,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "device": device,
        "dtype": dtype,
        "n_threads": threads,
    }
    model: Any = DeepGPRegressor(random_state=seed, **{k: v for k, v in options.items() if v is not None})
    Configuration.from_estimator(model)
    check_destination(out)
    X, y = split_target(read_table(data), target)
    _refuse_unusable(X, data)
    _refuse_unusable(y, data)
    began = time.perf_counter()
    with progress(model.max_iter, "training", shown=verbose) as begin:
        model.set_params(callbacks=[begin("training")])
        model.fit(X, y.iloc[:, 0] if len(target) == 1 else y)
    seconds = time.perf_counter() - began
    model.set_params(callbacks=None)
    model.target_names_ = list(target)
    model.save(out)
    if verbose:
        _summary(model)
        _line("seconds", f"{seconds:.1f}")
        _line("saved to", out)


@app.command(epilog="Example: [bold]sodgp predict model/ new.csv --out predictions.csv --quantiles 0.05,0.95[/]")
def predict(
    model: ModelPath,
    data: Table,
    out: Annotated[Path, typer.Option(help="Predictions: .csv, .tsv (also .gz) or .parquet.")],
    quantiles: Annotated[str, typer.Option(help="Probabilities, with commas; empty for none.")] = "0.05,0.5,0.95",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads. [dim]\\[default: 1][/]")] = None,
) -> None:
    """Predict the target for every row of a table: mean, standard deviation and quantiles, noise included.

    Columns are found by their names; others than the model's inputs are left out, with a note.
    """
    from sodgp import DeepGPRegressor
    from sodgp.data.tables import read_table
    from sodgp.io import write_whole

    levels = _levels(quantiles)
    suffix = _table_suffix(out)
    if out.is_dir() or (out.exists() and out.samefile(data)):
        raise ConfigurationError(f"--out {out} is a folder or the input table itself; name another file.")
    estimator = DeepGPRegressor.load(model)
    X = _inputs(estimator, read_table(data), data)
    _refuse_unusable(X, data)
    estimator.set_params(n_threads=threads or estimator.n_threads)
    result = _predictions(estimator, X, levels)
    if suffix in _PARQUET:
        write_whole(out, lambda path: result.to_parquet(path, index=False))
    else:
        packing = "gzip" if suffix.endswith(".gz") else None
        separator = "\t" if suffix.startswith(".tsv") else ","
        write_whole(out, lambda path: result.to_csv(path, index=False, sep=separator, compression=packing))
    say(f"{len(result):,} predictions written to {out}")


@app.command(epilog="Example: [bold]sodgp info model/[/]")
def info(model: ModelPath) -> None:
    """Say what a saved model is: its inputs, targets, layers, training and noise."""
    from sodgp import DeepGPRegressor

    _summary(DeepGPRegressor.load(model))


def _predictions(estimator: Any, X: Any, levels: list[float]) -> Any:
    """A frame with mean, std and quantiles of every target, in chunks: memory stays bounded."""
    import numpy as np
    import pandas as pd

    targets = list(getattr(estimator, "target_names_", []))
    parts = []
    for start in range(0, len(X), _CHUNK_ROWS):
        dist = estimator.predict_distribution(X.iloc[start : start + _CHUNK_ROWS])
        columns = [dist.mean, dist.std, *(dist.quantile(levels) if levels else [])]
        parts.append(np.stack([values.reshape(len(dist), -1) for values in columns], axis=-1))
    table = np.concatenate(parts)
    names = ["mean", "std", *(f"q{level:g}" for level in levels)]
    n_outputs = table.shape[1]
    targets = targets if len(targets) == n_outputs else [f"y{i}" for i in range(n_outputs)]
    header = names if n_outputs == 1 else [f"{target}_{name}" for target in targets for name in names]
    return pd.DataFrame(table.reshape(len(table), -1), columns=header)


def _inputs(estimator: Any, frame: Any, path: Path) -> Any:
    """The model's inputs in its own order; columns that are left out are named on stderr."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        if frame.shape[1] != estimator.n_features_in_:
            raise InputError(
                f"{path} has {frame.shape[1]} columns, but the model takes {estimator.n_features_in_} inputs, which it"
                " knows by their order only. Keep those columns alone."
            )
        return frame.set_axis(range(frame.shape[1]), axis=1)
    missing = [repr(name) for name in names if name not in frame.columns]
    if missing:
        raise InputError(f"{path} lacks input columns of the model: {', '.join(missing)}. Add them, spelt like that.")
    targets = list(getattr(estimator, "target_names_", []))
    for column in frame.columns:
        if column not in names:
            say(
                f"Note: column {column!r} is {'the target' if column in targets else 'no input of the model'}; ignored."
            )
    return frame[list(names)]


def _refuse_unusable(frame: Any, path: Path) -> None:
    """InputError that names text columns, or the columns and the first row with missing or infinite values."""
    import numpy as np

    text = [repr(column) for column in frame.columns if frame[column].dtype.kind not in "biuf"]
    if text:
        raise InputError(
            f"{path}: {', '.join(text)} {'hold' if len(text) > 1 else 'holds'} text instead of numbers. Encode such"
            " columns as numbers, or leave them out."
        )
    good = np.isfinite(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    if not good.all():
        names = ", ".join(repr(column) for column in frame.columns[~good.all(0)])
        row = int(np.flatnonzero(~good.all(1))[0]) + 1
        raise InputError(
            f"{path}: missing or infinite values in {names}, first in row {row} below the header. Fill them in, or drop"
            " such rows."
        )


def _levels(text: str) -> list[float]:
    try:
        levels = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        levels = [math.nan]
    if not all(0 < level < 1 for level in levels):
        raise ConfigurationError(
            f"--quantiles {text!r} must be numbers between 0 and 1 with commas, such as 0.05,0.95."
        )
    return levels


def _table_suffix(path: Path) -> str:
    for suffix in (*_TEXT, *_PARQUET):
        if path.name.lower().endswith(suffix):
            return suffix
    raise ConfigurationError(f"--out {path} must end in one of {', '.join((*_TEXT, *_PARQUET))}.")


def _summary(model: Any) -> None:
    history = model.history_
    widths = [layer.q_mean.shape[-1] for layer in model.model_.layers]
    noise = model.model_.noise_variance.sqrt().flatten().tolist()
    targets = list(getattr(model, "target_names_", [])) or [f"y{i}" for i in range(len(noise))]
    inputs = ", ".join(getattr(model, "feature_names_in_", [])[:8])
    more = " ..." if model.n_features_in_ > 8 else ""
    _line("method", f"{model.inference}, {model.n_layers} layers, widths {widths}, kernel {model.kernel}")
    _line("inputs", f"{model.n_features_in_}" + (f" ({inputs}{more})" if inputs else ""))
    _line("targets", ", ".join(targets))
    _line("rows", f"{int(model._x_scaler.n_samples_seen_):,}, {model.model_.layers[0].q_mean.shape[-2]} in the subset")
    _line("parameters", f"{model.n_parameters_:,}")
    _line("bound", f"{history.bound[-1]:.2f} nats after {model.n_iter_} steps ({history.stopped})")
    scales = (
        f"{name} {root * scale:.4g}" for name, root, scale in zip(targets, noise, model._y_scaler.scale_, strict=True)
    )
    _line("noise std", ", ".join(scales))


def _line(name: str, value: str) -> None:
    typer.echo(f"{name:<11} {value}")
