"""Monotone transforms of positive targets: the log, and the family of Box and Cox that it belongs to.

References
----------
Box, Cox (1964). An analysis of transformations. JRSS B 26.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sodgp.system.validation import FloatArray

__all__ = ["MAX_POWER", "PowerTransform"]

MAX_POWER = 2.0
"""Largest power of a fit. Powers below zero have no use here: a Gaussian z would give y without a mean."""


@dataclass(frozen=True, eq=False)
class PowerTransform:
    r"""From positive numbers y to z, and back, for each of P outputs.

    .. math:: z = \frac{(y / c)^\lambda - 1}{\lambda}, \quad \text{and } z = \log(y / c) \text{ where } \lambda = 0

    With a power above zero z ends at ``-1 / power``, where y is zero.

    Parameters
    ----------
    name : {"log", "box_cox"}
    power : ndarray of shape [P]
        The powers, from 0 to `MAX_POWER`.
    centre : ndarray of shape [P]
        Positive numbers c, about as large as y: z near zero has no rounding, whatever the units of y.

    Examples
    --------
    >>> root = PowerTransform("box_cox", np.array([0.5]), np.array([1.0]))
    >>> root.forward(np.array([[4.0]])), root.inverse(np.array([[2.0]])), root.least
    (array([[2.]]), array([[4.]]), array([-2.]))
    """

    name: str
    power: FloatArray
    centre: FloatArray

    def __repr__(self) -> str:
        powers = "" if self.name == "log" else f", power={self.power.round(4).tolist()}"
        return f"{type(self).__name__}({self.name!r}{powers})"

    @property
    def least(self) -> FloatArray:
        """The smallest z, at y = 0, [P]."""
        with np.errstate(divide="ignore"):
            return np.where(self.power > 0, -1.0 / self.power, -np.inf)

    def forward(self, y: FloatArray) -> FloatArray:
        """The z of y [..., P]; the smallest z where y is not positive."""
        log_y = self._log(y)
        # expm1 keeps its accuracy where the power or the log is small, and is that of the log for the power zero.
        with np.errstate(invalid="ignore"):
            bent = np.expm1(self.power * log_y) / np.where(self.power > 0, self.power, 1.0)
        return np.where(self.power > 0, bent, log_y)

    def inverse(self, z: FloatArray) -> FloatArray:
        """The y of z [..., P]; zero where z is below its smallest value."""
        safe = np.where(self.power > 0, self.power, 1.0)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            bent = np.log1p(np.maximum(self.power * z, -1.0)) / safe
            return np.asarray(self.centre * np.exp(np.where(self.power > 0, bent, z)))

    def log_slope(self, y: FloatArray) -> FloatArray:
        """Log of dz / dy at positive y [..., P]."""
        return np.asarray((self.power - 1.0) * self._log(y) - np.log(self.centre))

    def of_output(self, index: int) -> PowerTransform:
        """The transform of one output alone."""
        return PowerTransform(self.name, self.power[index : index + 1], self.centre[index : index + 1])

    def _log(self, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(y, 0.0)) - np.log(self.centre))
