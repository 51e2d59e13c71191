"""Wall-clock time per step, in interleaved rounds, so that noise of the machine hits all contestants alike."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.speed.contestants import StepFunction

_WARM_UP = {"cpu": 2, "cuda": 4}
# A block of steps lasts about so many seconds; a single step may last longer.
_BLOCK_SECONDS = {"cpu": 0.1, "cuda": 0.04}
_MAX_BLOCK = 50


@dataclass
class Timing:
    """Times of one contestant, one entry a round.

    Attributes
    ----------
    steps : int
        Steps in a round; an entry is their mean.
    wall_ms : list of float
        Milliseconds per step.
    cpu_ms : list of float
        Processor milliseconds of this process per step: with one thread on a quiet machine the same, and less where
        other processes took the core away.
    """

    steps: int
    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    @property
    def median_ms(self) -> float:
        """Median over the rounds."""
        return statistics.median(self.wall_ms)

    @property
    def min_ms(self) -> float:
        """Best round."""
        return min(self.wall_ms)

    def describe(self) -> dict[str, Any]:
        """For the record."""
        return {
            "median_ms": self.median_ms,
            "min_ms": self.min_ms,
            "cpu_median_ms": statistics.median(self.cpu_ms),
            "steps_per_round": self.steps,
            "wall_ms": self.wall_ms,
            "cpu_ms": self.cpu_ms,
        }


def synchronize(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def run_block(step: StepFunction, count: int, device: torch.device) -> tuple[float, float]:
    """Wall-clock and processor seconds of `count` steps in a row, the device waited for at the end only."""
    synchronize(device)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        step()
    synchronize(device)
    return time.perf_counter() - wall, time.process_time() - cpu


def warm_up(step: StepFunction, device: torch.device) -> int:
    """Run a step until its libraries are loaded; returns how many steps make a block."""
    length = _BLOCK_SECONDS[device.type]
    for _ in range(_WARM_UP[device.type]):
        seconds, _ = run_block(step, 1, device)
        if seconds > 10.0 * length:
            # However much of that was the first call's: a block is one step.
            return 1
    seconds, _ = run_block(step, 1, device)
    return max(1, min(_MAX_BLOCK, math.ceil(length / max(seconds, 1e-9))))


def interleaved_rounds(
    steps: Mapping[str, StepFunction], blocks: Mapping[str, int], repeats: int, device: torch.device
) -> dict[str, Timing]:
    """Time every step once a round, one after the other.

    Parameters
    ----------
    steps : mapping of name to step
    blocks : mapping of name to int
        Steps in a round, from `warm_up`.
    repeats : int
        Rounds.
    device : torch.device
    """
    timings = {name: Timing(blocks[name]) for name in steps}
    # What is there now is not garbage. Looking through all that a compiler leaves took longer than the steps.
    gc.collect()
    gc.freeze()
    try:
        for _ in range(repeats):
            for name, step in steps.items():
                # Nobody pays for the garbage of the one before.
                gc.collect()
                wall, cpu = run_block(step, blocks[name], device)
                timings[name].wall_ms.append(1e3 * wall / blocks[name])
                timings[name].cpu_ms.append(1e3 * cpu / blocks[name])
    finally:
        gc.unfreeze()
    return timings
