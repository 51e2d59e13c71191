"""The configurations that are compared: the default with one thing changed at a time, and what that led to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sodgp.architecture import Initialization
from sodgp.bench.protocol import plain


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

    @property
    def written(self) -> dict[str, Any]:
        """The options as they stand in a file."""
        return {name: plain(value) for name, value in self.options.items()}


_HET = {"noise": "heteroscedastic"}
_HALF = {"predictive_weight": 0.5}
_LARGE = {"subset_size": 200}
# As its authors start and train it.
_SGHMC = {
    "inference": "sghmc",
    "initialization": Initialization(kernel_variance=0.01, lengthscale=None, noise_variance=0.01),
    "learning_rate": 0.01,
    "schedule": "constant",
    "max_iter": 10_000,
}

VARIANTS: dict[str, Variant] = {
    # One thing changed at a time.
    "bound": Variant(),
    "M=50": Variant({"subset_size": 50}),
    "M=200": Variant(_LARGE),
    "3 layers": Variant({"n_layers": 3}),
    "3000 steps": Variant({"max_iter": 3000}),
    "matern52": Variant({"kernel": "matern52"}),
    "matern32": Variant({"kernel": "matern32"}),
    "dsvi": Variant({"inference": "dsvi"}),
    "sghmc": Variant(_SGHMC),
    "x5": Variant(members=5),
    "het": Variant(_HET),
    "quarter": Variant({"predictive_weight": 0.25}),
    "half": Variant(_HALF),
    "predictive": Variant({"predictive_weight": 1.0}),
    # What pays, together.
    "het+half": Variant({**_HET, **_HALF}),
    "het+predictive": Variant({**_HET, "predictive_weight": 1.0}),
    "half 30 samples": Variant({**_HALF, "n_samples": 30}),
    "half matern52": Variant({**_HALF, "kernel": "matern52"}),
    "half 3 layers": Variant({**_HALF, "n_layers": 3}),
    "predictive 3 layers": Variant({"predictive_weight": 1.0, "n_layers": 3}),
    "half dsvi": Variant({**_HALF, "inference": "dsvi"}),
    "het+half matern52": Variant({**_HET, **_HALF, "kernel": "matern52"}),
    "half M=200": Variant({**_HALF, **_LARGE}),
    "het M=200": Variant({**_HET, **_LARGE}),
    "het+half M=200": Variant({**_HET, **_HALF, **_LARGE}),
    "het+half M=200 3000": Variant({**_HET, **_HALF, **_LARGE, "max_iter": 3000}),
    "het+half M=200 3 layers": Variant({**_HET, **_HALF, **_LARGE, "n_layers": 3}),
    "het+half M=200 matern52": Variant({**_HET, **_HALF, **_LARGE, "kernel": "matern52"}),
    "half M=200 x5": Variant({**_HALF, **_LARGE}, members=5),
    "het+half M=200 x5": Variant({**_HET, **_HALF, **_LARGE}, members=5),
    "M=200 x5": Variant(_LARGE, members=5),
    "predictive M=200 x5": Variant({"predictive_weight": 1.0, **_LARGE}, members=5),
    "het+predictive M=200 x5": Variant({**_HET, "predictive_weight": 1.0, **_LARGE}, members=5),
    "sghmc x5": Variant(_SGHMC, members=5),
    "half M=400": Variant({**_HALF, "subset_size": 400}),
}
