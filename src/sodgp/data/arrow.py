"""Sources of Arrow: Parquet files, and datasets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sodgp.data.convert import require
from sodgp.data.sources import BATCH_ROWS, check_columns, state_of_file
from sodgp.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

# Numbers of rows, which pandas stores as a column.
_INDEX = re.compile(r"__index_level_\d+__")


class ParquetRows:
    """Rows of Parquet files, one file after the other; see `sodgp.data.open_rows`.

    Files are read row group by row group: memory does not grow, which it does in `pyarrow.dataset`.
    """

    def __init__(
        self, paths: Sequence[Path], targets: tuple[str, ...], cache: Path | None, drop: Sequence[str]
    ) -> None:
        require(("pyarrow",), f"Reading {paths[0].name}")
        self.paths, self.targets, self.cache = list(paths), targets, cache
        self.name = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more files"
        self.rows: list[int] = []
        self.schema = self._schema(self.paths[0])
        for path in self.paths[1:]:
            _check_same(self.paths[0], self.schema, path, self._schema(path))
        there = [name for name in self.schema.names if not _INDEX.fullmatch(name)]
        self.columns = check_columns(self.name, there, targets, drop)

    def _schema(self, path: Path) -> pa.Schema:
        import pyarrow.parquet as pq

        with _explained(path):
            found = pq.read_metadata(path)
            self.rows.append(found.num_rows)
            return found.schema.to_arrow_schema()

    def batches(self) -> Iterator[pa.Table]:
        """As in `sodgp.data.Source`; InputError where a file has changed since it was opened."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for path, rows in zip(self.paths, self.rows, strict=True):
            before, count = state_of_file(path), 0
            with _explained(path), pq.ParquetFile(path, memory_map=True) as file:
                for batch in file.iter_batches(BATCH_ROWS, columns=self.columns, use_threads=False):
                    count += len(batch)
                    yield pa.Table.from_batches([batch]).select(self.columns)
            if state_of_file(path) != before or count != rows:
                raise InputError(f"{path} was changed while it was read: it had {rows:,} rows, and gave {count:,}.")

    def state(self) -> dict[str, Any]:
        """Paths, sizes and times of the files, and the columns."""
        types = [f"{name}: {self.schema.field(name).type}" for name in self.columns]
        return {"files": [state_of_file(path) for path in self.paths], "columns": types}


class DatasetRows:
    """Rows of an Arrow dataset, one fragment after the other; see `sodgp.data.open_rows`."""

    name = "the dataset"

    def __init__(self, dataset: Any, targets: tuple[str, ...], cache: Path | None, drop: Sequence[str]) -> None:
        self.dataset, self.targets, self.cache = dataset, targets, cache
        there = [name for name in dataset.schema.names if not _INDEX.fullmatch(name)]
        self.columns = check_columns(self.name, there, targets, drop)

    def batches(self) -> Iterator[pa.Table]:
        """As in `sodgp.data.Source`."""
        import pyarrow as pa

        options = {"columns": self.columns, "batch_size": BATCH_ROWS, "use_threads": False}
        for part in self._parts():
            with _explained("the dataset"):
                schema = {} if part is self.dataset else {"schema": self.dataset.schema}
                for batch in part.to_batches(**schema, **options, batch_readahead=1, fragment_readahead=1):
                    if len(batch):
                        yield pa.Table.from_batches([batch])

    def _parts(self) -> Iterator[Any]:
        """Row groups, so that Arrow does not keep what was read; the whole of a dataset that is filtered."""
        try:
            fragments = list(self.dataset.get_fragments())
        except ValueError:
            yield self.dataset
            return
        for fragment in fragments:
            yield from fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]

    def state(self) -> dict[str, Any] | None:
        """Paths, sizes and times of local files; None where some are not, or rows are filtered."""
        try:
            paths = [fragment.path for fragment in self.dataset.get_fragments()]
        except (ValueError, AttributeError):
            return None
        if not paths or not all(Path(path).is_file() for path in paths):
            return None
        types = [f"{name}: {self.dataset.schema.field(name).type}" for name in self.columns]
        return {"files": [state_of_file(Path(path)) for path in paths], "columns": types}


def _check_same(first: Path, wanted: pa.Schema, path: Path, found: pa.Schema) -> None:
    """InputError unless a file has the columns of the first one, as numbers where they were numbers."""
    lacking = [repr(name) for name in wanted.names if name not in found.names]
    more = [repr(name) for name in found.names if name not in wanted.names]
    other = [
        f"{name!r} is {found.field(name).type} and not {wanted.field(name).type}"
        for name in wanted.names
        if name in found.names and _kind(found.field(name).type) != _kind(wanted.field(name).type)
    ]
    said = [f"it lacks {', '.join(lacking)}"] if lacking else []
    said += [f"it has {', '.join(more)} too"] if more else []
    if said or other:
        raise InputError(
            f"{path} has other columns than {first}: {'; '.join([*said, *other])}. Read such files one by one, or make"
            " them equal."
        )


def _kind(kind: pa.DataType) -> str:
    """A type as far as rows of several files must agree."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "number" if is_number or pa.types.is_null(kind) else str(kind).removeprefix("large_")


@contextmanager
def _explained(path: Path | str) -> Iterator[None]:
    """Errors of Arrow as ours."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {str(error).strip()}") from error
