"""Errors of the command line: one plain sentence on stderr and an exit code; a traceback only with ``--debug``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from sodgp.errors import (
    ConfigurationError,
    NumericalError,
    RanksError,
    ResourceError,
    SodgpError,
    SodgpWarning,
    WorkerError,
)
from sodgp.system.progress import say, show_warning

# Typer brings its own copy of Click or uses the installed one: its classes are found through Typer's own names.
_UsageError: Any = typer.BadParameter.__base__
DEBUG = "--debug"


class ExitCode(IntEnum):
    """What the program's exit status means; 0 is success."""

    BAD_DATA = 1
    """A table, model file or folder cannot be read, used or written."""
    USAGE = 2
    """An unknown option, a value out of range, or a bad config file."""
    NUMERICAL = 3
    """Training or prediction left the range of numbers and could not be brought back, memory does not suffice, or a
    process died."""
    BUG = 4
    """An error that nobody expected."""
    INTERRUPTED = 130
    """Ctrl-C."""


class Commands(TyperGroup):
    """Commands whose errors are one line on stderr and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``--debug`` from anywhere in the line, and say what is wrong with the rest in one line."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        end = args.index("--") if "--" in args else len(args)
        if DEBUG in args[:end]:
            args = [DEBUG, *(arg for i, arg in enumerate(args) if i >= end or arg != DEBUG)]
        with _usage_errors(DEBUG in args[:1]):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        debug = bool(ctx.params.get("debug"))
        with warnings.catch_warnings(), _usage_errors(debug):
            warnings.simplefilter("always", SodgpWarning)
            warnings.showwarning = show_warning
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as error:
                say("Interrupted.")
                raise typer.Exit(ExitCode.INTERRUPTED) from error
            except (typer.Exit, typer.Abort, _UsageError, BrokenPipeError):
                raise
            except Exception as error:
                if debug:
                    import traceback

                    traceback.print_exc()
                sentence, code = explain(error)
                say(f"Error: {sentence}")
                raise typer.Exit(code) from error


def explain(error: Exception) -> tuple[str, ExitCode]:
    """One sentence for people, and the exit code.

    Examples
    --------
    >>> explain(ConfigurationError("n_layers must be an integer."))
    ('n_layers must be an integer.', <ExitCode.USAGE: 2>)
    """
    if isinstance(error, ConfigurationError):
        return str(error), ExitCode.USAGE
    if isinstance(error, NumericalError | RanksError | ResourceError | WorkerError):
        return str(error), ExitCode.NUMERICAL
    if isinstance(error, SodgpError):
        return str(error), ExitCode.BAD_DATA
    if isinstance(error, OSError):
        return (f"{error.filename}: {error.strerror}." if error.filename else f"{error}."), ExitCode.BAD_DATA
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return (
            "not enough memory; use fewer rows, or a smaller batch_size, subset_size or n_samples.",
            ExitCode.NUMERICAL,
        )
    kind = type(error).__name__
    return f"unexpected {kind}: {error}. Run it again with {DEBUG} and report the traceback.", ExitCode.BUG


@contextmanager
def _usage_errors(debug: bool) -> Iterator[None]:
    """Turn Click's boxes about options into one line with the way to the help text."""
    try:
        yield
    except _UsageError as error:
        if debug or type(error).__name__ == "NoArgsIsHelpError":
            raise
        message = " ".join(error.format_message().split())
        command = error.ctx.command_path if error.ctx is not None else "sodgp"
        stop = "" if message.endswith((".", "?")) else "."
        say(f"Error: {message}{stop} See: {command} --help")
        raise typer.Exit(ExitCode.USAGE) from error
