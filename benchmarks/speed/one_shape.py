"""Everything that is measured at one shape, and several shapes that get ready at once."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from typing import Any

import torch

from benchmarks.speed.contestants import COMPILED, FLOOR, StepFunction, contestants
from benchmarks.speed.measure import interleaved_rounds, warm_up
from benchmarks.speed.memory import cpu_peak, cuda_peak
from benchmarks.speed.profile import profile_step
from benchmarks.speed.report import ratios
from benchmarks.speed.shapes import SHAPES, Shape, synthetic_data

_CUDA_REPEATS = 15


def measure_shape(
    shape: Shape,
    device: torch.device,
    *,
    repeats: int | None = None,
    threads: int = 1,
    memory: bool = True,
    profiled: bool = False,
    only: Sequence[str] | None = None,
    turn: AbstractContextManager[object] | None = None,
) -> dict[str, Any]:
    """Times, ratios and peak memory of all contestants at one shape.

    Parameters
    ----------
    shape : Shape
    device : torch.device
    repeats : int, optional
        Rounds; the shape's own number by default.
    threads : int
        Of the processes that measure memory on a CPU.
    memory : bool
        Measure peak memory.
    profiled : bool
        Also where the time of our compiled step, which must take part, goes on CUDA, kernel by kernel.
    only : sequence of str, optional
        Names of the contestants that take part.
    turn : context manager, optional
        Entered for the timing, when all steps are built and warm.
    """
    is_cuda, began = device.type == "cuda", time.perf_counter()
    rows = [c for c in contestants(shape, device) if only is None or c.name in only]
    data = synthetic_data(shape, device)
    steps: dict[str, StepFunction] = {}
    peaks: dict[str, float] = {}
    for row in rows:
        build = partial(row.build, shape, data, device)
        if is_cuda:
            steps[row.name], peaks[row.name] = cuda_peak(build, device)
        else:
            steps[row.name] = build()
        warm_up(steps[row.name], device)
        print(f"{shape.name}: {row.label} is ready after {time.perf_counter() - began:.0f} s", file=sys.stderr)
    with turn or nullcontext():
        # Again, for the length of a block: others may have been compiling all the while.
        blocks = {name: warm_up(step, device) for name, step in steps.items()}
        rounds = repeats or (_CUDA_REPEATS if is_cuda else shape.repeats)
        timings = interleaved_rounds(steps, blocks, rounds, device)
        kernels = profile_step(steps[COMPILED]) if profiled else None
        if memory and not is_cuda:
            steps.clear()
            peaks = {row.name: cpu_peak(shape, row.name, threads) for row in rows if row.name != FLOOR}
    described = {row.name: {"label": row.label, **timings[row.name].describe()} for row in rows}
    record = {
        "shape": shape.describe(),
        "timings": described,
        "ratios": ratios(described),
        "peak_memory_mib": peaks if memory else {},
    }
    return record if kernels is None else {**record, "profile": kernels}


def measure_at_once(
    names: Sequence[str], device: torch.device, options: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """`measure_shape` of every shape in a process of its own: they compile together and are timed one by one.

    Parameters
    ----------
    names : sequence of str
        Of the shapes, each once.
    device : torch.device
    options : mapping
        Of `measure_shape`.

    Yields
    ------
    name : str
    record : dict
        As soon as it is there.
    """
    context = multiprocessing.get_context("spawn")
    turns = _Turns(context, len(names))
    processes, waiting = [], {}
    for name in names:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(sender, turns, name, device, dict(options)))
        process.start()
        sender.close()
        processes.append(process)
        waiting[receiver] = name
    try:
        while waiting:
            for ready in wait(list(waiting)):
                assert isinstance(ready, Connection)
                name = waiting.pop(ready)
                try:
                    yield name, ready.recv()
                except EOFError:
                    raise RuntimeError(f"the measurement of {name} ended with an error") from None
    finally:
        # Nobody may wait for one that is gone.
        turns.give_up()
        for process in processes:
            process.join()


class _Turns:
    """Waits until all are ready, then lets one go at a time."""

    def __init__(self, context: SpawnContext, count: int) -> None:
        self._ready, self._lock = context.Barrier(count), context.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        self._ready.wait()
        with self._lock:
            yield

    def give_up(self) -> None:
        """Let nobody wait any longer."""
        self._ready.abort()


def _child(sender: Connection, turns: _Turns, name: str, device: torch.device, options: dict[str, Any]) -> None:
    torch.set_num_threads(options["threads"])
    with sender:
        sender.send(measure_shape(SHAPES[name], device, **options, turn=turns.turn()))
