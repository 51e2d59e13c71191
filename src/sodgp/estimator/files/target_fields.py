"""What was done to y and its predictions, in a model file: the transform, and the calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from sodgp.estimator.files.record_fields import check_whole, numbers_of, refuse
from sodgp.estimator.fitted import Fitted
from sodgp.predictive.calibration import LEVELS, Calibration, Temperature
from sodgp.predictive.power import MAX_POWER, PowerTransform
from sodgp.predictive.scores import MAX_SCORE
from sodgp.system.validation import FloatArray

__all__ = ["decode_calibration", "decode_transform", "encode_transform", "encoded_targets"]

# The median, and both ends of the intervals.
_MOST_KNOTS = 2 * len(LEVELS) + 1


def encoded_targets(fitted: Fitted) -> dict[str, Any]:
    """What a file says about y and its predictions."""
    return {
        "target_transform": encode_transform(fitted.transform),
        "calibration": encode_calibration(fitted.calibration),
    }


def encode_transform(transform: PowerTransform | None) -> dict[str, Any] | None:
    """A transform as JSON, where there is one."""
    if transform is None:
        return None
    return {"name": transform.name, "power": transform.power.tolist(), "centre": transform.centre.tolist()}


def decode_transform(entry: Any, n_outputs: int) -> PowerTransform | None:
    """The transform of a model with so many outputs; ModelFileError for one that no fit has."""
    if entry is None:
        return None
    if not isinstance(entry, dict) or entry.keys() != {"name", "power", "centre"}:
        refuse("target_transform", "not a transform")
    if entry["name"] not in ("log", "box_cox"):
        refuse("target_transform", "unknown to this sodgp")
    power, centre = (_numbers(entry[name], n_outputs) for name in ("power", "centre"))
    if not ((power >= 0) & (power <= (MAX_POWER if entry["name"] == "box_cox" else 0.0))).all():
        refuse("target_transform", "out of range")
    if not (centre > 0).all():
        refuse("target_transform", "not positive")
    return PowerTransform(entry["name"], power, centre)


def encode_calibration(calibration: Calibration | Temperature | None) -> dict[str, Any] | None:
    """A calibration as JSON, where there is one."""
    if calibration is None:
        return None
    if isinstance(calibration, Temperature):
        return {"power": calibration.power, "rows": calibration.n_rows}
    return {
        "knots": [each.tolist() for each in calibration.knots],
        "coverage_90": calibration.coverage_90.tolist(),
        "rows": calibration.n_rows,
    }


def decode_calibration(entry: Any, n_targets: int, targets: str) -> Calibration | Temperature | None:
    """The calibration of a model of so many targets of a kind; ModelFileError for one that `calibrate` cannot find."""
    if entry is None:
        return None
    keys = {"classes": {"power", "rows"}, "numbers": {"knots", "coverage_90", "rows"}}.get(targets)
    if not isinstance(entry, dict) or entry.keys() != keys:
        refuse("calibration", f"not one of {targets}")
    rows = check_whole("calibration", entry["rows"], 1, 2**53)
    if targets == "classes":
        (power,) = numbers_of("calibration", [entry["power"]])
        if not 1e-3 <= power <= 1e3:
            refuse("calibration", "out of range")
        return Temperature(float(power), rows)
    knots, shares = entry["knots"], numbers_of("calibration", entry["coverage_90"])
    if not isinstance(knots, list) or len(knots) != n_targets or len(shares) != n_targets:
        refuse("calibration", f"not of {n_targets} targets")
    if not all(0 <= share <= 1 for share in shares):
        refuse("calibration", "out of range")
    return Calibration(tuple(_knots(each) for each in knots), rows, np.array(shares, dtype=np.float64))


def _knots(entry: Any) -> FloatArray:
    if not isinstance(entry, list) or len(entry) != 2:
        refuse("calibration", "not made of knots")
    x, y = (np.array(numbers_of("calibration", each), dtype=np.float64) for each in entry)
    if len(x) != len(y) or not 2 <= len(x) <= _MOST_KNOTS:
        refuse("calibration", "not made of knots")
    for values in (x, y):
        if not (np.abs(values) <= MAX_SCORE).all() or not (np.diff(values) >= 1e-9).all():
            refuse("calibration", "not increasing, or out of range")
    return np.stack([x, y])


def _numbers(values: Any, count: int) -> FloatArray:
    found = np.array(numbers_of("target_transform", values), dtype=np.float64)
    if len(found) != count:
        refuse("target_transform", f"{len(found)} numbers for {count} outputs")
    return found
