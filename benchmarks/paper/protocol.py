"""What to run: protocols, methods, and the settings that each of them stands for."""

from __future__ import annotations

import difflib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.paper.cells import Cell, Key
from benchmarks.records import NOT_SETTINGS, options_of
from sodgp.data import DataSet, paper_split
from sodgp.errors import ConfigurationError

PROTOCOLS = ("paper", "default")
PAPER_METHODS = ("SoD", "SoD*", "DSVI", "DSVI*", "SGHMC", "SVGP")
PEERS = ("exact", "gpytorch", "ngboost")
METHODS = (*PAPER_METHODS, "default", *PEERS)
# One layer, whatever was asked for.
WITHOUT_DEPTH = ("SVGP", "exact", "ngboost")
EXACT_ROWS = 2000
OWN_DEPTH = 3

# The paper's methods with our own defaults in place of the paper's settings.
_BY_DEFAULT: dict[str, dict[str, Any]] = {
    "SoD": {},
    "SoD*": {"subset": "random"},
    "DSVI": {"inference": "dsvi"},
    "DSVI*": {"inference": "dsvi", "inference__learn_inducing_inputs": False},
    "SGHMC": {"inference": "sghmc"},
    "SVGP": {"inference": "dsvi"},
    "default": {},
}

# The default of what an option did before it was there, where that is not the option's default: old cells lack it.
_BEFORE = {"predictive_weight": 0.0, "separate_kernels": False, "outlier_probability": 0.0}

# GPyTorch's tutorial; it trains for 10 epochs, which is far too little on small sets.
_GPYTORCH: dict[str, Any] = {
    "subset_size": 128,
    "n_samples": 10,
    "n_predict_samples": 50,
    "max_iter": 2000,
    "batch_size": 1024,
    "learning_rate": 0.01,
}


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    Parameters
    ----------
    protocol : {"paper", "default"}
        ``"paper"`` takes the paper's settings (20,000 iterations, M = 50 or 100, ...), ``"default"`` ours. Both use
        the paper's splits, scale by the training part and score in original units. The method ``"default"`` has our
        defaults in both.
    data, methods : sequence of str
    layers : sequence of int or None
        None is 2, as most of the paper's table, and our own depth for the method ``"default"``.
    splits : sequence of int
    source : {"program", "text"}
        For SoD in the protocol ``"paper"``: see `sodgp.estimator.presets.paper`.
    iterations : int or None
        In place of the protocol's.
    """

    protocol: str
    data: Sequence[str]
    methods: Sequence[str]
    layers: Sequence[int] | None = None
    splits: Sequence[int] = (0, 1, 2, 3, 4)
    source: str = "program"
    iterations: int | None = None

    def __post_init__(self) -> None:
        _choose("protocol", self.protocol, PROTOCOLS)
        _choose("source", self.source, ("program", "text"))
        for method in self.methods:
            _choose("method", method, METHODS)
        if self.protocol == "default" and self.source != "program":
            raise ConfigurationError("--source is of the paper's SoD, and does nothing in the protocol 'default'.")
        if not (self.data and self.methods and self.splits) or (self.layers is not None and not self.layers):
            raise ConfigurationError("a benchmark needs at least one data set, method, depth and split.")
        if min(self.layers or [1]) < 1 or min(self.splits) < 0 or (self.iterations or 1) < 1:
            raise ConfigurationError("layers and iterations are at least 1, splits at least 0.")

    def keys(self) -> list[Key]:
        """The cells: data sets outside, then methods and depths; methods without depth once."""
        wanted = (
            Key(data, method, 1 if method in WITHOUT_DEPTH else layers, split)
            for data in self.data
            for method in self.methods
            for layers in self.layers or (OWN_DEPTH if method == "default" else 2,)
            for split in self.splits
        )
        return list(dict.fromkeys(wanted))

    def settings(self, key: Key) -> dict[str, Any]:
        """Everything that decides the cell's numbers but the seed, as it stands in the file."""
        options = self._peer_options(key) if key.method in PEERS else options_of(self.estimator(key))
        settings = {"protocol": self.protocol, "source": self.source, "method": key.method, "options": options}
        return json.loads(json.dumps(settings))

    def completed(self, cell: Cell) -> Cell:
        """A cell as today's program would write it: an option that is younger than the cell did what it does unset."""
        if cell.key.method in PEERS:
            return cell
        from sodgp import DeepGPRegressor

        known = {name: value for name, value in cell.settings["options"].items() if name not in NOT_SETTINGS}
        options = {**options_of(DeepGPRegressor()), **_BEFORE, **known}
        return replace(cell, settings={**cell.settings, "options": options})

    def estimator(self, key: Key, **changes: Any) -> Any:
        """The unfitted estimator of a cell of ours, with the split's number as its seed."""
        # Imported here: planning a table needs no PyTorch.
        from sodgp import DeepGPRegressor
        from sodgp.estimator.presets import paper

        if self.iterations is not None:
            changes["max_iter"] = self.iterations
        changes["random_state"] = key.split
        if self.protocol == "paper" and key.method != "default":
            return paper(key.layers, key.method, self.source, **changes)
        return DeepGPRegressor(n_layers=key.layers).set_params(**{**_BY_DEFAULT[key.method], **changes})

    def _peer_options(self, key: Key) -> dict[str, Any]:
        if key.method == "exact":
            return {"kernel": "constant * ARD RBF + white", "restarts": 0, "standardised": True}
        if key.method == "ngboost":
            return {"distribution": "Normal", "estimators": 500}
        if self.protocol == "default":
            return {"n_layers": key.layers, **_GPYTORCH, "max_iter": self.iterations or _GPYTORCH["max_iter"]}
        ours = self.estimator(Key(key.data, "SoD", key.layers, key.split))
        names = ("n_layers", "subset_size", "n_samples", "n_predict_samples", "max_iter", "batch_size", "learning_rate")
        return {name: getattr(ours, name) for name in names}

    def refuse_impossible(self, keys: Sequence[Key], data: Mapping[str, DataSet]) -> None:
        """Errors that are known before the first of these cells runs.

        Raises
        ------
        ConfigurationError
            An exact GP on too many rows, or NGBoost where it is not installed.
        """
        methods = {key.method for key in keys}
        if "ngboost" in methods and importlib.util.find_spec("ngboost") is None:
            raise ConfigurationError("the method 'ngboost' needs a package: pip install 'sodgp[bench]'.")
        for name in dict.fromkeys(key.data for key in keys if key.method == "exact"):
            rows = len(paper_split(len(data[name].y), 0)[0])
            if rows > EXACT_ROWS:
                raise ConfigurationError(
                    f"the method 'exact' takes at most {EXACT_ROWS:,} training rows, and {name} has {rows:,}: its"
                    " time grows with their cube. Leave it out for this set."
                )


def numbers(option: str, text: str) -> list[int]:
    """Whole numbers from a command line.

    Raises
    ------
    ConfigurationError
        For anything else.

    Examples
    --------
    >>> numbers("--splits", "0-2,7")
    [0, 1, 2, 7]
    """
    found: list[int] = []
    for part in words(text):
        first, dash, last = part.partition("-")
        is_number = first.isdecimal() and (last.isdecimal() if dash else True)
        if not is_number or int(last or first) < int(first):
            raise ConfigurationError(f"{option} {text!r} must be whole numbers such as 2, 0,3 or 0-4.")
        found += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(found))


def words(text: str) -> list[str]:
    """Words with commas between them.

    Examples
    --------
    >>> words("SoD, DSVI*")
    ['SoD', 'DSVI*']
    """
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _choose(what: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        near = difflib.get_close_matches(value, choices, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"Unknown {what} {value!r}.{guess} Known: {', '.join(choices)}.")
