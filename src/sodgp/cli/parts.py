"""Predictions of a large table in parts: in constant memory, in many processes, and continued where they stopped."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sodgp.cli.columns import Reading
from sodgp.cli.predictions import predictions
from sodgp.cli.tables import PARQUET, model_inputs, table_suffix, with_columns, write_table
from sodgp.errors import InputError
from sodgp.system.files import alone_in, write_text_whole, write_whole
from sodgp.system.jobs import in_jobs
from sodgp.system.progress import say
from sodgp.system.version import VERSION
from sodgp.tables.pieces import PIECE_ROWS, Piece, dialect_of, pieces

if TYPE_CHECKING:
    from sodgp import DeepGPClassifier, DeepGPRegressor

_ROW = re.compile(r"\bin row (\d+)")
_COPIED_BYTES = 2**20


@dataclass(frozen=True)
class Shown:
    """What the result has beside the predictions: probabilities of quantiles, and columns of the table in front."""

    quantiles: Sequence[float] | None = None
    keep: list[str] | None = None
    is_json: bool = False


def predict_in_parts(
    estimator: DeepGPRegressor | DeepGPClassifier,
    model: Path,
    data: Path,
    out: Path,
    shown: Shown,
    jobs: int,
    reading: Reading,
    rows: int = PIECE_ROWS,
) -> tuple[int, list[str]]:
    """Predict a large table and write the predictions to `out`, whole or not at all; their number and their columns.

    Parts that are done are files in a folder beside `out`. Another call for the same model, table and columns takes
    them from there, whatever ended this one.

    Raises
    ------
    InputError
        A part of the table cannot be used, or another process is writing the same predictions.
    """
    folder = out.with_name(f".{out.name}.parts")
    task = _task(estimator, model, data, shown, reading, rows)
    with _Folder(folder, task):
        suffix = table_suffix(out)
        dialect = dialect_of(data, separator=reading.sign, decimal=reading.decimal, encoding=reading.encoding)
        if dialect is not None and dialect.said:
            say(f"Note: {data}: {dialect.said}.")
        done = {path for path in folder.iterdir() if path.name.startswith("part-")}
        if done:
            say(f"Continuing: {len(done):,} part{'s' * (len(done) > 1)} of {out} were predicted before.")
        parts: list[Path] = []
        count = 0

        def tasks() -> Iterator[tuple[Any, ...]]:
            nonlocal count
            for number, piece in enumerate(pieces(data, rows, dialect)):
                part = folder / f"part-{number:07d}{'.parquet' if suffix in PARQUET else suffix.removesuffix('.gz')}"
                parts.append(part)
                count = piece.stop
                if number == 0:
                    model_inputs(estimator, piece.read(), data)  # notes on columns, once
                if part not in done:
                    yield str(model.resolve()), estimator.n_threads, piece, part, shown

        for _ in in_jobs(_predict_part, tasks(), jobs, "predicted"):
            pass
        if not parts:
            raise InputError(f"{data} has column names but no rows.")
        columns = _join(parts, out, suffix)
        # A lock file cannot be removed everywhere.
        shutil.rmtree(folder, ignore_errors=True)
    return count, columns


def _predict_part(model: str, threads: int | str | None, piece: Piece, part: Path, shown: Shown) -> None:
    """Predict one piece of the table, and write the part of the predictions."""
    estimator = _model(model).set_params(n_threads=threads)
    frame = piece.read()
    try:
        X = model_inputs(estimator, frame, piece.path, quiet=set(frame.columns))
        found = predictions(estimator, X, None if shown.quantiles is None else list(shown.quantiles))
    except InputError as error:
        # Rows are counted from the beginning of the table.
        told = _ROW.sub(lambda found: f"in row {int(found[1]) + piece.start}", str(error))
        raise InputError(told) from error
    write_table(with_columns(estimator, frame, found, shown.keep, is_json=shown.is_json), part)


@lru_cache(maxsize=1)
def _model(path: str) -> DeepGPRegressor | DeepGPClassifier:
    """The model, which a process loads once."""
    from sodgp.estimator.files.records import load_any

    return load_any(path)


def _task(
    estimator: DeepGPRegressor | DeepGPClassifier, model: Path, data: Path, shown: Shown, reading: Reading, rows: int
) -> dict[str, object]:
    """What the parts depend on: they belong together only if all of it is the same."""
    file = model / "model.sodgp" if model.is_dir() else model
    state = data.stat()
    return {
        "model": hashlib.sha256(file.read_bytes()).hexdigest(),
        "table": [str(data.resolve()), state.st_size, state.st_mtime_ns],
        "shown": asdict(shown),
        "reading": asdict(reading),
        "rows": rows,
        "samples": estimator.n_predict_samples,
        "version": VERSION,
    }


class _Folder:
    """The folder of the parts of a task, for this process alone; parts of another task in it are removed."""

    def __init__(self, folder: Path, task: dict[str, object]) -> None:
        self._folder, self._text = folder, json.dumps(task, sort_keys=True)
        self._file = folder / "task.json"

    def __enter__(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = alone_in(self._folder)
        if self._lock.__enter__() is False:
            self._lock.__exit__(None, None, None)
            raise InputError(
                f"another process seems to be writing to {self._folder}; wait for it, or name another --out file."
            )
        if not self._file.exists() or self._file.read_text(encoding="utf-8") != self._text:
            for path in [*self._folder.glob("part-*"), *self._folder.glob(self._file.name)]:
                path.unlink()
            write_text_whole(self._file, self._text)

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(None, None, None)
        done = len(list(self._folder.glob("part-*"))) if self._folder.is_dir() else 0
        if error[0] is not None and done:
            say(f"Note: {done:,} parts are kept in {self._folder}; the same command continues after them.")


def _join(parts: Sequence[Path], out: Path, suffix: str) -> list[str]:
    """Write all parts to one table, in order; its columns."""
    if suffix in PARQUET:
        return _join_parquet(parts, out)

    def write(scratch: Path) -> None:
        with gzip.open(scratch, "wb") if suffix.endswith(".gz") else scratch.open("wb") as target:
            for number, part in enumerate(parts):
                with part.open("rb") as source:
                    header = source.readline()
                    while header.count(b'"') % 2:  # a name of several lines
                        header += source.readline()
                    target.write(header if number == 0 else b"")
                    shutil.copyfileobj(source, target, _COPIED_BYTES)

    write_whole(out, write)
    import pandas as pd

    return list(pd.read_csv(parts[0], sep="\t" if suffix.startswith(".tsv") else ",", nrows=0))


def _join_parquet(parts: Sequence[Path], out: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # A column of which a part has no cell has no type there.
    schema = pa.unify_schemas([pq.read_schema(part).remove_metadata() for part in parts], promote_options="permissive")

    def write(scratch: Path) -> None:
        with pq.ParquetWriter(scratch, schema) as writer:
            for part in parts:
                writer.write_table(pq.read_table(part).replace_schema_metadata().cast(schema))

    write_whole(out, write)
    return list(schema.names)
