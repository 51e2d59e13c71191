"""Which transform of positive targets: checked, and decided from the training rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import boxcox
from scipy.stats import boxcox_llf

from sodgp.errors import ConfigurationError, InputError
from sodgp.estimator.fitted import Fitted
from sodgp.predictive.power import MAX_POWER, PowerTransform
from sodgp.system.validation import FloatArray

__all__ = ["check_positive_targets", "transform_for"]


def transform_for(
    name: str,
    y: FloatArray,
    rows: NDArray[np.int64],
    previous: Fitted | None = None,
    weight: FloatArray | None = None,
) -> PowerTransform | None:
    """The transform of that name for targets y [N, P], of which `rows` train; None where they stay as they are.

    Rows count as often as their `weight` [N] says.

    The power of Box and Cox is that of the largest likelihood of the targets of an output, from 0 to 2, where the
    transformed ones are taken as Gaussian. A fit that continues a `previous` one has its transform.

    Raises
    ------
    InputError
        A target is not positive.
    ConfigurationError
        The fit that is continued has another transform.

    Examples
    --------
    >>> transform_for("log", np.array([[1.0], [100.0]]), np.arange(2)).centre
    array([10.])
    """
    before = "none" if previous is None or previous.transform is None else previous.transform.name
    if previous is not None and before != name:
        raise ConfigurationError(
            f"warm_start continues a fit with target_transform={before!r}, and it is {name!r} now; use that one, or"
            " warm_start=False."
        )
    if name == "none":
        return None
    check_positive_targets(name, y)
    if previous is not None:
        return previous.transform
    y, w = y[rows], None if weight is None else weight[rows]
    centre = np.exp(np.log(y).mean(0) if w is None else np.average(np.log(y), 0, w))
    power = np.zeros(y.shape[1]) if name == "log" else np.array([_power(values, w) for values in (y / centre).T])
    return PowerTransform(name, power, centre)


def check_positive_targets(name: str, y: FloatArray) -> None:
    """InputError that names the rows unless all targets [N, P] are positive."""
    bad = ~(y > 0).all(1)
    if bad.any():
        rows = np.flatnonzero(bad)
        more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
        first = y[rows[0]]
        raise InputError(
            f"target_transform={name!r} is for positive targets, and y is {first[~(first > 0)][0]:g} in row {rows[0]};"
            f" rows that are not positive: {', '.join(map(str, rows[:5]))}{more}. Correct them, or use"
            " target_transform='none'."
        )


def _power(y: FloatArray, weight: FloatArray | None) -> float:
    """The power of the largest profile likelihood of y [N], whose geometric mean is 1."""
    if np.ptp(y) == 0.0:
        return 1.0
    w = np.ones(1) if weight is None else weight / weight.sum()

    def weighted(power: float, y: FloatArray) -> float:
        """As `boxcox_llf`, for an observation of mean weight: the logs of y have the mean zero."""
        values = boxcox(y, power)
        return -0.5 * float(np.log(w @ (values - w @ values) ** 2))

    likelihood = boxcox_llf if weight is None else weighted
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        found = minimize_scalar(
            lambda power: -float(np.nan_to_num(likelihood(power, y), nan=-np.inf)),
            bounds=(0.0, MAX_POWER),
            method="bounded",
            options={"xatol": 1e-4},
        )
    return round(float(found.x), 3)
