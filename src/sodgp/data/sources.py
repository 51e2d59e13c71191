"""Sources of rows that need not fit into memory: batches, as often as they are asked for."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sodgp.errors import ConfigurationError, InputError, InputTypeError

__all__ = ["BATCH_ROWS", "ArrayRows", "IteratorRows", "Source", "open_rows", "state_of_file"]

BATCH_ROWS = 65_536
"""Rows of a batch, where a source decides it."""

_PARQUET = (".parquet", ".pq")


@runtime_checkable
class Source(Protocol):
    """Rows in batches; `fit` takes one in the place of X and y.

    Attributes
    ----------
    name : str
        For messages.
    targets : tuple of str
        Columns of y, where batches are frames; empty where they are pairs.
    cache : Path or None
        Folder in which a fit keeps the rows as the model sees them, for the next fit; None keeps nothing.

    Examples
    --------
    >>> source = open_rows(np.zeros((4, 2)), np.ones(4))
    >>> [X.shape for X, y in source.batches()]
    [(4, 2)]
    """

    name: str
    targets: tuple[str, ...]
    cache: Path | None

    def batches(self) -> Iterator[Any]:
        """All rows in their order, from the first: frames with the columns of X and y, or pairs (X, y)."""

    def state(self) -> dict[str, Any] | None:
        """What the rows depend on, as JSON: a fit trusts its cache while this is the same. None: nobody knows."""


def open_rows(
    rows: Any,
    target: Any = None,
    *,
    drop: Iterable[str] = (),
    cache: str | os.PathLike[str] | None = None,
) -> Source:
    """A source of rows for ``model.fit(source)``, of which no more than a few batches are in memory at a time.

    Parameters
    ----------
    rows : path, pattern, list of paths, array, Arrow dataset or function
        Parquet files (``"data/*.parquet"``, a folder, a list); an ``.npy`` file or an array, best a memory-mapped one;
        a `pyarrow.dataset.Dataset`; or a function that returns a *fresh* iterator of frames or of pairs (X, y) whenever
        it is called, which is more than once.
    target : str, list of str, path or array
        The column, or columns, to predict; for arrays y, or its ``.npy`` file; for pairs nothing.
    drop : iterable of str
        Columns that are neither inputs nor targets.
    cache : path, optional
        Folder for the rows as the model sees them (scaled, shuffled): as large as the rows in float64, and used again
        by the next fit while the files have not changed. By default they are in a temporary folder that is removed when
        the fit is over.

    Raises
    ------
    InputError
        There is no such file, or the files have different columns.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> source = open_rows(X, np.sign(X[:, 0]))
    >>> from sodgp import DeepGPRegressor
    >>> DeepGPRegressor(n_layers=1, max_iter=5).fit(source).n_iter_
    5
    """
    folder = None if cache is None else Path(cache)
    dropped = (drop,) if isinstance(drop, str) else tuple(drop)
    if callable(rows):
        return IteratorRows(rows, targets_of(target), folder, dropped)
    if hasattr(rows, "get_fragments"):
        from sodgp.data.arrow import DatasetRows

        return DatasetRows(rows, targets_of(target), folder, dropped)
    if isinstance(rows, np.ndarray):
        return ArrayRows(rows, target, folder)
    paths = _paths(rows)
    if paths[0].suffix == ".npy":
        if len(paths) > 1:
            raise InputError("one .npy file at a time can be opened: join them, or give a function.")
        return ArrayRows(_loaded(paths[0]), target, folder)
    others = [str(path) for path in paths if not path.name.lower().endswith(_PARQUET)]
    if others:
        raise InputError(
            f"{', '.join(others[:3])}: open_rows reads .parquet, .pq and .npy files. For others give a function that"
            " returns an iterator of frames, or write them as Parquet."
        )
    from sodgp.data.arrow import ParquetRows

    return ParquetRows(paths, targets_of(target), folder, dropped)


class ArrayRows:
    """Rows of two arrays; see `open_rows`."""

    targets: tuple[str, ...] = ()

    def __init__(self, X: NDArray[Any], y: Any, cache: Path | None) -> None:
        if y is None:
            raise ConfigurationError("arrays need their targets: open_rows(X, y), or open_rows('X.npy', 'y.npy').")
        y = _loaded(Path(y)) if isinstance(y, str | os.PathLike) else np.asanyarray(y)
        if X.ndim != 2 or len(X) != len(y):
            raise InputError(
                f"X must have the shape [N, D] and y N rows; they have {list(X.shape)} and {list(y.shape)}."
            )
        self.X, self.y, self.cache = X, y, cache
        self.name = str(getattr(X, "filename", None) or "the array")

    def batches(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """As in `Source`."""
        for start in range(0, len(self.X), BATCH_ROWS):
            yield self.X[start : start + BATCH_ROWS], self.y[start : start + BATCH_ROWS]

    def state(self) -> dict[str, Any] | None:
        """The files of memory-mapped arrays; None for others."""
        names = [getattr(each, "filename", None) for each in (self.X, self.y)]
        if None in names:
            return None
        layout = [[list(each.shape), list(each.strides), str(each.dtype), _position(each)] for each in (self.X, self.y)]
        return {"files": [state_of_file(Path(cast(str, name))) for name in names], "layout": layout}


class IteratorRows:
    """Rows of a function that returns a fresh iterator; see `open_rows`. `known` is the `state`, if it has one."""

    name = "the iterator"

    def __init__(
        self,
        make: Callable[[], Iterable[Any]],
        targets: tuple[str, ...],
        cache: Path | None,
        drop: tuple[str, ...] = (),
        known: dict[str, Any] | None = None,
    ) -> None:
        if cache is not None and known is None:
            raise ConfigurationError(
                "cache= needs files whose changes can be seen, and this is a function; leave cache at None."
            )
        self.make, self.targets, self.cache, self.drop, self.known = make, targets, cache, drop, known

    def batches(self) -> Iterator[Any]:
        """As in `Source`."""
        for batch in self.make():
            is_pair = isinstance(batch, tuple)
            if is_pair == bool(self.targets) or (is_pair and len(batch) != 2):
                raise InputTypeError(
                    "an iterator of rows gives pairs (X, y), or frames with the columns of target=...; this one gave"
                    f" {f'{len(batch)} things' if is_pair else type(batch).__name__}"
                    f" {'with' if self.targets else 'without'} a target."
                )
            yield batch if is_pair or not self.drop else _without(batch, self.drop)

    def state(self) -> dict[str, Any] | None:
        """Of files that somebody knows; else None."""
        return self.known


def _position(array: Any) -> int:
    """Where in its file a memory-mapped array, perhaps a part of another one, begins."""
    return int(array.ctypes.data - np.frombuffer(array._mmap, dtype=np.uint8).ctypes.data + array.offset)


def targets_of(target: Any) -> tuple[str, ...]:
    """Names of targets; ConfigurationError for anything else."""
    names = () if target is None else (target,) if isinstance(target, str) else target
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(f"target must be the name of a column or a list of names, not {target!r:.60}.")
    return tuple(names)


def check_columns(name: str, there: Sequence[str], targets: Sequence[str], drop: Sequence[str]) -> list[str]:
    """The columns that are read, inputs first; InputError where some are missing, or none is an input."""
    if not targets:
        raise ConfigurationError(f"say which column of {name} is the target: open_rows(..., target='y').")
    lacking = [repr(column) for column in (*targets, *drop) if column not in there]
    if lacking:
        raise InputError(f"{name} lacks the columns {', '.join(lacking)}; it has {', '.join(map(repr, there[:20]))}.")
    twice = [repr(column) for column in targets if column in drop]
    if twice:
        raise ConfigurationError(f"{', '.join(twice)} cannot be the target and be dropped; choose one of the two.")
    inputs = [column for column in there if column not in targets and column not in drop]
    if not inputs:
        raise InputError(f"no column of {name} is left as an input: all are targets or were dropped.")
    return [*inputs, *targets]


def state_of_file(path: Path) -> list[Any]:
    """Path, size and time of the last change of a file."""
    try:
        found = path.stat()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    return [str(path.resolve()), found.st_size, found.st_mtime_ns]


def _paths(rows: Any) -> list[Path]:
    """The files that a path, a pattern, a folder or a list stands for, sorted where nobody has put them in order."""
    if isinstance(rows, str | os.PathLike):
        path = Path(rows)
        if path.is_dir():
            found = sorted(each for each in path.rglob("*") if each.name.lower().endswith(_PARQUET))
        else:
            found = [path] if path.exists() else sorted(map(Path, glob.glob(str(rows), recursive=True)))
        if not found:
            raise InputError(f"{rows}: there is no such file, nor one that fits this pattern.")
        return found
    if isinstance(rows, Sequence) and rows and all(isinstance(each, str | os.PathLike) for each in rows):
        missing = [str(each) for each in rows if not Path(each).is_file()]
        if missing:
            raise InputError(f"{', '.join(missing[:3])}: there is no such file.")
        return [Path(each) for each in rows]
    raise InputTypeError(
        f"open_rows takes paths, a memory-mapped array, an Arrow dataset or a function, not {type(rows).__name__};"
        " rows that are in memory go to fit(X, y)."
    )


def _loaded(path: Path) -> NDArray[Any]:
    try:
        return cast("NDArray[Any]", np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} cannot be read as an array: {error}") from error


def _without(frame: Any, names: Sequence[str]) -> Any:
    """A frame without these columns."""
    import narwhals.stable.v2 as nw

    return nw.from_native(frame, eager_only=True).drop(list(names)).to_native()
