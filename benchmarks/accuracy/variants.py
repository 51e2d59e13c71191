"""The configurations that are compared: the default with one thing changed at a time, and what that led to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Variant:
    """Options of `DeepGPRegressor`, and how many members share a mixture.

    Parameters
    ----------
    options : dict
        In place of the defaults.
    members : int
        Fits from different seeds.
    """

    options: dict[str, Any] = field(default_factory=dict)
    members: int = 1


_HET = {"noise": "heteroscedastic"}
_HALF = {"predictive_weight": 0.5}

VARIANTS: dict[str, Variant] = {
    "bound": Variant(),
    "M=50": Variant({"subset_size": 50}),
    "M=200": Variant({"subset_size": 200}),
    "3 layers": Variant({"n_layers": 3}),
    "3000 steps": Variant({"max_iter": 3000}),
    "matern52": Variant({"kernel": "matern52"}),
    "matern32": Variant({"kernel": "matern32"}),
    "het": Variant(_HET),
    "half": Variant(_HALF),
    "predictive": Variant({"predictive_weight": 1.0}),
    "het+half": Variant({**_HET, **_HALF}),
    "het+predictive": Variant({**_HET, "predictive_weight": 1.0}),
    "half M=200": Variant({**_HALF, "subset_size": 200}),
    "het+half M=200": Variant({**_HET, **_HALF, "subset_size": 200}),
    "het+half M=200 3000": Variant({**_HET, **_HALF, "subset_size": 200, "max_iter": 3000}),
    "het+half M=200 3 layers": Variant({**_HET, **_HALF, "subset_size": 200, "n_layers": 3}),
    "het+half M=200 matern52": Variant({**_HET, **_HALF, "subset_size": 200, "kernel": "matern52"}),
    "het+half M=200 x5": Variant({**_HET, **_HALF, "subset_size": 200}, members=5),
    "M=200 x5": Variant({"subset_size": 200}, members=5),
}
