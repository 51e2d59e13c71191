"""Cells: one JSON file for each (data set, method, depth, split), written whole or not at all."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sodgp.errors import ConfigurationError, InputError
from sodgp.system.files import write_text_whole

FORMAT = "sodgp-bench-cell"
FORMAT_VERSION = 1

_SHALLOW = {"SVGP": "SVGP", "exact": "exact GP", "ngboost": "NGBoost"}


@dataclass(frozen=True, order=True)
class Key:
    """Which cell.

    Parameters
    ----------
    data, method : str
    layers : int
        GP layers; 1 for methods without depth.
    split : int

    Examples
    --------
    >>> Key("energy", "SoD*", 2, 0).file
    'energy/SoD-star-2-split0.json'
    """

    data: str
    method: str
    layers: int
    split: int

    @property
    def file(self) -> str:
        """Path of the cell's file inside the results folder."""
        return f"{self.data}/{self.method.replace('*', '-star')}-{self.layers}-split{self.split}.json"

    @property
    def group(self) -> tuple[str, str, int]:
        """What the splits of one number in a table have in common."""
        return self.data, self.method, self.layers

    def __str__(self) -> str:
        return f"{self.data} {row_label(self.method, self.layers)} split {self.split}"


def row_label(method: str, layers: int) -> str:
    """Name of a table row, as the paper writes it.

    Examples
    --------
    >>> row_label("SoD", 2), row_label("exact", 1)
    ('SoD-DGP2', 'exact GP')
    """
    if method in _SHALLOW:
        return _SHALLOW[method]
    return f"{'GPyTorch' if method == 'gpytorch' else method}-DGP{layers}"


@dataclass(frozen=True)
class Cell:
    """A finished cell.

    Parameters
    ----------
    key : Key
    settings : dict
        Everything that decides the numbers but the seed; cells of one group have equal ones.
    seed : int
    results : dict of str to number
        Scores on the test part, seconds, memory, parameters.
    history : dict of str to list
        Curves; ``iteration`` and what was recorded there.
    origin : dict
        Library version, commit, machine, date.
    """

    key: Key
    settings: dict[str, Any]
    seed: int
    results: dict[str, Any]
    history: dict[str, Any]
    origin: dict[str, Any]

    def write(self, folder: Path) -> None:
        """Write the cell's file, whole or not at all."""
        info = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            **vars(self.key),
            "seed": self.seed,
            "settings": self.settings,
            "results": self.results,
            "origin": self.origin,
        }
        body = json.dumps(info, indent=1, allow_nan=False).removesuffix("\n}")
        # Each curve in one line: hundreds of numbers, which nobody reads one by one.
        curves = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in self.history.items())
        text = f'{body},\n "history": {{\n{curves}\n }}\n}}\n'
        try:
            write_text_whole(folder / self.key.file, text)
        except OSError as error:
            raise InputError(
                f"the cell {self.key.file} could not be written to {folder} ({error.strerror or error}). Make room, and"
                " give the same command again."
            ) from error


def read_cell(path: Path, folder: Path) -> Cell:
    """Read one cell of a results folder.

    Raises
    ------
    InputError
        The file is damaged, no cell, or under another cell's name.
    """
    try:
        info = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
        if info["format"] != FORMAT or info["version"] != FORMAT_VERSION:
            raise ValueError(f"its format is {info['format']!r}, version {info['version']!r}")
        key = Key(info["data"], info["method"], info["layers"], info["split"])
        if path.relative_to(folder).as_posix() != key.file:
            raise ValueError(f"it holds the cell of {key.file}")
        for part, is_right in _PARTS.items():
            if not (isinstance(info[part], dict) and is_right(info[part])):
                raise ValueError(f"its {part} is not what it should be")
        if not all(type(number) is int for number in (key.layers, key.split)):
            raise ValueError("its layers and split are no whole numbers")
        return Cell(key, info["settings"], info["seed"], info["results"], info["history"], info["origin"])
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise InputError(f"{path} is no benchmark cell: {error}. Remove it, and the cell is run again.") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _is_number(value: Any) -> bool:
    """Null is what a score is that is not finite; a whole number may be too large for the arithmetic of a table."""
    if value is None or isinstance(value, bool):
        return value is None
    return isinstance(value, int | float) and math.isfinite(float(value))


def _are_settings(settings: dict[str, Any]) -> bool:
    options = settings["options"]
    names = (settings["protocol"], settings["source"])
    return isinstance(options, dict) and _is_number(options.get("max_iter")) and all(isinstance(n, str) for n in names)


def _are_results(results: dict[str, Any]) -> bool:
    return all(_is_number(results[name]) for name in _SCORES) and _is_number(results.get("iterations"))


def _are_curves(history: dict[str, Any]) -> bool:
    if not history:
        return True
    lists = list(history.values())
    are_lists = all(isinstance(curve, list) and all(map(_is_number, curve)) for curve in lists)
    are_whole = all(type(iteration) is int for iteration in history["iteration"])
    return are_lists and are_whole and len({len(curve) for curve in lists}) == 1 and history.keys() >= set(_CURVES)


_SCORES = ("nlpp", "rmse", "crps")
_CURVES = ("iteration", "bound", "test_nlpp", "test_rmse")
_PARTS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "settings": _are_settings,
    "results": _are_results,
    "history": _are_curves,
    "origin": lambda origin: True,
}


def read_cells(folder: Path, but: Collection[Key] = ()) -> list[Cell]:
    """All cells of a results folder but those that are known, sorted; none where it does not exist.

    Raises
    ------
    InputError
        One of the files is damaged.
    """
    known = {folder / key.file for key in but}
    paths = (path for path in folder.glob("*/*-split*.json") if path not in known)
    return sorted((read_cell(path, folder) for path in paths), key=lambda cell: cell.key)


def need_cells(folder: Path) -> list[Cell]:
    """As `read_cells`, for tables and figures: at least one cell, and nothing that a mean would mix.

    Raises
    ------
    InputError
        As `read_cells`, or there are no cells, or two protocols, or splits of one group with different settings, as
        after copying two folders into one.
    """
    cells = read_cells(folder)
    if not cells:
        raise InputError(
            f"{folder} holds no benchmark cells; run `python -m benchmarks.paper --data ... --out {folder}` first."
        )
    firsts: dict[tuple[str, str, int], Cell] = {}
    for cell in cells:
        mate = firsts.setdefault(cell.key.group, cell)
        # Cells of different age know different options.
        both = cell.settings["options"].keys() & mate.settings["options"].keys()
        for other, names in ((cells[0], ()), (mate, both)):
            different = differences(_compared(cell, names), _compared(other, names))
            if different:
                raise InputError(
                    f"{folder} mixes settings: {cell.key.file} has {'; '.join(different)} as in {other.key.file}. Keep"
                    " them in folders of their own."
                )
    return cells


def _compared(cell: Cell, options: Iterable[str] = ()) -> dict[str, Any]:
    """The protocol of a cell, and some of its options."""
    protocol = {name: cell.settings.get(name) for name in ("protocol", "source")}
    return {**protocol, "options": {name: cell.settings["options"][name] for name in options}}


def refuse_to_mix(cells: Iterable[Cell], wanted: Mapping[tuple[str, str, int], Mapping[str, Any]]) -> None:
    """Check that a run may add to the cells of a folder.

    A folder holds one protocol, and the splits of one (data set, method, depth), which a table averages, hold equal
    settings.

    Parameters
    ----------
    cells : iterable of Cell
        What the folder holds.
    wanted : dict of group to settings
        What the run would add.

    Raises
    ------
    ConfigurationError
        Naming the cell and every difference.
    """
    protocols = [{name: settings[name] for name in ("protocol", "source")} for settings in wanted.values()]
    for cell in cells:
        settings = wanted.get(cell.key.group)
        here = cell.settings if settings else {name: cell.settings.get(name) for name in ("protocol", "source")}
        for other in [settings] if settings else protocols[:1]:
            different = differences(here, other)
            if different:
                raise ConfigurationError(
                    f"this run would mix settings: the cell {cell.key.file} has {'; '.join(different)}. Ask for the"
                    " cell's settings, or give another --out."
                )


def differences(here: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> list[str]:
    """What differs between two dictionaries of settings, as text.

    Examples
    --------
    >>> differences({"a": {"b": 1}}, {"a": {"b": 2}})
    ['a.b = 1, not 2']
    """
    found: list[str] = []
    for name in sorted({*here, *wanted}):
        old, new = here.get(name), wanted.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{prefix}{name}.")
        elif old != new:
            found.append(f"{prefix}{name} = {old!r}, not {new!r}")
    return found
