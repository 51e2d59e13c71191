"""Who takes part: names, labels, and how to build each one's step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from benchmarks.speed.floor import floor_step
from benchmarks.speed.ours import our_replicated_step, our_step
from benchmarks.speed.peers import gpytorch_step
from benchmarks.speed.shapes import Shape
from sodgp.inference.contract import Inference, TrainingSet
from sodgp.inference.dsvi import DSVI
from sodgp.inference.sod import SoD

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


class _Method(NamedTuple):
    """One of ours."""

    label: str
    inference: Inference


_METHODS = {
    OURS: _Method("SoD ancestral", SoD(coupling="ancestral")),
    "sod_marginal": _Method("SoD marginal", SoD(coupling="marginal")),
    "sod_predictive": _Method("SoD predictive", SoD(objective="predictive")),
    # What the estimator trains from some hundred rows on.
    "sod_default": _Method("SoD predictive, kernels apart", SoD(objective="predictive", separate_kernels=True)),
    "dsvi": _Method("DSVI", DSVI()),
}
_TO_COMPILE = (OURS, "sod_predictive", "sod_default")


def contestants(shape: Shape, device: torch.device) -> list[Contestant]:
    """All that run on this device; on CUDA our captured steps come first, then the same step by step.

    Parameters
    ----------
    shape : Shape
    device : torch.device
    """
    is_cuda = device.type == "cuda"
    rows = [_ours(name, captured=is_cuda) for name in _METHODS]
    rows += [_ours(name, "_compiled", ", compiled", captured=is_cuda, compiled=True) for name in _TO_COMPILE]
    if is_cuda:
        rows += [_ours(name, "_eager", ", not captured", captured=False) for name in _METHODS]
        if shape.replicates > 1:
            rows.append(_replicated(shape.replicates, compiled=False))
            rows.append(_replicated(shape.replicates, compiled=True))
    rows.append(Contestant(PEER, "GPyTorch DSVI", gpytorch_step))
    rows.append(Contestant(FLOOR, "floor", lambda s, _, where: floor_step(s, where, captured=is_cuda)))
    return rows


def _ours(name: str, how: str = "", words: str = "", *, captured: bool, compiled: bool = False) -> Contestant:
    label, inference = _METHODS[name]

    def build(shape: Shape, data: TrainingSet, device: torch.device) -> StepFunction:
        return our_step(inference, shape, data, device, captured=captured, compiled=compiled)

    return Contestant(name + how, label + words, build)


def _replicated(replicates: int, *, compiled: bool) -> Contestant:
    label, method = _METHODS[OURS]

    def build(shape: Shape, _: TrainingSet, device: torch.device) -> StepFunction:
        is_cuda = device.type == "cuda"
        return our_replicated_step(method, shape, device, replicates=replicates, captured=is_cuda, compiled=compiled)

    name = f"{REPLICATED}_compiled" if compiled else REPLICATED
    return Contestant(name, f"{label}, {replicates} replicates{', compiled' * compiled}", build)
