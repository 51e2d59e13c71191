"""CUDA sources compiled at run time, by the compiler library that comes with PyTorch for CUDA.

Only NVIDIA's own documented C interfaces are called (NVRTC and the driver): no toolkit, no headers, no C++ compiler.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

# The macro REAL of a kernel, by dtype.
REAL = {torch.float64: "double", torch.float32: "float"}
T = TypeVar("T")
Argument = Tensor | int | float | ctypes.Structure


class Kernel:
    """A function on a device."""

    def __init__(self, function: ctypes.c_void_p, driver: ctypes.CDLL) -> None:
        self._function, self._driver = function, driver

    def __call__(self, grid: tuple[int, int], threads: int, arguments: Sequence[Argument]) -> None:
        """Launch it on the current stream, or into a recording: tensors as pointers, all else as C values."""
        values = [_c_value(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        _check(
            "cuLaunchKernel",
            self._driver.cuLaunchKernel(self._function, *grid, 1, threads, 1, 1, 0, stream, pointers, None),
        )


@cache
def load(source: Path, name: str, device: int, **macros: str | int) -> Kernel | None:
    """The function `name` of a CUDA source with these macros, on a device; None where it cannot be built."""
    if torch.version.cuda is None:
        return None
    try:
        library = _nvrtc(torch.version.cuda.partition(".")[0])
        major, minor = torch.cuda.get_device_capability(device)
        options = [f"--gpu-architecture=sm_{major}{minor}", *(f"-D{key}={value}" for key, value in macros.items())]
        binary, _ = compile_source(library, source.read_text(), options)
        with torch.cuda.device(device):
            return _load(binary, name)
    except (OSError, RuntimeError, AttributeError) as error:
        # No such library, an unknown device, an older driver: PyTorch's own kernels do the work.
        logging.getLogger("sodgp").info("no CUDA kernel %s, PyTorch's own do its work: %s", name, error)
        return None


_TRIED: dict[tuple[Any, ...], Any] = {}


def once_tried(trial: Callable[..., T], *key: Hashable) -> T | None:
    """The result of a kernel's trial, made at the first call with these arguments.

    None while a CUDA graph is recorded, when nothing can be tried; the next call tries again.
    """
    place = (trial, *key)
    if place not in _TRIED:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return None
        _TRIED[place] = trial(*key)
    return _TRIED[place]


def compile_source(library: ctypes.CDLL, source: str, options: Sequence[str]) -> tuple[bytes, str]:
    """Machine code and the compiler's log; RuntimeError with the log where it does not compile."""
    program = ctypes.c_void_p()
    code = library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"sodgp.cu", 0, None, None)
    _check("nvrtcCreateProgram", code)
    try:
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        code = library.nvrtcCompileProgram(program, len(options), given)
        log = _text(library, "ProgramLog", program).rstrip(b"\0").decode(errors="replace")
        _check(log or "nvrtcCompileProgram", code)
        return _text(library, "CUBIN", program), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(what, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(what, getattr(library, f"nvrtcGet{what}")(program, text))
    return text.raw


def _nvrtc(version: str) -> ctypes.CDLL:
    """The library that PyTorch brings, else the system's."""
    name, packages = f"libnvrtc.so.{version}", Path(torch.__file__).parents[1]
    for place in (*packages.glob(f"nvidia/*/lib/{name}"), *packages.glob(f"torch/lib/{name}")):
        # Up to 13.0 it looks for this part only in the system's folders, unless it is loaded already.
        for part in place.parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(part))
        return ctypes.CDLL(str(place))
    return ctypes.CDLL(name)


def _load(binary: bytes, name: str) -> Kernel:
    driver = ctypes.CDLL("libcuda.so.1")
    # The first call makes PyTorch's context current in this thread.
    torch.cuda.synchronize()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check("cuModuleLoadData", driver.cuModuleLoadData(ctypes.byref(module), binary))
    _check("cuModuleGetFunction", driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
    return Kernel(function, driver)


def _c_value(argument: Argument) -> ctypes.c_void_p | ctypes.c_int | ctypes.c_double | ctypes.Structure:
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    return ctypes.c_int(argument) if isinstance(argument, int) else argument


def _check(what: str, code: int) -> None:
    if code:
        raise RuntimeError(f"{what}: error {code}")
