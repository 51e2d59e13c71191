"""The command line inside the tests, with stdout and stderr apart."""

from __future__ import annotations

import inspect
from typing import Any

from typer.testing import CliRunner

from sodgp.cli import app

# Click mixes the two before version 8.2, unless it is told not to.
_APART = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}


def run(*arguments: object, program: Any = app) -> Any:
    """Click's result of ``sodgp ARGUMENTS``, or of another program."""
    return CliRunner(**_APART).invoke(program, [str(argument) for argument in arguments])
