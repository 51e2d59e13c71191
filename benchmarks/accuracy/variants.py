"""The configurations that are compared: one thing changed at a time, what pays together, and the efforts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.records import estimator_of, options_of, plain
from sodgp.estimator.options.fields import EFFORTS
from sodgp.model.architecture import Initialization


@dataclass(frozen=True)
class Variant:
    """Options by their names in results (`benchmarks.records`), and how many members share a mixture.

    Parameters
    ----------
    options : dict
        In place of the defaults.
    members : int
        Fits from different seeds; an effort may bring members of its own.
    """

    options: dict[str, Any] = field(default_factory=dict)
    members: int = 1

    @property
    def described(self) -> dict[str, Any]:
        """The variant as it stands in a file: what an effort means may change, so it is written out."""
        options = {name: plain(value) for name, value in self.options.items()}
        described: dict[str, Any] = {"options": options, "members": self.members}
        if "effort" in options:
            described["effort"] = asdict(EFFORTS[self.options["effort"]])
            described["member_spread"] = options_of(estimator_of(self.options))["member_spread"]
            options.pop("member_spread", None)
        return described


# Written out: the defaults of the estimator were chosen with these variants, and may change again.
_START = {
    "n_layers": 2,
    "subset_size": 100,
    "max_iter": 1000,
    "kernel": "rbf",
    "noise": "homoscedastic",
    "predictive_weight": 0.0,
    "separate_kernels": False,
    "outlier_probability": 0.0,
    "batch_size": 2000,
}


def _changed(members: int = 1, **options: Any) -> Variant:
    return Variant({**_START, **options}, members)


_HET = {"noise": "heteroscedastic"}
_HEAVY = {"noise": "heavy_tailed"}
_SEPARATE = {"separate_kernels": True}
_PREDICTIVE = {"predictive_weight": 1.0}
_LARGE = {"subset_size": 200}
_DEEP = {"n_layers": 3}
_BEST = {**_SEPARATE, **_PREDICTIVE, **_DEEP}

# One thing at a time, then together.
ABLATION: dict[str, Variant] = {
    "bound": _changed(),
    "M=50": _changed(subset_size=50),
    "M=200": _changed(**_LARGE),
    "3 layers": _changed(**_DEEP),
    "3000 steps": _changed(max_iter=3000),
    "matern52": _changed(kernel="matern52"),
    "matern32": _changed(kernel="matern32"),
    "dsvi": _changed(inference="dsvi"),
    # As its authors start and train it.
    "sghmc": Variant(
        {
            "n_layers": 2,
            "inference": "sghmc",
            "initialization": Initialization(kernel_variance=0.01, lengthscale=None, noise_variance=0.01),
            "learning_rate": 0.01,
            "schedule": "constant",
            "subset_size": 100,
            "max_iter": 10_000,
        }
    ),
    "x5": _changed(members=5),
    "het": _changed(**_HET),
    "predictive": _changed(**_PREDICTIVE),
    "het+predictive": _changed(**_HET, **_PREDICTIVE),
    "predictive 3 layers": _changed(**_PREDICTIVE, **_DEEP),
    "predictive 3 layers 2000": _changed(**_PREDICTIVE, **_DEEP, max_iter=2000),
    "predictive 4 layers": _changed(**_PREDICTIVE, n_layers=4),
    "het+predictive 3 layers": _changed(**_HET, **_PREDICTIVE, **_DEEP),
    "heavy": _changed(**_HEAVY),
    "heavy+predictive 3 layers": _changed(**_HEAVY, **_PREDICTIVE, **_DEEP),
    "heavy+predictive M=200 3 layers 3000": _changed(**_HEAVY, **_PREDICTIVE, **_LARGE, **_DEEP, max_iter=3000),
    "M=200 3 layers 3000": _changed(**_LARGE, **_DEEP, max_iter=3000),
    "separate": _changed(**_SEPARATE),
    "separate 3 layers": _changed(**_SEPARATE, **_DEEP),
    "separate M=200 3 layers 3000": _changed(**_SEPARATE, **_LARGE, **_DEEP, max_iter=3000),
    "separate+predictive": _changed(**_SEPARATE, **_PREDICTIVE),
    "separate+predictive 3 layers": _changed(**_BEST),
    "separate+predictive M=200 3 layers 3000": _changed(**_BEST, **_LARGE, max_iter=3000),
    "separate+predictive 3 layers B=300 1600": _changed(**_BEST, batch_size=300, max_iter=1600),
    "separate+predictive 3 layers B=500 1000": _changed(**_BEST, batch_size=500),
    "separate+predictive M=50 3 layers 240": _changed(**_BEST, subset_size=50, max_iter=240),
    "separate+predictive M=50 3 layers B=200 480": _changed(**_BEST, subset_size=50, batch_size=200, max_iter=480),
    "separate+predictive M=200 3 layers B=500 4000": _changed(**_BEST, **_LARGE, batch_size=500, max_iter=4000),
    "separate+predictive M=200 3 layers 3000 T=5": _changed(**_BEST, **_LARGE, max_iter=3000, n_samples=5),
    "separate+predictive M=200 3 layers 3000 T=3": _changed(**_BEST, **_LARGE, max_iter=3000, n_samples=3),
    "separate+predictive M=200 3 layers 3000 T=1": _changed(**_BEST, **_LARGE, max_iter=3000, n_samples=1),
    "het+predictive M=200": _changed(**_HET, **_PREDICTIVE, **_LARGE),
    "predictive M=200 3 layers": _changed(**_PREDICTIVE, **_LARGE, **_DEEP),
    "predictive M=200 3 layers 3000": _changed(**_PREDICTIVE, **_LARGE, **_DEEP, max_iter=3000),
}

# The estimator as it is; the last shows what its objective is worth, with the plain mixture, as it was run.
FINAL: dict[str, Variant] = {
    "quick": Variant({"effort": "quick"}),
    "standard": Variant({"effort": "standard"}),
    "thorough": Variant({"effort": "thorough"}),
    "thorough on the bound": Variant({"effort": "thorough", "predictive_weight": 0.0, "member_spread": 1.0}),
}

VARIANTS: dict[str, Variant] = {**ABLATION, **FINAL}
