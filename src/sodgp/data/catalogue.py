"""The known benchmark sets: their columns, their checksums and their sources.

The checksum of a set is that of its canonical table (see `sodgp.data.canonical_csv`), which is the same for a file from
the user, for one made from a UCI archive, and for any level of gzip compression.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sodgp.data import convert
from sodgp.errors import ConfigurationError
from sodgp.system.validation import FloatArray

_UCI = "https://archive.ics.uci.edu/static/public"


@dataclass(frozen=True)
class Source:
    """An archive to download, and the function that reads it as a table [N, D + 1] with the target last.

    `packages` are the optional packages that the function imports.
    """

    url: str
    convert: Callable[[Path], FloatArray]
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """One set of the catalogue; the target is the last of its `columns`.

    `sha256_csv`, the checksum of the canonical table, is None if only shape and finiteness can be checked. A set that
    nobody offers for download has no `source`, and `no_source` says why.
    """

    name: str
    columns: tuple[str, ...]
    rows: int
    sha256_csv: str | None
    source: Source | None = None
    no_source: str = ""

    @property
    def files(self) -> tuple[str, ...]:
        """File names under which a folder may hold the set, the preferred one first."""
        if self.sha256_csv is None:
            return (convert.YEAR_MEMBER, "yearpredictionmsd.zip")
        return (f"{self.name}.csv.gz",)


def _columns(names: str) -> tuple[str, ...]:
    return tuple(names.split())


_HOUSING = ("crim", "zn", "indus", "chas", "nox", "rm", "age", "dis", "rad", "tax", "ptratio", "b", "lstat", "medv")
_TIMBRE = (*(f"timbre_avg_{i}" for i in range(1, 13)), *(f"timbre_cov_{i}" for i in range(1, 79)), "year")

_ENTRIES = (
    Entry(
        "boston",
        _HOUSING,
        506,
        "24ec814c9b6c5bb1cae0f6d203636413195ade13a34b62920787599f63eefd7e",
        no_source="UCI has withdrawn it (one column is derived from race)",
    ),
    Entry(
        "boston_authors",
        _HOUSING,
        506,
        "6eaf5ac2d5b92c095549e63b43394e7524f4b1cd3fa908a25be5e237ff5a7885",
        no_source="it is made out of boston.csv.gz, and UCI has withdrawn that set",
    ),
    Entry(
        "concrete",
        _columns(
            "cement blast_furnace_slag fly_ash water superplasticizer coarse_aggregate fine_aggregate age "
            "compressive_strength"
        ),
        1030,
        "eb2a1f2a871cd01cbca7a96df487416fb6a1c3598bbda61687923e2207a9bc1b",
        Source(f"{_UCI}/165/concrete+compressive+strength.zip", convert.concrete, ("pandas", "xlrd")),
    ),
    Entry(
        "energy",
        _columns(
            "relative_compactness surface_area wall_area roof_area overall_height orientation glazing_area "
            "glazing_area_distribution heating_load"
        ),
        768,
        "15bcfc654b7c5067945efd970686188be630281161a62743eb986ff86ff998e8",
        Source(f"{_UCI}/242/energy+efficiency.zip", convert.energy, ("pandas", "openpyxl")),
    ),
    Entry(
        "winered",
        _columns(
            "fixed_acidity volatile_acidity citric_acid residual_sugar chlorides free_sulfur_dioxide "
            "total_sulfur_dioxide density ph sulphates alcohol quality"
        ),
        1599,
        "76bb397799995e9bdf3eafaefc25fbf74b0fbc3d278059eacd0daf6d440555f8",
        Source(f"{_UCI}/186/wine+quality.zip", convert.wine),
    ),
    Entry(
        "protein",
        (*(f"f{i}" for i in range(1, 10)), "rmsd"),
        45730,
        "f5189c59ec7075c9b83f43a7ff510dae8bdf92d5bf00397a5f95b95047841638",
        Source(f"{_UCI}/265/physicochemical+properties+of+protein+tertiary+structure.zip", convert.protein),
    ),
    Entry(
        "naval",
        ("lp", "v", "gtt", "gtn", "ggn", "ts", "tp", "t48", "t1", "t2", "p48", "p1", "p2", "pexh", "tic", "mf", "kmc"),
        11934,
        "a9a25fb938869868bb3155269f64e616b6eefe59e97d52b1921c112e35fcf4d0",
        Source(f"{_UCI}/316/condition+based+maintenance+of+naval+propulsion+plants.zip", convert.naval),
    ),
    Entry("year", _TIMBRE, 515_345, None, Source(f"{_UCI}/203/yearpredictionmsd.zip", convert.year)),
    Entry(
        "year_subset7000",
        _TIMBRE,
        7000,
        "7e55e9bd6b136b1408015dcedd3209274bb6d853fd15bd65f60c34ecf41de679",
        no_source="nobody publishes this subset as a file of its own",
    ),
)

CATALOGUE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def names() -> tuple[str, ...]:
    """Names that `sodgp.data.load` accepts.

    Examples
    --------
    >>> from sodgp.data import names
    >>> names()[:3]
    ('boston', 'boston_authors', 'concrete')
    """
    return tuple(CATALOGUE)


def find(name: str) -> Entry:
    """The set of that name; ConfigurationError if there is none."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    near = difflib.get_close_matches(str(name), CATALOGUE, n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigurationError(f"Unknown data set {name!r}.{guess} Known sets: {', '.join(CATALOGUE)}.")
