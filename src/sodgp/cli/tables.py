"""Data files of the command line: checked on the way in, whole or not at all on the way out."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sodgp.cli.columns import Reading
from sodgp.errors import ConfigurationError, InputError
from sodgp.system.progress import say

if TYPE_CHECKING:
    import pandas as pd

    from sodgp.estimator.base import DeepGPEstimator
    from sodgp.system.validation import FloatArray

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET = (".parquet", ".pq")
# 1,5 and 1.234,5.
_DECIMAL_COMMA = r"\s*[+-]?[\d.]*,\d+\s*"
# 1,234 and 1,234,567.8, of which the first may also be 1.234.
_THOUSANDS = r"\s*[+-]?\d{1,3}(,\d{3})+(\.\d*)?\s*"


def training_data(
    path: Path, targets: list[str], drop: list[str] | None = None, reading: Reading | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Inputs and targets of a table as frames, as they are in the file; the columns of `drop` are in neither."""
    from sodgp.tables.files import split_target

    frame = (reading or Reading()).table(path)
    if drop:
        both = [repr(name) for name in targets if name in drop]
        if both:
            raise ConfigurationError(f"{', '.join(both)} cannot be the target and be dropped; choose one of the two.")
        frame, _ = split_target(frame, list(dict.fromkeys(drop)))
    return split_target(frame, targets)


def known_targets(
    model: DeepGPEstimator, path: Path, targets: list[str], reading: Reading | None = None, side: Sequence[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame, list[str], pd.DataFrame]:
    """Inputs of a model, targets to compare it with, their names, and the columns `side`.

    Without `targets` they are those that the model knows.
    """
    import pandas as pd

    from sodgp.cli.splits import side_columns
    from sodgp.estimator.describe import TASKS
    from sodgp.tables.files import split_target

    fitted = [str(name) for name in getattr(model, "target_names_", [])]
    names = targets or fitted
    if not names:
        raise ConfigurationError("the model does not know its target's name; say it with --target.")
    count = model.fitted_.columns.n_targets
    if len(names) != count:
        raise ConfigurationError(f"the model has {count} target{'s' * (count > 1)}; --target names {len(names)}.")
    inputs = [repr(name) for name in names if name in getattr(model, "feature_names_in_", ())]
    if inputs:
        s = "s" * (len(inputs) > 1)
        are = "are inputs" if s else "is an input"
        raise ConfigurationError(f"{', '.join(inputs)} {are} of the model; name the column{s} of its target{s}.")
    if set(fitted) == set(names):
        names = fitted  # the model's order counts, not that of the flags
    reading = (reading or Reading()).for_model(model)
    frame = reading.table(path)
    _, y = split_target(frame, names)
    beside = side_columns(frame, side)
    X = model_inputs(model, frame.drop(columns=names), path, quiet={*fitted, *side})
    # Under numbers, since they may be inputs, too.
    both = pd.concat([X, beside.set_axis(range(len(side)), axis=1)], axis=1)
    both, y = with_targets(both, y, path, reading, TASKS[model.likelihood_.targets])
    return both.iloc[:, : X.shape[1]], y, names, both.iloc[:, X.shape[1] :].set_axis(beside.columns, axis=1)


def weights_in(frame: pd.DataFrame, column: str | None, path: Path, reading: Reading) -> FloatArray | None:
    """The weights of rows in a column; None without one.

    Raises
    ------
    ConfigurationError
        There is no such column.
    InputError
        A cell of it is no number.
    """
    from sodgp.tables.frames import cells_of
    from sodgp.tables.targets import target_of

    if column is None:
        return None
    if column not in frame.columns:
        raise ConfigurationError(f"--weight {column!r} is no column of {path}.")
    (cells,) = cells_of(frame[[column]])
    try:
        return target_of(cells, reading.missing)
    except InputError as error:
        raise InputError(f"{path}: {str(error).replace('the target', 'the weight')}") from error


def refuse_input(model: DeepGPEstimator, weight: str | None) -> None:
    """ConfigurationError where the column of weights is an input or a target of the model."""
    if weight in (*getattr(model, "feature_names_in_", ()), *getattr(model, "target_names_", ())):
        raise ConfigurationError(f"--weight {weight!r} is the target, or an input of the model; name another column.")


def with_targets(
    X: pd.DataFrame, y: pd.DataFrame, path: Path, reading: Reading, task: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows that have every target, and these as numbers or labels; how many have none is said.

    Raises
    ------
    InputError
        No row has a target, or a target of numbers has cells that are none.
    ConfigurationError
        Labels are in several columns.
    """
    import numpy as np
    import pandas as pd

    from sodgp.tables.frames import cells_of
    from sodgp.tables.targets import labelled, target_of

    names = ", ".join(map(repr, y.columns))
    if task == "classification":
        if y.shape[1] > 1:
            raise ConfigurationError(f"a classification has one target, and --target names {y.shape[1]}.")
        known, found = labelled(cells_of(y)[0], reading.missing), y
    else:
        try:
            values = {each.name: target_of(each, reading.missing) for each in cells_of(y)}
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        numbers = np.stack(list(values.values()), axis=1)
        known, found = np.asarray(np.isfinite(numbers).all(axis=1)), pd.DataFrame(values)
    lost = int((~known).sum())
    if lost == len(known):
        raise InputError(f"{path}: no row has a target; every cell of {names} is missing.")
    if lost:
        say(f"Note: {path}: {lost:,} row{'s' * (lost > 1)} without a target {'are' if lost > 1 else 'is'} left out.")
    return X[known].reset_index(drop=True), found[known].reset_index(drop=True)


def model_inputs(
    estimator: DeepGPEstimator, frame: pd.DataFrame, path: Path, *, quiet: set[str] | None = None
) -> pd.DataFrame:
    """The columns of the fit in their order; others are named on stderr, except for `quiet` ones."""
    encoder = estimator.fitted_.columns.encoder
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        if frame.shape[1] != estimator.n_features_in_:
            raise InputError(
                f"{path} has {frame.shape[1]} columns, but the model takes {estimator.n_features_in_} inputs, which it"
                " knows by their order only. Keep those columns alone."
            )
        refuse_unusable(frame, path)
        return frame.set_axis(range(frame.shape[1]), axis=1)
    needed = list(names) if encoder is None else [column.name for column in encoder.used_]
    missing = [repr(name) for name in needed if name not in frame.columns]
    if missing:
        raise InputError(f"{path} lacks input columns of the model: {', '.join(missing)}. Add them, spelt like that.")
    targets = list(getattr(estimator, "target_names_", []))
    for column in frame.columns:
        if column not in names and column not in (quiet or ()):
            what = "the target" if column in targets else "no input of the model"
            say(f"Note: column {column!r} is {what}; ignored.")
    X = frame[[name for name in names if name in frame.columns]]
    if encoder is None:
        refuse_unusable(X, path)
    return X


def with_columns(
    estimator: DeepGPEstimator, frame: pd.DataFrame, found: pd.DataFrame, keep: list[str] | None, *, is_json: bool
) -> pd.DataFrame:
    """Predictions with columns of the table in front: those of `keep`, of the fit's --keep, or all."""
    import pandas as pd

    encoder = estimator.fitted_.columns.encoder
    of_fit = [name for name in (encoder.kept_ if encoder is not None else []) if name in frame.columns]
    names = of_fit or ([] if is_json else list(frame.columns)) if keep is None else keep
    names = [] if names == ["none"] else list(dict.fromkeys(names))
    lacking = [repr(name) for name in names if name not in frame.columns]
    if lacking:
        raise ConfigurationError(f"--keep names {', '.join(lacking)}, which the table has not.")
    twice = [repr(name) for name in names if name in found.columns]
    if twice:
        raise ConfigurationError(
            f"the table has columns with the names of predictions, {', '.join(twice)}; name others with --keep."
        )
    return pd.concat([frame[names].reset_index(drop=True), found], axis=1)


def as_json_columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Columns as lists that JSON can hold."""
    plain = frame.astype(object).where(frame.notna(), None).to_dict("list")
    return {
        name: [
            value if value is None or isinstance(value, bool | int | float | str) else str(value) for value in values
        ]
        for name, values in plain.items()
    }


def refuse_unusable(frame: pd.DataFrame, path: Path, advice: str = "Encode such columns as numbers.") -> None:
    """InputError that names cells which are no numbers, or columns and first row with missing or infinite values."""
    import numpy as np

    bad = {name: found for name in frame.columns if (found := no_numbers(frame[name])) is not None}
    if bad:
        raise InputError(f"{path}: {_complaint(frame, bad, advice)}")
    good = np.isfinite(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    if not good.all():
        names = ", ".join(repr(column) for column in frame.columns[~good.all(0)])
        row = int(np.flatnonzero(~good.all(1))[0]) + 1
        raise InputError(
            f"{path}: missing or infinite values in {names}, first in row {row} below the header. Fill them in, or drop"
            " such rows."
        )


def _complaint(frame: pd.DataFrame, bad: dict[str, pd.Series], advice: str) -> str:
    """What is wrong with some columns, given their cells that are no numbers, and what to do about it."""
    strays = [name for name, found in bad.items() if len(found) and 2 * len(found) < frame[name].count()]
    thousands = [name for name, found in bad.items() if most_match(found, _THOUSANDS)]
    commas = [name for name, found in bad.items() if name not in thousands and most_match(found, _DECIMAL_COMMA)]
    quoted = [name for name, found in bad.items() if not len(found)]
    text = [name for name in bad if name not in (*strays, *thousands, *commas, *quoted)]
    said, advices = [], [advice] if text else []
    if text:
        hold = "hold" if len(text) > 1 else "holds"
        said += [f"{', '.join(map(repr, text))} {hold} text instead of numbers, such as {_place(bad[text[0]])}"]
    if quoted:
        said += [f"{', '.join(map(repr, quoted))} {'hold' if len(quoted) > 1 else 'holds'} numbers stored as text"]
        advices += ["Store them as numbers."]
    others = [name for name in bad if name not in (*text, *quoted)]
    cells = [f"{name!r} holds {_place(bad[name])} instead of a number" for name in others]
    said += [*cells[:3], f"{len(cells) - 3} more columns likewise"] if len(cells) > 3 else cells
    if thousands:
        advices += ["Commas may stand for thousands or decimals: write plain numbers, 1234.5."]
    if commas:
        advices += ["It looks like a decimal comma: write numbers with a point, 1.5."]
    if strays and not (thousands or commas):
        advices += ["Correct such cells, or drop such rows."]
    return f"{'; '.join(said)}. {' '.join(advices)}"


def no_numbers(column: pd.Series) -> pd.Series | None:
    """The cells of a column that are no numbers and no gaps: none of numbers stored as text; None where all is well."""
    import pandas as pd

    if column.dtype.kind in "biuf" or pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        return None
    known = column.reset_index(drop=True).dropna()
    if not len(known):
        return None
    if column.dtype.kind in "mM":  # pandas would take dates as numbers
        return known
    return known[pd.to_numeric(known, errors="coerce").isna()]


def most_match(cells: pd.Series, pattern: str) -> bool:
    """Whether more than half of the cells match as text."""
    return bool(2 * cells.astype(str).str.fullmatch(pattern).sum() > len(cells))


def _place(cells: pd.Series) -> str:
    """The first of some cells and its row."""
    cell = str(cells.iloc[0])
    shown = repr(cell if len(cell) <= 30 else f"{cell[:29]}…")
    return f"{shown} in row {cells.index[0] + 1} below the header"


def levels(text: str) -> list[float]:
    """Probabilities from ``0.05,0.95``."""
    try:
        found = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        found = [math.nan]
    if not all(0 < level < 1 for level in found):
        raise ConfigurationError(
            f"--quantiles {text!r} must be numbers between 0 and 1 with commas, such as 0.05,0.95."
        )
    repeated = next((level for level in found if found.count(level) > 1), None)
    if repeated is not None:
        raise ConfigurationError(f"--quantiles {text!r} names {repeated} more than once.")
    return found


def table_suffix(path: Path) -> str:
    """The ending that says what kind of table to write."""
    for suffix in (*TEXT, *PARQUET):
        if path.name.lower().endswith(suffix):
            return suffix
    raise ConfigurationError(f"--out {path} must end in one of {', '.join((*TEXT, *PARQUET))}.")


def check_output(path: Path, *inputs: Path) -> None:
    """Refuse a folder, a file that the command reads, and a place where nothing can be written: before any work."""
    if path.is_dir() or (path.exists() and any(source.exists() and path.samefile(source) for source in inputs)):
        raise ConfigurationError(f"--out {path} is a folder or the input table itself; name another file.")
    above = next(parent for parent in path.resolve().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise InputError(f"--out {path} cannot be written: {above} is not a folder that you may write to.")


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame in the format of the path's ending, whole or not at all."""
    from sodgp.system.files import write_whole

    suffix = table_suffix(path)
    if suffix in PARQUET:
        write_whole(path, lambda scratch: frame.to_parquet(scratch, index=False))
        return
    packing = "gzip" if suffix.endswith(".gz") else None
    separator = "\t" if suffix.startswith(".tsv") else ","
    write_whole(path, lambda scratch: frame.to_csv(scratch, index=False, sep=separator, compression=packing))
