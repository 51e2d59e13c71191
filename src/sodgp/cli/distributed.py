"""Many processes on the command line: `--distributed`, and who prints."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from sodgp.errors import ConfigurationError, SodgpWarning

__all__ = ["Distributed", "among_processes"]

Distributed = Annotated[
    bool, typer.Option("--distributed", help="Train one model in all processes that torchrun has started.")
]


@contextmanager
def among_processes(wanted: bool, device: str) -> Iterator[bool]:
    """A block in which the processes that torchrun has started are joined, if that is wanted.

    Yields whether this process is the first, or the only one: it alone shows progress and warnings, and writes.

    Raises
    ------
    ConfigurationError
        There are many, and it is not wanted: each would train the whole model and write it to the same place.
    """
    from sodgp.system.validation import resolve_device
    from sodgp.training.distributed.joining import COMMAND, process_group, started_with

    if not wanted:
        if started_with() > 1:
            raise ConfigurationError(
                f"WORLD_SIZE={started_with()} says that this is one of many processes, each of which would train the"
                f" whole model. With --distributed they train one together: {COMMAND}"
            )
        yield True
        return
    with process_group(resolve_device(device)) as rank, warnings.catch_warnings():
        if rank > 0:
            warnings.simplefilter("ignore", SodgpWarning)
        yield rank == 0
