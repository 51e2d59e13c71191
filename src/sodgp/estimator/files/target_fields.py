"""What was done to y, in a model file: its transform."""

from __future__ import annotations

from typing import Any

import numpy as np

from sodgp.estimator.files.record_fields import numbers_of, refuse
from sodgp.predictive.power import MAX_POWER, PowerTransform
from sodgp.system.validation import FloatArray

__all__ = ["decode_transform", "encode_transform"]


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


def _numbers(values: Any, count: int) -> FloatArray:
    found = np.array(numbers_of("target_transform", values), dtype=np.float64)
    if len(found) != count:
        refuse("target_transform", f"{len(found)} numbers for {count} outputs")
    return found
