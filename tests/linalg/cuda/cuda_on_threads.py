"""CUDA sources run on the processor's threads: what they compute can be tested without a GPU."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

SHIM = Path(__file__).with_suffix(".h")

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def build(source, folder, entry, **macros):
    """The library with ``extern "C"`` function `entry`, C++ text that calls ``launch(kernel, grid, threads, ...)``."""
    program, library = folder / "program.cpp", folder / "program.so"
    program.write_text(f'#include "{SHIM}"\n#include "{source}"\nextern "C" {entry}\n')
    defined = [f"-D{name}={value}" for name, value in macros.items()]
    command = ["g++", "-w", "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", *defined, program, "-o", library]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def pointer(tensor: torch.Tensor):
    return ctypes.c_void_p(tensor.data_ptr())
