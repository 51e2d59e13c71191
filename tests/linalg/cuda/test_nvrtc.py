"""CUDA sources at run time: what is handed to the compiler and to the driver, with stand-ins for both."""

import ctypes
from types import SimpleNamespace

import pytest
import torch

from sodgp.linalg.cuda import nvrtc
from sodgp.linalg.cuda.nvrtc import Kernel, compile_source


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_double))


def test_a_launch_hands_over_pointers_to_its_arguments(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=77))
    seen = []

    def launch(function, *arguments):
        *shape, stream, pointers, extra = arguments
        kinds = (ctypes.c_void_p, ctypes.c_int, ctypes.c_double, Pair)
        values = [ctypes.cast(p, ctypes.POINTER(kind)).contents for p, kind in zip(pointers, kinds, strict=True)]
        seen.append((function, shape, stream.value, [v.value for v in values[:3]], (values[3].a, values[3].b), extra))
        return 0

    tensor = torch.ones(2)
    Kernel("function", SimpleNamespace(cuLaunchKernel=launch))((5, 6), 288, [tensor, 3, 0.5, Pair(7, 8.0)])
    assert seen == [("function", [5, 6, 1, 288, 1, 1, 0], 77, [tensor.data_ptr(), 3, 0.5], (7, 8.0), None)]
    with pytest.raises(RuntimeError, match="cuLaunchKernel: error 700"):
        Kernel("function", SimpleNamespace(cuLaunchKernel=lambda *_: 700))((1, 1), 32, [])


class Compiler:
    """As much of NVRTC as is called."""

    def __init__(self, code=0):
        self.code, self.destroyed = code, 0

    def nvrtcCreateProgram(self, program, source, *_):
        self.source = source
        return 0

    def nvrtcCompileProgram(self, program, count, options):
        self.options = list(options)
        return self.code

    def nvrtcDestroyProgram(self, program):
        self.destroyed += 1

    def __getattr__(self, name):
        text = b"what is wrong" if "Log" in name else b"\x7fELF\0code"

        def answer(program, out):
            if name.endswith("Size"):
                out._obj.value = len(text)
            else:
                out.raw = text
            return 0

        return answer


def test_a_source_becomes_machine_code():
    compiler = Compiler()
    assert compile_source(compiler, "source", ["-DA=1"]) == (b"\x7fELF\0code", "what is wrong")
    assert (compiler.source, compiler.options, compiler.destroyed) == (b"source", [b"-DA=1"], 1)


def test_a_source_that_does_not_compile_shows_the_log():
    compiler = Compiler(code=6)
    with pytest.raises(RuntimeError, match="what is wrong: error 6"):
        compile_source(compiler, "source", [])
    assert compiler.destroyed == 1


def test_every_failure_on_the_way_means_no_kernel(monkeypatch, tmp_path):
    source = tmp_path / "some.cu"
    source.write_text("code")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    compilers = {"missing": OSError("no library"), "failing": Compiler(code=6)}
    for number, compiler in enumerate(compilers.values()):

        def find(version, compiler=compiler):
            if isinstance(compiler, Exception):
                raise compiler
            return compiler

        monkeypatch.setattr(nvrtc, "_nvrtc", find)
        assert nvrtc.load(source, "name", number) is None
    assert compilers["failing"].options == [b"--gpu-architecture=sm_90"]
