"""Where a cell was computed, from what, and how much memory it took."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch

import sodgp

_MIB = 2**20


def origin(device: torch.device) -> dict[str, Any]:
    """Version, commit, machine and date of a cell."""
    machine: dict[str, Any] = {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device.type,
    }
    if device.type == "cuda":
        machine["gpu"] = torch.cuda.get_device_name(device)
    return {
        "sodgp": sodgp.__version__,
        **_commit(),
        "machine": machine,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@contextmanager
def peak_memory(device: torch.device) -> Iterator[dict[str, float]]:
    """Measure the peak memory of a block in MiB.

    Yields
    ------
    dict
        Filled at the end: ``peak_memory_mib``, of the device where it is CUDA, else of the whole process. The process's
        peak is that of the block on Linux; elsewhere it is that of the process since it began.
    """
    peak: dict[str, float] = {}
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield peak
        peak["peak_memory_mib"] = torch.cuda.max_memory_allocated(device) / _MIB
        return
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    yield peak
    peak["peak_memory_mib"] = _process_peak()


def _process_peak() -> float:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    import resource

    # KiB everywhere but on macOS, which counts bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (_MIB if sys.platform == "darwin" else 1024)


@cache
def _commit() -> dict[str, Any]:
    """Commit of the source tree and whether it had changes.

    For a copy of the source without its history, the environment variable ``SODGP_COMMIT`` names the commit.
    """
    root = Path(__file__).resolve().parents[2]
    if named := os.environ.get("SODGP_COMMIT"):
        return {"commit": named}
    if not (root / ".git").exists():
        return {}
    try:
        commit, changes = (
            subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=True, timeout=20).stdout
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no", "--", "src"])
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": commit.strip(), "changed": bool(changes.strip())}


@cache
def source_digest() -> str:
    """A digest of the library's own source: equal where the program is."""
    root = Path(sodgp.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root).as_posix()}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
