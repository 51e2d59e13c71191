"""What programs say in a terminal: notes and errors on stderr, and a progress bar that several fits can share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sodgp.training.loop import TrainingState

Advance = Callable[[TrainingState], None]


def say(message: object) -> None:
    """One line on stderr."""
    print(message, file=sys.stderr, flush=True)


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """A warning as one line on stderr, without the place in the code: a replacement for `warnings.showwarning`."""
    say(f"Warning: {message}")


@contextmanager
def progress(total: int, label: str, *, shown: bool = True) -> Iterator[Callable[[str], Advance]]:
    """A progress bar on stderr over one fit or several.

    Parameters
    ----------
    total : int
        Iterations of all fits together.
    label : str
        In front of the bar until the first fit begins.
    shown : bool
        False shows nothing.

    Yields
    ------
    function (label) -> callback
        To be called once for each fit; the callback goes to `DeepGPRegressor(callbacks=[...])`.
    """
    # Imported here: a quiet run needs no rich.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[bound]}", markup=False),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not shown or not console.is_terminal) as bar:
        task = bar.add_task(label, total=total, bound="")
        done = 0

        def begin(name: str) -> Advance:
            nonlocal done
            offset, done = done, done
            bar.update(task, description=name, bound="")

            def advance(state: TrainingState) -> None:
                nonlocal done
                done = offset + state.iteration
                bar.update(task, completed=done, bound=f"bound {state.bound:.1f}")

            return advance

        yield begin
