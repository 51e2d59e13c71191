"""Config files: TOML whose keys are the options of the estimator, and those of ``sodgp fit`` itself."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from sodgp.cli.options import INTEGER, NO_FLAG, NUMBER, OPTIONS, TASKS, TEXT
from sodgp.errors import ConfigurationError

T = TypeVar("T")

_COLUMNS: Final = (
    "a column name or a list of them",
    lambda value: isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value)),
)
# Keys of the command: name -> (words, check).
_COMMAND: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "data": ("a path", lambda value: isinstance(value, str)),
    "out": ("a path", lambda value: isinstance(value, str)),
    "target": _COLUMNS,
    "drop": _COLUMNS,
    "keep": _COLUMNS,
    "weight": ("a column name", lambda value: isinstance(value, str)),
    "columns": (
        "a table of names and kinds",
        lambda value: isinstance(value, dict) and all(_COLUMNS[1](kind) for kind in value.values()),
    ),
    "missing": ("a text or a list of them", _COLUMNS[1]),
    "separator": ("text", lambda value: isinstance(value, str)),
    "decimal": ("text", lambda value: isinstance(value, str)),
    "encoding": ("text", lambda value: isinstance(value, str)),
    "task": ("regression, classification or counts", lambda value: value in TASKS),
    "stream": ("true or false", lambda value: isinstance(value, bool)),
    "cache": ("a path", lambda value: isinstance(value, str)),
    "patience": ("an integer", lambda value: INTEGER.accepts(value) and value > 0),
    "verbose": ("true or false", lambda value: isinstance(value, bool)),
}
# Flags that belong to one call of the command, and what a file says instead.
_FLAGS: Final = {
    "quiet": "write verbose = false",
    "no_stream": "write stream = false",
    "resume": "give it on the command line",
    "json": "give it on the command line",
}
# Arguments of the estimator that may be objects: tables in the file.
_TABLES: Final = ("initialization", "subset", "subset_size")


@dataclasses.dataclass(frozen=True)
class FitConfig:
    """What a config file says: options of the estimator, and keys of the command with paths from the file's folder."""

    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    command: dict[str, Any] = dataclasses.field(default_factory=dict)


def read_config(path: Path) -> FitConfig:
    """Read and check a config file.

    Raises
    ------
    ConfigurationError
        The file is missing or not TOML, a key is unknown (the nearest known one is named), or a value has the wrong
        type.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(f"the config file {path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not a TOML file: {error}.") from error
    options: dict[str, Any] = {}
    command: dict[str, Any] = {}
    for key, value in content.items():
        if key in _COMMAND:
            words, accepts = _COMMAND[key]
            if not accepts(value):
                raise ConfigurationError(f"{path}: {key} must be {words}, not {value!r}.")
            command[key] = value
        elif isinstance(value, dict) and key in _TABLES:
            options[key] = _object(path, key, value)
        elif key in OPTIONS:
            kind = OPTIONS[key].kind
            if not kind.accepts(value):
                raise ConfigurationError(f"{path}: {key} must be {kind.words}, not {value!r}.")
            options[key] = value
        elif key == "initialization":
            raise ConfigurationError(f"{path}: initialization must be a table, [initialization], not {value!r}.")
        elif key in _FLAGS:
            raise ConfigurationError(f"{path}: {key} is no key of a file; {_FLAGS[key]}.")
        elif key in NO_FLAG:
            raise ConfigurationError(f"{path}: {key} cannot be given in a file ({NO_FLAG[key]}); remove it.")
        else:
            raise ConfigurationError(f"{path}: {_unknown(key, [*OPTIONS, *_COMMAND, *_TABLES])}")
    for values, key in ((command, "data"), (command, "out"), (command, "cache"), (options, "checkpoint")):
        if values.get(key) is not None:
            # Path() drops the slash at the end, which says that a model is to be a folder.
            slash = "/" if values[key].endswith("/") else ""
            values[key] = f"{path.parent / values[key]}{slash}"
    for key in ("target", "drop", "keep"):
        if isinstance(command.get(key), str):
            command[key] = [command[key]]
    return FitConfig(options, command)


def _unknown(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key.replace("-", "_"), known, n=1, cutoff=0.5)
    guess = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(sorted(set(known)))}."
    return f"unknown key {key!r}; {guess}"


def _object(path: Path, key: str, values: dict[str, Any]) -> Any:
    """An object of the estimator from a table."""
    from sodgp.model.architecture import Initialization
    from sodgp.selectors import SELECTORS
    from sodgp.selectors.auto import Auto

    if key != "subset":
        return _made(path, key, Initialization if key == "initialization" else Auto, values)
    rest = dict(values)
    name = rest.pop("name", None)
    if not isinstance(name, str) or name not in SELECTORS:
        raise ConfigurationError(f"{path}: [subset] needs a name, one of {', '.join(SELECTORS)}.")
    return _made(path, key, SELECTORS[name], rest)


def _made(path: Path, key: str, cls: type[T], values: dict[str, Any]) -> T:
    """An object of a dataclass from a table: names and types are checked here, ranges by the class or the estimator."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}
    arguments = {}
    for name, value in values.items():
        if name not in defaults:
            raise ConfigurationError(f"{path}: in [{key}], {_unknown(name, list(defaults))}")
        default = defaults[name]
        kind = TEXT if isinstance(default, str) else INTEGER if isinstance(default, int) else NUMBER
        if not kind.accepts(value):
            raise ConfigurationError(f"{path}: in [{key}], {name} must be {kind.words}, not {value!r}.")
        arguments[name] = float(value) if kind is NUMBER else value
    return cls(**arguments)
