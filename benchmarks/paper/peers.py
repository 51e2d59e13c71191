"""What a user would pick instead: an exact GP, NGBoost, and (in a module of its own) GPyTorch's deep GP.

Inputs and target are standardised by the training part, as for our own methods; scores are in original units.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler

from benchmarks.paper.splits import Split
from sodgp.errors import NumericalError
from sodgp.predictive.mixture import GaussianMixture
from sodgp.system.validation import FloatArray

# Takes the iteration, and how many there are. A fit that is resumed does not begin with the first.
Report = Callable[[int, int], None]


@dataclass
class Fitted:
    """A trained peer.

    Attributes
    ----------
    predict : function (X) -> GaussianMixture
        In original units.
    n_parameters : int or None
        None where the word has no meaning.
    history : dict
        Curves, where the peer has iterations that can be watched.
    history_seconds : float
        Time that they took.
    notes : dict
        What else the cell should say.
    """

    predict: Callable[[Any], GaussianMixture]
    n_parameters: int | None
    history: dict[str, Any] = field(default_factory=dict)
    history_seconds: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)


class Scaling:
    """Standardisation by the training part.

    Parameters
    ----------
    split : Split
    """

    def __init__(self, split: Split) -> None:
        self._x = StandardScaler().fit(split.X_train)
        self._y = StandardScaler().fit(split.y_train[:, None])

    def inputs(self, X: FloatArray) -> FloatArray:
        """Inputs in scaled units."""
        return self._x.transform(X)

    def target(self, y: FloatArray) -> FloatArray:
        """Target in scaled units, [N]."""
        return self._y.transform(y[:, None])[:, 0]

    def back(self, means: Any, variances: Any) -> GaussianMixture:
        """The mixture in original units; components [T, N] in scaled ones."""
        return GaussianMixture(means, variances).affine(float(self._y.scale_[0]), float(self._y.mean_[0]))


def fit_exact(
    split: Split, options: dict[str, Any], seed: int, device: torch.device, every: int, report: Report
) -> Fitted:
    """Exact GP with scikit-learn: a constant times an RBF with one lengthscale for each input, and white noise."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    scaling = Scaling(split)
    dims = split.X_train.shape[1]
    kernel = ConstantKernel() * RBF(np.full(dims, dims**0.5), (1e-2, 1e4)) + WhiteKernel(0.1, (1e-6, 1e1))
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=options["restarts"], random_state=seed)
    with warnings.catch_warnings():
        # A lengthscale at its upper end means an input without effect: nothing to tell the user.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(scaling.inputs(split.X_train), scaling.target(split.y_train))
        except np.linalg.LinAlgError as error:
            raise NumericalError(f"the exact GP failed: {error}") from error

    def predict(X: Any) -> GaussianMixture:
        # The white kernel is a part of the kernel: this is the standard deviation of y.
        mean, std = model.predict(scaling.inputs(X), return_std=True)
        return scaling.back(mean[None], np.square(std)[None])

    notes = {"log_marginal_likelihood": float(model.log_marginal_likelihood_value_), "kernel": str(model.kernel_)}
    return Fitted(predict, len(model.kernel_.theta), notes=notes)


def fit_ngboost(
    split: Split, options: dict[str, Any], seed: int, device: torch.device, every: int, report: Report
) -> Fitted:
    """NGBoost with its defaults: natural gradient boosting of a normal distribution."""
    # By name: an extra, which a type checker need not find.
    regressor = importlib.import_module("ngboost").NGBRegressor
    model = regressor(n_estimators=options["estimators"], random_state=seed, verbose=False)
    try:
        model.fit(split.X_train, split.y_train)
    except np.linalg.LinAlgError as error:
        raise NumericalError(f"NGBoost failed: {error}") from error

    def predict(X: Any) -> GaussianMixture:
        normal = model.pred_dist(X)
        return GaussianMixture(np.asarray(normal.loc)[None], np.square(np.asarray(normal.scale))[None])

    return Fitted(predict, None)


def _fit_gpytorch(*arguments: Any) -> Fitted:
    from benchmarks.paper.gpytorch_peer import fit_gpytorch

    return fit_gpytorch(*arguments)


# Each takes split, options, seed, device, iterations between entries of the curves, and a report of the iteration.
PEER_FITS: dict[str, Callable[..., Fitted]] = {
    "exact": fit_exact,
    "ngboost": fit_ngboost,
    "gpytorch": _fit_gpytorch,
}
