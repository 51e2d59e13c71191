"""Adam's guarded step on a GPU in two launches (`adam.cu`).

PyTorch's fused step gives 65,536 elements to a block: the few hundred thousand of a model occupy only a handful of a
GPU's hundred multiprocessors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sodgp.linalg.cuda.nvrtc import REAL, Kernel, load, once_tried

TENSORS = 64  # by value: an argument of a kernel may have 4,096 bytes
THREADS = 256
CHUNK = 1024
_SOURCE = Path(__file__).with_suffix(".cu")
_Pointers = ctypes.c_void_p * TENSORS

# Guard and Adam; and a parameter with its gradient, mean, square and step.
Kernels = tuple[Kernel, Kernel]
Row = tuple[Tensor, ...]


class Tensors(ctypes.Structure):
    """The arguments of the kernels, as `adam.cu` declares them."""

    _fields_ = (
        ("parameter", _Pointers),
        ("gradient", _Pointers),
        ("mean", _Pointers),
        ("square", _Pointers),
        ("step", _Pointers),
        ("size", ctypes.c_int * TENSORS),
        ("first", ctypes.c_int * (TENSORS + 1)),
        ("count", ctypes.c_int),
    )


def describe(rows: Sequence[Row]) -> Tensors:
    """The structure of (parameter, gradient, mean, square, step), one row each."""
    tensors = Tensors(count=len(rows))
    blocks = 0
    for i, row in enumerate(rows):
        for name, tensor in zip(("parameter", "gradient", "mean", "square", "step"), row, strict=True):
            getattr(tensors, name)[i] = tensor.data_ptr()
        tensors.size[i] = row[0].numel()
        blocks += -(-row[0].numel() // CHUNK)
        tensors.first[i + 1] = blocks
    return tensors


class CudaAdam:
    """Adam's step with the guard of `GuardedAdam`, if the kernels are available; `refused` [] counts bad gradients."""

    def __init__(self, refused: Tensor) -> None:
        self._refused = refused
        self._refusal = torch.zeros_like(refused)
        self._arrived = torch.zeros_like(refused, dtype=torch.int32)
        self._parts = refused.new_empty(0)

    def step(self, group: Mapping[str, Any], state: Mapping[Tensor, Mapping[str, Tensor]]) -> bool:
        """One step for a group and the state of `torch.optim.Adam`, with a rate on the device.

        False, with nothing done, where PyTorch must take the step, such as the first one, which makes the state.
        """
        owners = [p for p in group["params"] if p.grad is not None and p.numel()]
        if not 0 < len(owners) <= TENSORS or not all(state.get(p) for p in owners):
            return False
        rows = [(p, p.grad, *(state[p][key] for key in ("exp_avg", "exp_avg_sq", "step"))) for p in owners]
        dtype, device = owners[0].dtype, owners[0].device
        rate = group["lr"]
        if dtype not in REAL or not _is_float(rate, device) or not all(_plain(row, dtype, device) for row in rows):
            return False
        kernels = once_tried(_tried, owners[0].get_device(), dtype)
        if kernels is None:
            return False
        self.launch(kernels, rows, rate, (*group["betas"], group["eps"]))
        return True

    def launch(self, kernels: Kernels, rows: Sequence[Row], rate: Tensor, constants: Sequence[float]) -> None:
        """One step with these kernels; the constants are Adam's betas and eps."""
        tensors = describe(rows)
        grid = (tensors.first[len(rows)], 1)
        like = rows[0][0]
        if self._parts.dtype != like.dtype or self._parts.numel() < grid[0]:
            self._parts = torch.empty(grid[0], dtype=like.dtype, device=like.device)
        guard, adam = kernels
        with torch.cuda.device(like.device):
            guard(grid, THREADS, [tensors, self._parts, self._arrived, self._refusal, self._refused])
            adam(grid, THREADS, [tensors, self._refusal, rate, *constants])


def _tried(device: int, dtype: torch.dtype) -> Kernels | None:
    """Both kernels, if they do on this device what Adam does: wrong steps would go unnoticed later."""
    macros = {"REAL": REAL[dtype], "TENSORS": TENSORS}
    guard, adam = (load(_SOURCE, name, device, **macros) for name in ("sodgp_adam_guard", "sodgp_adam"))
    if guard is None or adam is None:
        return None
    refused = torch.zeros((), dtype=torch.float32, device=f"cuda:{device}")
    step = partial(CudaAdam(refused).launch, (guard, adam))
    try:
        return (guard, adam) if agrees(step, refused, dtype) else None
    except RuntimeError:
        return None


def agrees(step: Callable[[Sequence[Row], Tensor, Sequence[float]], None], refused: Tensor, dtype: torch.dtype) -> bool:
    """Whether a function takes the fifth step of Adam, with both constants one half, and refuses another."""
    sizes, close = (CHUNK + 1, 3, 2 * CHUNK), torch.finfo(dtype).eps ** 0.5
    numbers = [torch.linspace(0.1, 1.0, size, dtype=dtype, device=refused.device) for size in sizes]
    state = [(x.clone(), 0.5 * x, x.square(), torch.full_like(refused, 4.0)) for x in numbers]
    for divisor in (1.0, 0.0):
        rows = [
            (p, x / divisor, mean, square, count) for x, (p, mean, square, count) in zip(numbers, state, strict=True)
        ]
        step(rows, torch.full_like(refused, 0.25), (0.5, 0.5, 0.0))
    good = float(refused) == 1.0
    for x, (parameter, mean, square, count) in zip(numbers, state, strict=True):
        wanted = (x - 0.25 * 0.75 / (1.0 - 0.5**5) ** 0.5, 0.75 * x, x.square(), torch.full_like(count, 5.0))
        pairs = zip((parameter, mean, square, count), wanted, strict=True)
        good = good and all(torch.allclose(ours, theirs, close, close) for ours, theirs in pairs)
    return good


def _plain(row: tuple[Tensor, ...], dtype: torch.dtype, device: torch.device) -> bool:
    *values, step = row
    alike = all(t.dtype == dtype and t.device == device and t.is_contiguous() for t in values)
    return alike and _is_float(step, device)


def _is_float(value: object, device: torch.device) -> bool:
    return isinstance(value, Tensor) and value.device == device and value.dtype == torch.float32
