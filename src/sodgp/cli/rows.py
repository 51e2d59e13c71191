"""The rows of ``sodgp fit``: read at once, or as a source where they would not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from sodgp.cli.columns import Reading
from sodgp.cli.tables import PARQUET, training_data, weights_in, with_targets
from sodgp.cli.tasks import task_of, told_task
from sodgp.errors import ConfigurationError, InputError
from sodgp.system.progress import say

if TYPE_CHECKING:
    from sodgp.data.sources import Source

_PANEL = "Many rows"
Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Read the rows from the disk, as steps need them; DATA may then be a folder or a pattern of Parquet files,"
        " in quotes. [dim]\\[default: where they need more than half of the free memory][/]",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        help="Folder that keeps the scaled and shuffled rows of --stream for the next fit. [dim]\\[default: a temporary"
        " one][/]",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]


def rows_of_fit(said: Mapping[str, Any], reading: Reading, likelihood: str | None) -> tuple[Any, Any, str, Any]:
    """X, y (None, where X is a source), task and weights, from what the command line and a config file say.

    Raises
    ------
    InputError
        The table cannot be used.
    ConfigurationError
        Options contradict each other.
    """
    path = Path(said["data"])
    if _streams(path, said):
        if said.get("weight"):
            raise ConfigurationError("--weight is for rows in memory, and these are read from the disk: leave it out.")
        source = _source(path, said, reading)
        told = told_task(likelihood, said.get("task"))
        return source, None, source.decide(told, likelihood), None
    column = said.get("weight")
    if column in [*said["target"], *(said.get("drop") or [])]:
        raise ConfigurationError(f"--weight {column!r} is also the target, or dropped; name a column of its own.")
    X, y = training_data(path, said["target"], said.get("drop"), reading)
    task = task_of(y, likelihood, said.get("task"))
    X, y = with_targets(X, y, path, reading, task)
    weight = weights_in(X, column, path, reading)
    X = X if column is None else X.drop(columns=column)
    return X, y.iloc[:, 0] if y.shape[1] == 1 else y, task, weight


def _streams(path: Path, said: Mapping[str, Any]) -> bool:
    """Whether rows are read from the disk: as somebody says, or where they are too many, which is reported."""
    from sodgp.system.memory import GB, available_memory
    from sodgp.tables.pieces import bytes_in_memory

    wanted = said.get("stream")
    if wanted is False and said.get("cache"):
        raise ConfigurationError("--cache keeps rows of --stream; leave out --no-stream, or the cache.")
    if wanted is not None or said.get("cache"):
        return bool(wanted or said.get("cache"))
    if not path.is_file():
        return path.is_dir()
    needed, there = bytes_in_memory(path), available_memory()
    if there is None or 2 * needed <= there:
        return False
    say(
        f"Note: {path} needs about {needed / GB:.1f} GB in memory, of which {there / GB:.1f} GB are free: its rows are"
        " read from the disk as they are needed (--stream; --no-stream reads them at once)."
    )
    return True


def _source(path: Path, said: Mapping[str, Any], reading: Reading) -> Labelled:
    from sodgp.data.sources import IteratorRows, open_rows, state_of_file
    from sodgp.tables.pieces import dialect_of, pieces

    targets, drop = list(said["target"]), list(dict.fromkeys(said.get("drop") or []))
    cache = Path(said["cache"]) if said.get("cache") else None
    if not path.is_file() or path.name.lower().endswith(PARQUET):
        return Labelled(open_rows(path, targets, drop=drop, cache=cache), reading)
    dialect = dialect_of(path, separator=reading.sign, decimal=reading.decimal, encoding=reading.encoding)
    if dialect is not None and dialect.said:
        say(f"Note: {path}: {dialect.said}.")
    known = {"files": [state_of_file(path)], "reading": asdict(reading), "drop": drop}
    rows = IteratorRows(
        lambda: (piece.read() for piece in pieces(path, dialect=dialect)), tuple(targets), cache, tuple(drop), known
    )
    rows.name = str(path)
    return Labelled(rows, reading)


class Labelled:
    """The rows of another source that have every target, these as numbers or labels; how many have none is said."""

    def __init__(self, rows: Source, reading: Reading) -> None:
        self.rows, self.reading = rows, reading
        self.name, self.targets, self.cache = rows.name, rows.targets, rows.cache
        self.task, self._told = "regression", False

    def decide(self, task: str | None, likelihood: str | None) -> str:
        """The task that was told, or what a random sample of the target looks like."""
        from sodgp.tables.rows import Sample, parted

        if task is None:
            sample = Sample(50_000)
            for batch in self.rows.batches():
                sample.add(parted(batch, self.targets)[1])
            frame = sample.frame()
            task = task_of(frame.to_pandas() if hasattr(frame, "to_pandas") else frame, likelihood, None)
        if task == "classification" and len(self.targets) > 1:
            raise ConfigurationError(f"a classification has one target, and --target names {len(self.targets)}.")
        self.task = task
        return task

    def batches(self) -> Iterator[Any]:
        """As in `sodgp.data.Source`."""
        import narwhals.stable.v2 as nw

        from sodgp.tables.frames import cells_of
        from sodgp.tables.targets import labelled, target_of

        lost = count = 0
        for batch in self.rows.batches():
            frame = nw.from_native(batch, eager_only=True)
            cells = cells_of(batch, self.targets)
            if self.task == "classification":
                known = labelled(cells[0], self.reading.missing)
            else:
                try:
                    values = [target_of(each, self.reading.missing) for each in cells]
                except InputError as error:
                    raise InputError(f"{self.name}, rows from {count:,} on: {error}") from error
                known = np.asarray(np.isfinite(np.stack(values)).all(axis=0))
                backend = nw.get_native_namespace(batch)
                named = zip(self.targets, values, strict=True)
                frame = frame.with_columns(*(nw.new_series(name, each, backend=backend) for name, each in named))
            lost, count = lost + int((~known).sum()), count + len(known)
            yield (frame if known.all() else frame.filter(known.tolist())).to_native()
        if count and lost == count:
            names = ", ".join(map(repr, self.targets))
            raise InputError(f"{self.name}: no row has a target; every cell of {names} is missing.")
        if lost and not self._told:
            self._told = True
            are = "s without a target are" if lost > 1 else " without a target is"
            say(f"Note: {self.name}: {lost:,} row{are} left out.")

    def state(self) -> dict[str, Any] | None:
        """As in `sodgp.data.Source`."""
        found = self.rows.state()
        return None if found is None else {**found, "task": self.task, "missing": list(self.reading.missing)}
