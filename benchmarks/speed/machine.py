"""What a measurement must say about where and from what it was made."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import gpytorch
import torch


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Processor, cores, memory, versions, and the GPU where one is used."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    description = {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": usable,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_average_at_start": list(os.getloadavg()),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gpytorch": gpytorch.__version__,
        "threads": torch.get_num_threads(),
        "device": device.type,
    }
    if device.type == "cuda":
        description["gpu"] = torch.cuda.get_device_name(device)
        description["cuda"] = torch.version.cuda
    return description


def git_commit() -> dict[str, Any]:
    """The commit that ran, and whether the working tree had changes; empty without git."""
    here = Path(__file__).resolve().parent
    try:
        commit, changes = (
            subprocess.run(["git", *command], cwd=here, capture_output=True, text=True, check=True, timeout=20).stdout
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": commit.strip(), "changed": bool(changes.strip())}


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
