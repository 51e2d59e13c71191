"""Exit codes, usage errors and tracebacks."""

from __future__ import annotations

import re

import pytest
from cli_runner import run

from sodgp import DeepGPRegressor
from sodgp.errors import NumericalError, ResourceError

QUICK = ["--max-iter", "3", "--subset-size", "10"]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (NumericalError("the bound is not finite."), 3, "Error: the bound is not finite.\n"),
        (ResourceError("3 GB are needed.", needed=3, available=2), 3, "Error: 3 GB are needed.\n"),
        (
            MemoryError(),
            3,
            "Error: not enough memory; use fewer rows, or a smaller batch_size, subset_size or n_samples.\n",
        ),
        (KeyError("x"), 4, "Error: unexpected KeyError: 'x'. Run it again with --debug and report the traceback.\n"),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
    ],
)
def test_exit_codes(go, table, tmp_path, monkeypatch, error, code, message):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(DeepGPRegressor, "fit", fail)
    assert go("fit", "data.csv", "--target", "y", "--out", "m", *QUICK, code=code).stderr == message
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("place", [0, 1, 2, 5])
def test_debug_shows_the_traceback_wherever_it_stands(table, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    arguments = ["fit", "data.csv", "--target", "nope", "--out", "m"]
    arguments.insert(place, "--debug")
    result = run(*arguments)
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: The table has no column 'nope'")


def test_usage_errors_are_one_line(go):
    result = go("fti", code=2)
    assert re.fullmatch(r"Error: No such command 'fti'\.( Did you mean 'fit'\?)? See: root --help\n", result.stderr)
    result = go("predict", code=2)
    assert result.stderr.startswith("Error: Missing argument")
    assert result.stderr.endswith("See: root predict --help\n")
    assert result.stderr.count("\n") == 1
