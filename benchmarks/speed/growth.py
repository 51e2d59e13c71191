"""How the time of our step grows with each size, as slopes of log time over log size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.speed.contestants import OURS, StepFunction, contestants
from benchmarks.speed.measure import interleaved_rounds, warm_up
from benchmarks.speed.shapes import Shape, synthetic_data

BASE = Shape("growth", 20_000, 8, 8, 100, 3, batch_rows=2000, repeats=5)
# Symbol -> (field of Shape, its values). D is the hidden width; the columns of the inputs stay.
AXES: dict[str, tuple[str, tuple[int, ...]]] = {
    "B": ("batch_rows", (1000, 2000, 4000, 8000)),
    "M": ("size", (50, 100, 200)),
    "T": ("n_samples", (5, 10, 20)),
    "D": ("width", (4, 8, 16, 32)),
    "L": ("n_layers", (2, 3, 4, 5)),
}


def slope(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Least-squares slope of log time over log size.

    Examples
    --------
    >>> round(slope([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def measure_growth(
    device: torch.device,
    repeats: int | None = None,
    *,
    base: Shape = BASE,
    axes: dict[str, tuple[str, tuple[int, ...]]] = AXES,
) -> dict[str, Any]:
    """Time SoD ancestral at every value of every axis, all other sizes at the base; slopes of the best rounds.

    Parameters
    ----------
    device : torch.device
    repeats : int, optional
    base : Shape
    axes : dict of symbol to (field of Shape, values)
    """
    record: dict[str, Any] = {"contestant": OURS, "base": base.describe(), "axes": {}}
    for symbol, (name, values) in axes.items():
        shapes: dict[str, Any] = {str(value): replace(base, **{name: value}) for value in values}  # type: ignore[arg-type]
        steps = {value: _step(shape, device) for value, shape in shapes.items()}
        blocks = {value: warm_up(step, device) for value, step in steps.items()}
        timings = interleaved_rounds(steps, blocks, repeats or base.repeats, device)
        record["axes"][symbol] = {
            "field": name,
            "slope": slope(values, [timings[str(value)].min_ms for value in values]),
            "points": {value: timing.describe() for value, timing in timings.items()},
        }
    return record


def _step(shape: Shape, device: torch.device) -> StepFunction:
    (build,) = (c.build for c in contestants(shape, device) if c.name == OURS)
    return build(shape, synthetic_data(shape, device), device)
