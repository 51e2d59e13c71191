"""``python -m benchmarks.paper``: run cells; with ``table`` or ``plot`` behind it: what came out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sodgp.cli.group import Commands
from sodgp.errors import ConfigurationError, InputError
from sodgp.system.files import write_text_whole
from sodgp.system.progress import say

_EPILOG = """Examples:

[bold]python -m benchmarks.paper --protocol paper --data energy --methods SoD,DSVI --layers 2,3 --out results[/]

[bold]python -m benchmarks.paper table --out results[/]

[bold]python -m benchmarks.paper plot --out results --curves energy[/]"""

Out = Annotated[Path, typer.Option(help="Results folder, one JSON file for each cell.")]
DEFAULT_OUT = Path("sodgp-bench")


class Protocol(StrEnum):
    """Whose settings."""

    paper = "paper"
    default = "default"


class Source(StrEnum):
    """Which of the paper's two descriptions of SoD."""

    program = "program"
    text = "text"


class Format(StrEnum):
    """Of the tables."""

    markdown = "markdown"
    html = "html"


bench = typer.Typer(
    cls=Commands,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@bench.callback(invoke_without_command=True, epilog=_EPILOG)
def bench_run(
    context: typer.Context,
    data: Annotated[str, typer.Option(help="Data sets, with commas; see `sodgp.data.names()`.")] = "",
    protocol: Annotated[Protocol, typer.Option(help="The paper's settings, or our defaults.")] = Protocol.paper,
    methods: Annotated[
        str, typer.Option(help="SoD, SoD*, DSVI, DSVI*, SGHMC, SVGP, default, exact, gpytorch, ngboost; with commas.")
    ] = "SoD",
    layers: Annotated[
        str, typer.Option(help="GP layers: 2, or 1-4. [dim]\\[default: 2, of the method default 3][/]")
    ] = "",
    splits: Annotated[str, typer.Option(help="Numbers of the paper's splits: 0, or 0-4.")] = "0-4",
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Steps of training. [dim]\\[default: the protocol's][/]")
    ] = None,
    source: Annotated[Source, typer.Option(help="SoD as the authors' program or the paper's text has it.")] = (
        Source.program
    ),
    out: Out = DEFAULT_OUT,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    budget: Annotated[float | None, typer.Option(min=0, help="Minutes after which no new cell begins.")] = None,
    replicates: Annotated[
        bool | None,
        typer.Option("--replicates/--no-replicates", help="All splits in one program. [dim]\\[default: on CUDA][/]"),
    ] = None,
    history_every: Annotated[
        int, typer.Option(min=0, help="Iterations between points of the curves, a multiple of 50; 0 for none.")
    ] = 100,
    compile: Annotated[bool, typer.Option(help="Fuse the steps with PyTorch's compiler; pays in long runs.")] = False,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with the data. [dim]\\[default: SODGP_DATA, cache, download][/]")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Rerun the paper's tables, cell by cell: one data set, method, depth and split at a time.

    Every finished cell is a file; a run that was stopped goes on where it was, and never mixes settings.
    """
    if context.invoked_subcommand is not None:
        _refuse_lost_options(context)
        return
    if not data:
        raise ConfigurationError(
            "python -m benchmarks.paper needs --data, such as --data energy; see python -m benchmarks.paper --help."
        )
    from benchmarks.paper.protocol import Request, numbers, words
    from benchmarks.paper.run import Options, run, set_threads

    request = Request(
        protocol=protocol.value,
        data=words(data),
        methods=words(methods),
        layers=numbers("--layers", layers) if layers else None,
        splits=numbers("--splits", splits),
        source=source.value,
        iterations=iterations,
    )
    options = Options(device, jobs, budget, replicates, history_every, data_dir, compile)
    set_threads()
    try:
        summary = run(request, out, options)
    except KeyboardInterrupt:
        say("Stopped. The same command goes on where it was.")
        raise
    parts = [f"Cells computed: {summary.computed}", f"there before: {summary.skipped}"]
    if summary.left:
        parts.append(f"left when the budget was spent: {summary.left} (run the same command again)")
    if summary.failed:
        parts.append(f"failed: {len(summary.failed)}")
    say(f"{', '.join(parts)}. See them with: python -m benchmarks.paper table --out {out}")
    if summary.failed:
        raise typer.Exit(1)


def _refuse_lost_options(context: typer.Context) -> None:
    """Those of a run, before the name of another command, would do nothing."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option, command = f"--{name.replace('_', '-')}", context.invoked_subcommand
            raise ConfigurationError(
                f"{option} stands before {command!r}: write python -m benchmarks.paper {command} {option} ..."
            )


@bench.command()
def table(
    out: Out = DEFAULT_OUT,
    format: Annotated[Format, typer.Option(help="Of the tables.")] = Format.markdown,
) -> None:
    """Tables of NLPP, RMSE and CRPS with the paper's numbers beside ours; also as a file in the results folder."""
    from benchmarks.paper import html
    from benchmarks.paper.cells import need_cells
    from benchmarks.paper.table import markdown

    cells = need_cells(out)
    text = markdown(cells) if format is Format.markdown else html.page(cells)
    if format is Format.markdown:
        typer.echo(text)
    path = out / ("table.md" if format is Format.markdown else "table.html")
    try:
        write_text_whole(path, text)
    except OSError as error:
        raise InputError(f"{path} could not be written ({error.strerror or error}).") from error
    say(f"Written to {path}")


@bench.command()
def plot(
    out: Out = DEFAULT_OUT,
    curves: Annotated[
        str, typer.Option(help="Also training curves of these data sets, with commas, such as boston_authors.")
    ] = "",
) -> None:
    """Figures in the results folder: the RMSE of all methods, and training curves where asked for."""
    from benchmarks.paper.cells import need_cells
    from benchmarks.paper.plot import curves_figure, rmse_figure, save_figure
    from benchmarks.paper.protocol import words

    cells = need_cells(out)
    figures = {"rmse.png": rmse_figure(cells)}
    figures |= {f"curves-{name}.png": curves_figure(cells, name) for name in words(curves)}
    for name, figure in figures.items():
        save_figure(figure, out / name)
        say(f"Written to {out / name}")


if __name__ == "__main__":
    bench(prog_name="python -m benchmarks.paper")
