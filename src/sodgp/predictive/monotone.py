"""A smooth increasing function through a few points, with its inverse in closed form.

References
----------
Gregory, Delbourgo (1982). Piecewise rational quadratic interpolation to monotonic data. IMA J. Numer. Anal. 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sodgp.system.validation import FloatArray

__all__ = ["MonotoneMap"]


class MonotoneMap:
    """Rational quadratic pieces between knots, straight lines outside; slopes are continuous.

    Parameters
    ----------
    x, y : ndarray of shape [K]
        Knots, both strictly increasing, K >= 2.

    Examples
    --------
    >>> bent = MonotoneMap(np.array([-1.0, 0.0, 1.0]), np.array([-2.0, 0.0, 1.0]))
    >>> bent(np.array([-2.0, 0.0, 1.0])), bent.inverse(bent(np.array([0.3]))).round(12)
    (array([-4.,  0.,  1.]), array([0.3]))
    """

    def __init__(self, x: FloatArray, y: FloatArray) -> None:
        self.x, self.y = x, y
        self._rise = np.diff(y) / np.diff(x)
        # Outside as from the middle to the end, which rests on half of the rows; inside a mean of both sides.
        middle = len(x) // 2
        first = (y[middle] - y[0]) / (x[middle] - x[0])
        last = (y[-1] - y[middle - (len(x) == 2)]) / (x[-1] - x[middle - (len(x) == 2)])
        inner = 2.0 / (1.0 / self._rise[1:] + 1.0 / self._rise[:-1])
        self._slope = np.concatenate([[first], inner, [last]])

    def __call__(self, x: FloatArray) -> FloatArray:
        """Values at x, of any shape."""
        p = self._piece(x, self.x)
        t = ((x - p.x) / p.width).clip(0.0, 1.0)
        bent = p.height * (p.rise * t**2 + p.low * t * (1.0 - t)) / (p.rise + p.bend * t * (1.0 - t))
        return np.asarray(np.where(p.is_outside, p.end_y + p.end_slope * (x - p.end_x), p.y + bent))

    def log_slope(self, x: FloatArray) -> FloatArray:
        """Log of the derivative at x."""
        p = self._piece(x, self.x)
        t = ((x - p.x) / p.width).clip(0.0, 1.0)
        top = p.rise**2 * (p.high * t**2 + 2.0 * p.rise * t * (1.0 - t) + p.low * (1.0 - t) ** 2)
        bent = top / (p.rise + p.bend * t * (1.0 - t)) ** 2
        return np.asarray(np.log(np.where(p.is_outside, p.end_slope, bent)))

    def inverse(self, y: FloatArray) -> FloatArray:
        """The x of values y."""
        p = self._piece(y, self.y)
        up = (y - p.y).clip(0.0, p.height)
        # The root between 0 and 1 of a t^2 + b t + c, in the form without cancellation.
        a = p.height * (p.rise - p.low) + up * p.bend
        b = p.height * p.low - up * p.bend
        c = -p.rise * up
        t = 2.0 * -c / (b + np.sqrt(np.maximum(b**2 - 4.0 * a * c, 0.0)))
        return np.asarray(np.where(p.is_outside, p.end_x + (y - p.end_y) / p.end_slope, p.x + t * p.width))

    def _piece(self, values: FloatArray, knots: FloatArray) -> _Piece:
        place = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, len(knots) - 2)
        end = np.where(values > knots[-1], len(knots) - 1, 0)
        low, high, rise = self._slope[place], self._slope[place + 1], self._rise[place]
        return _Piece(
            x=self.x[place],
            y=self.y[place],
            width=np.diff(self.x)[place],
            height=np.diff(self.y)[place],
            rise=rise,
            low=low,
            high=high,
            bend=low + high - 2.0 * rise,
            is_outside=(values < knots[0]) | (values > knots[-1]),
            end_x=self.x[end],
            end_y=self.y[end],
            end_slope=self._slope[end],
        )


class _Piece(NamedTuple):
    """The piece of each value: its left knot, size, mean slope and slopes at the ends; and the line outside."""

    x: FloatArray
    y: FloatArray
    width: FloatArray
    height: FloatArray
    rise: FloatArray
    low: FloatArray
    high: FloatArray
    bend: FloatArray
    is_outside: NDArray[np.bool_]
    end_x: FloatArray
    end_y: FloatArray
    end_slope: FloatArray
