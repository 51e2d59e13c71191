"""How much memory there is, and freed memory that a process keeps: counted in pages that the system had to map."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
import torch

from sodgp.errors import ResourceError
from sodgp.system import memory

MAPPED = """
import ctypes, resource, torch
from sodgp.system.memory import keep_freed_memory

def mapped(rounds=10):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        tensors = [torch.ones(2**20, dtype=torch.float64) for _ in range(8)]  # as a step has them: 8 MiB each
        del tensors
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

ctypes.CDLL(None).mallopt(-3, 4096)  # every tensor is mapped, so that there is something to see
returned = mapped()
print(keep_freed_memory())
mapped()
print(returned, mapped())
"""

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")


def in_a_process(**changes):
    """In one of its own: what malloc is told holds for a whole process."""
    environment = {name: value for name, value in os.environ.items() if name not in memory._MALLOC_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", MAPPED], env=environment | changes, capture_output=True, text=True, check=True
    )
    is_done, counts = done.stdout.splitlines()
    return is_done == "True", *(int(count) for count in counts.split())


@needs_glibc
def test_freed_tensors_are_not_mapped_again():
    is_done, returned, kept = in_a_process()
    assert is_done
    assert returned > 0
    assert kept < returned / 10


@needs_glibc
def test_what_the_environment_says_comes_first():
    is_done, before, after = in_a_process(MALLOC_TRIM_THRESHOLD_="4096")
    assert not is_done
    assert after > before / 10


def test_nothing_happens_without_glibc(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: pytest.fail("asked a library that has no mallopt"))
    assert not memory.keep_freed_memory()


def test_more_memory_than_there_is_is_refused_with_both_numbers(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda device=None: 10**9)
    memory.require_memory(1e9, "a table", "Take fewer rows.")
    with pytest.raises(
        ResourceError, match=r"a table needs about 2\.00 GB of memory on cpu, and 1\.00 GB.*fewer"
    ) as caught:
        memory.require_memory(2e9, "a table", "Take fewer rows.")
    assert (caught.value.needed, caught.value.available) == (2 * 10**9, 10**9)
    monkeypatch.setattr(memory, "available_memory", lambda device=None: None)
    memory.require_memory(1e18, "a table", "Take fewer rows.")  # nothing is known


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    for name, text in {"memory.max": "1000", "memory.current": "400", "memory.stat": "inactive_file 100"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert memory.available_memory() == 700
    (tmp_path / "memory.max").write_text("max")
    assert memory.available_memory() != 700


def test_memory_that_runs_out_is_known_by_its_error():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert memory.is_out_of_memory(caught.value)
    assert memory.is_out_of_memory(MemoryError())
    assert not memory.is_out_of_memory(RuntimeError("shapes differ"))
    assert not memory.is_out_of_memory(ResourceError("refused", needed=None, available=None))


def test_first_line_of_an_error():
    assert memory.first_line(ValueError("one\ntwo")) == "one"
    assert memory.first_line(ValueError()) == "ValueError"
