"""Flags about cross-validation: folds, groups of rows, the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sodgp.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    import pandas as pd

    from sodgp.system.validation import FloatArray

_PANEL = "Cross-validation"
Folds = Annotated[
    int | None,
    typer.Option(
        "--cv",
        min=2,
        help="Cross-validate on DATA, the training table, with so many fits; classes keep their shares in all folds.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        help="Column, such as a patient, whose rows must all be in one fold; it is no input.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Column by which rows are ordered: folds are trained on the past and judged by what comes next.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Jobs = Annotated[
    int, typer.Option(help="Processes for the fits of --cv; -1: one for each core.", rich_help_panel=_PANEL)
]
Seed = Annotated[int, typer.Option(min=0, help="Of folds, bootstrap and permutations.", rich_help_panel=_PANEL)]


@dataclass(frozen=True)
class Splitting:
    """How rows are split; `columns` are those that it needs."""

    cv: int | None
    group: str | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        if self.group is not None and self.time is not None:
            raise ConfigurationError("--group and --time do not go together; choose one of the two.")
        if self.cv is None and self.columns:
            raise ConfigurationError("--group and --time say how to split for --cv: give --cv 5, too.")

    @property
    def columns(self) -> list[str]:
        """Columns of the table that say how to split."""
        return [name for name in (self.group, self.time) if name is not None]

    def of(self, frame: pd.DataFrame) -> dict[str, Any]:
        """``cv`` and ``groups`` as `sodgp.evaluation.splits.folds_of` takes them; `frame` has `columns`."""
        if self.group is not None:
            return {"cv": self.cv, "groups": frame[self.group].to_numpy(dtype=object)}
        if self.time is not None:
            assert self.cv is not None
            return {"cv": in_time(moments(frame[self.time]), self.cv, self.time)}
        return {"cv": self.cv}


def side_columns(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """These columns of a table; ConfigurationError for one that it has not."""
    lacking = [repr(name) for name in names if name not in frame.columns]
    if lacking:
        raise ConfigurationError(f"the table has no column {', '.join(lacking)}; name one of its own.")
    return frame[list(names)]


def moments(column: pd.Series) -> FloatArray:
    """Numbers, or dates of any usual form as seconds; InputError for anything else."""
    import numpy as np

    from sodgp.tables.fitting import Rules, Unreadable, fit_column
    from sodgp.tables.frames import cells_of
    from sodgp.tables.words import MISSING

    (cells,) = cells_of(column.to_frame())
    found = None
    for kind in ("number", "date"):
        try:
            fitted = fit_column(cells, kind, Rules(MISSING, 2), is_first=False)
        except Unreadable:
            continue
        found = fitted.read(cells, MISSING)
        break
    if found is None or found.values.dtype.kind != "f":
        raise InputError(f"--time {column.name}: its cells are neither numbers nor dates of one form.")
    gaps = int(np.isnan(found.values).sum())
    if gaps:
        raise InputError(f"--time {column.name}: {gaps} cells are missing; fill them in, or drop such rows.")
    return np.asarray(found.values, dtype=np.float64)


def in_time(when: FloatArray, cv: int, name: str) -> Any:
    """Folds that train on the past: the rows in order are cut into one part more than folds."""
    import numpy as np
    from sklearn.model_selection import TimeSeriesSplit

    from sodgp.evaluation.splits import Folds as Made
    from sodgp.evaluation.splits import Split

    order = np.argsort(when, kind="stable")
    if len(order) < 2 * (cv + 1):
        raise ConfigurationError(f"--cv {cv} in order of time needs at least {2 * (cv + 1)} rows, not {len(order)}.")
    pairs = TimeSeriesSplit(cv).split(order)
    return Made([Split(order[train], order[test]) for train, test in pairs], f"{cv} folds in order of {name}")
