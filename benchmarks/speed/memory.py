"""Peak memory of a training step, beyond what the data take: parameters, gradients, Adam's state, activations.

On CUDA the allocator keeps count. On a CPU every contestant runs alone in a process of its own, forked from one that
has only imported the libraries: a process started with ``exec`` would inherit the high-water mark of its parent.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from benchmarks.speed.contestants import StepFunction, contestants
from benchmarks.speed.shapes import SHAPES, Shape, synthetic_data
from sodgp.inference.contract import TrainingSet

# The second step has all of Adam's state.
_STEPS = 2
_MIB = 2.0**20


def cuda_peak(build: Callable[[], StepFunction], device: torch.device) -> tuple[StepFunction, float]:
    """Build a step, run it, and return it with the MiB by which it raised the allocator's peak."""
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    step = build()
    for _ in range(_STEPS):
        step()
    torch.cuda.synchronize(device)
    return step, (torch.cuda.max_memory_allocated(device) - before) / _MIB


def cpu_peak(shape: Shape, contestant: str, threads: int) -> float:
    """MiB by which a contestant raises the resident memory of a fresh process.

    Parameters
    ----------
    shape : Shape
    contestant : str
        Its name.
    threads : int
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, shape, contestant, threads))
    process.start()
    sender.close()
    try:
        return float(receiver.recv())
    except EOFError as error:
        process.join()
        raise RuntimeError(f"memory of {contestant} at {shape.name}: exit status {process.exitcode}") from error
    finally:
        process.join()
        receiver.close()


def _child(sender: Connection, shape: Shape, contestant: str, threads: int) -> None:
    torch.set_num_threads(threads)
    device = torch.device("cpu")
    # A small run first: libraries and their buffers are not the contestant's memory.
    _run(SHAPES["tiny"], contestant, synthetic_data(SHAPES["tiny"], device), device)
    data = synthetic_data(shape, device)
    before = _resident_bytes()
    _run(shape, contestant, data, device)
    # The two counters lag behind each other by a few pages.
    sender.send(max(0, _peak_bytes() - before) / _MIB)
    sender.close()


def _run(shape: Shape, contestant: str, data: TrainingSet, device: torch.device) -> None:
    (build,) = (c.build for c in contestants(shape, device) if c.name == contestant)
    step = build(shape, data, device)
    for _ in range(_STEPS):
        step()


def _resident_bytes() -> int:
    """Resident memory now; where the system does not say, the peak so far."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return _peak_bytes()
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
