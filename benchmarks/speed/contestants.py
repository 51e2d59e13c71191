"""Who takes part: names, labels, and how to build each one's step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.speed.floor import floor_step
from benchmarks.speed.ours import our_replicated_step, our_step
from benchmarks.speed.peers import gpytorch_step
from benchmarks.speed.shapes import Shape
from sodgp.inference.base import Inference, TrainingSet
from sodgp.inference.dsvi import DoublyStochastic
from sodgp.inference.sod import SubsetOfData

StepFunction = Callable[[], object]
Builder = Callable[[Shape, TrainingSet, torch.device], StepFunction]

OURS, PEER, FLOOR = "sod_ancestral", "gpytorch", "floor"
COMPILED = f"{OURS}_compiled"
REPLICATED = f"{OURS}_replicates"


@dataclass(frozen=True)
class Contestant:
    """One row of the table.

    Parameters
    ----------
    name : str
        In the record.
    label : str
        In the report.
    build : function (Shape, TrainingSet, device) -> step
    """

    name: str
    label: str
    build: Builder


_METHODS: dict[str, tuple[str, Inference]] = {
    OURS: ("SoD ancestral", SubsetOfData(coupling="ancestral")),
    "sod_marginal": ("SoD marginal", SubsetOfData(coupling="marginal")),
    # What the estimator trains on from some hundred rows on.
    "sod_predictive": ("SoD predictive", SubsetOfData(predictive_weight=1.0)),
    "dsvi": ("DSVI", DoublyStochastic()),
}


def contestants(shape: Shape, device: torch.device) -> list[Contestant]:
    """All that run on this device; on CUDA our captured steps come first, then the same step by step.

    Parameters
    ----------
    shape : Shape
    device : torch.device
    """
    is_cuda = device.type == "cuda"
    rows = [_ours(name, label, method, captured=is_cuda) for name, (label, method) in _METHODS.items()]
    for name in (OURS, "sod_predictive"):
        label, method = _METHODS[name]
        rows.append(_ours(f"{name}_compiled", f"{label}, compiled", method, captured=is_cuda, compiled=True))
    if is_cuda:
        rows += [
            _ours(f"{name}_eager", f"{label}, not captured", method, captured=False)
            for name, (label, method) in _METHODS.items()
        ]
        if shape.replicates > 1:
            rows.append(_replicated(shape.replicates, compiled=False))
            rows.append(_replicated(shape.replicates, compiled=True))
    rows.append(Contestant(PEER, "GPyTorch DSVI", gpytorch_step))
    rows.append(Contestant(FLOOR, "floor", lambda s, _, where: floor_step(s, where, captured=is_cuda)))
    return rows


def _ours(name: str, label: str, method: Inference, *, captured: bool, compiled: bool = False) -> Contestant:
    def build(shape: Shape, data: TrainingSet, device: torch.device) -> StepFunction:
        return our_step(method, shape, data, device, captured=captured, compiled=compiled)

    return Contestant(name, label, build)


def _replicated(replicates: int, *, compiled: bool) -> Contestant:
    label, method = _METHODS[OURS]

    def build(shape: Shape, _: TrainingSet, device: torch.device) -> StepFunction:
        is_cuda = device.type == "cuda"
        return our_replicated_step(method, shape, device, replicates=replicates, captured=is_cuda, compiled=compiled)

    name = f"{REPLICATED}_compiled" if compiled else REPLICATED
    return Contestant(name, f"{label}, {replicates} replicates{', compiled' * compiled}", build)
