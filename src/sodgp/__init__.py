"""Deep Gaussian processes whose inducing points are a subset of the data.

The names below are imported when they are first used, and so are the modules of the package (``sodgp.plots``): PyTorch
takes seconds to import, which help texts and shell completion do not have.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from sodgp.system.version import VERSION

if TYPE_CHECKING:
    from sodgp.estimator.classifier import DeepGPClassifier
    from sodgp.estimator.options.fields import Checkpoint, Tuning
    from sodgp.estimator.regressor import DeepGPRegressor
    from sodgp.evaluation.pipelines import predict_distribution
    from sodgp.evaluation.scores import evaluate
    from sodgp.inference.dsvi import DSVI
    from sodgp.inference.mean_field import MeanField
    from sodgp.inference.sghmc import SGHMC
    from sodgp.inference.sod import SoD
    from sodgp.predictive.mixture import GaussianMixture
    from sodgp.report import write_report
    from sodgp.tables.encoder import TableEncoder

__version__ = VERSION
__all__ = [
    "DSVI",
    "SGHMC",
    "Checkpoint",
    "DeepGPClassifier",
    "DeepGPRegressor",
    "GaussianMixture",
    "MeanField",
    "SoD",
    "TableEncoder",
    "Tuning",
    "__version__",
    "evaluate",
    "predict_distribution",
    "write_report",
]

# Name -> module that defines it.
_HOMES = {
    "DSVI": "inference.dsvi",
    "SGHMC": "inference.sghmc",
    "Checkpoint": "estimator.options.fields",
    "DeepGPClassifier": "estimator.classifier",
    "DeepGPRegressor": "estimator.regressor",
    "GaussianMixture": "predictive.mixture",
    "MeanField": "inference.mean_field",
    "SoD": "inference.sod",
    "TableEncoder": "tables.encoder",
    "Tuning": "estimator.options.fields",
    "evaluate": "evaluation.scores",
    "predict_distribution": "evaluation.pipelines",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"sodgp.{_HOMES[name]}"), name)
    elif not name.startswith("_") and importlib.util.find_spec(f"sodgp.{name}") is not None:
        value = importlib.import_module(f"sodgp.{name}")
    else:
        raise AttributeError(f"module 'sodgp' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
