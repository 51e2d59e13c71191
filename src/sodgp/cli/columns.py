"""Flags about tables: how a file is written, and what its columns are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sodgp.errors import ConfigurationError
from sodgp.system.progress import say

if TYPE_CHECKING:
    import pandas as pd

    from sodgp.estimator.base import DeepGPEstimator
    from sodgp.tables.encoder import TableEncoder

_PANEL = "Tables"
Weight = Annotated[
    str | None,
    typer.Option(
        help="Column that says how often each row counts; no input. [dim]\\[default: each once][/]", show_default=False
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(help="Between columns of a text file. [dim]\\[default: guessed][/]", rich_help_panel=_PANEL),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="Decimal sign of a text file: . or , [dim]\\[default: guessed][/]", rich_help_panel=_PANEL),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Of a text file, such as latin-1. [dim]\\[default: guessed][/]", rich_help_panel=_PANEL),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="NAME:KIND,...",
        help="What columns are: number, boolean, category, date, drop, keep, or an order of levels such as S<M<L.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        help="Texts or numbers, with commas, that stand for nothing, besides ?, -, NA, N/A, null and the like.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]

KeptInFit = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        help="Column that is no input, and that predictions carry along, such as an id; repeat it for several.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
KeptInFront = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        help="Column of DATA to put in front; repeat it for several, 'none' for none. [dim]\\[default: those of `fit"
        " --keep`, else all; with --json none][/]",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Reading:
    """How a file is written, where the user says so, and the model's marks of what is missing."""

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing: tuple[str, ...] = ()

    @property
    def sign(self) -> str | None:
        """The separator, where a tab may be named."""
        return "\t" if self.separator in ("tab", "\\t") else self.separator

    def for_model(self, model: DeepGPEstimator) -> Reading:
        """The same, with the marks that the model was fitted with."""
        encoder = model.fitted_.columns.encoder
        return self if encoder is None else replace(self, missing=(*self.missing, *encoder.missing))

    def table(self, path: Path) -> pd.DataFrame:
        """The table of a file; what was guessed about it is said on stderr."""
        from sodgp.tables.files import table_of

        frame, said = table_of(path, separator=self.sign, decimal=self.decimal, encoding=self.encoding)
        if said:
            say(f"Note: {path}: {said}.")
        return frame


def encoder_of(
    columns: Sequence[str] | Mapping[str, Any] | None, missing: str | Sequence[str] | None, keep: Sequence[str]
) -> TableEncoder:
    """The transformer that flags or a config file ask for.

    Raises
    ------
    ConfigurationError
        They cannot be understood.
    """
    from sodgp.tables.encoder import TableEncoder

    kinds: dict[str, Any] = dict(columns) if isinstance(columns, Mapping) else kinds_of(columns or [])
    kinds |= dict.fromkeys(keep, "keep")
    encoder = TableEncoder(kinds or None, marks_of(missing))
    encoder.check()
    return encoder


def kinds_of(texts: Sequence[str]) -> dict[str, str | tuple[str, ...]]:
    """What columns are, from ``price:drop,city:category,size:S<M<L``.

    Examples
    --------
    >>> kinds_of(["price:drop,when:date", "size:S<M<L"])
    {'price': 'drop', 'when': 'date', 'size': ('S', 'M', 'L')}
    """
    found: dict[str, str | tuple[str, ...]] = {}
    for part in (part.strip() for text in texts for part in text.split(",") if part.strip()):
        name, colon, kind = (piece.strip() for piece in part.rpartition(":"))
        if not colon or not name or not kind:
            raise ConfigurationError(f"--columns {part!r} must be NAME:KIND, such as price:drop or size:S<M<L.")
        if name in found:
            raise ConfigurationError(f"--columns says twice what {name!r} is.")
        found[name] = tuple(level.strip() for level in kind.split("<")) if "<" in kind else kind
    return found


def marks_of(missing: str | Sequence[str] | None) -> tuple[str, ...]:
    """Marks of missing values, from a text with commas or a list."""
    parts = missing.split(",") if isinstance(missing, str) else missing or ()
    return tuple(part.strip() for part in parts if part.strip())
