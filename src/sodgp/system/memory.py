"""How much memory is free, the error if it is not enough, and how much freed memory a process keeps."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sodgp.errors import ResourceError

if TYPE_CHECKING:
    import torch

__all__ = ["keep_freed_memory"]

GB = 1e9
_CGROUP = Path("/sys/fs/cgroup")
_CPU_MESSAGES = ("can't allocate memory", "not enough memory")

# Parameters of mallopt in glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_BLOCK = 32 * 2**20  # the largest that glibc takes
_LARGEST_HEAP = 2**30
_MALLOC_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES")


def available_memory(device: torch.device | None = None) -> int | None:
    """Free bytes on a device, or of the machine, within the limits of process and container; None if unknown."""
    if device is not None and device.type == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    if device is not None and device.type != "cpu":
        return None
    limits = [limit() for limit in (_free_memory, _container_limit, _process_limit)]
    known = [limit for limit in limits if limit is not None]
    return max(min(known), 0) if known else None


def require_memory(needed: float, what: str, advice: str, device: torch.device | None = None) -> None:
    """Raise ResourceError if `needed` bytes are more than there are: "`what` needs about ... `advice`"."""
    there = available_memory(device)
    if there is not None and needed > there:
        place = "cpu" if device is None else device.type
        raise ResourceError(
            f"{what} needs about {needed / GB:.2f} GB of memory on {place}, and {there / GB:.2f} GB are free. {advice}",
            needed=int(needed),
            available=there,
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory has run out: PyTorch on a CPU then raises a plain RuntimeError."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return not isinstance(error, ResourceError)
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _CPU_MESSAGES)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or else its type."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def keep_freed_memory() -> bool:
    """Let this process keep up to 1 GiB of freed memory, in blocks of up to 32 MiB; whether that was possible.

    A training step makes and frees the same tensors again and again, and glibc would map and clear their memory each
    time. For programs that train, such as our command line: it holds for the whole process and cannot be undone, so
    nothing in the library calls it. Settings of malloc in the environment win, and without glibc nothing happens.

    Examples
    --------
    >>> import subprocess, sys
    >>> program = "from sodgp.system.memory import keep_freed_memory; keep_freed_memory()"
    >>> subprocess.run([sys.executable, "-c", program], check=True).returncode
    0
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in _MALLOC_VARIABLES):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK) and mallopt(_M_TRIM_THRESHOLD, _LARGEST_HEAP))


def _free_memory() -> int | None:
    fields = _fields(Path("/proc/meminfo"))
    return 1024 * fields["MemAvailable"] if "MemAvailable" in fields else None


def _container_limit() -> int | None:
    """Bytes that a Linux container may still allocate."""
    try:
        limit = (_CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        # Cached files count as used, but are given up on demand.
        cache = _fields(_CGROUP / "memory.stat").get("inactive_file", 0)
        return None if limit == "max" else int(limit) - used + cache
    except (OSError, ValueError):
        return None


def _process_limit() -> int | None:
    """Bytes left of a limit on the address space of this process (``ulimit -v``)."""
    if sys.platform == "win32":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    used = 1024 * _fields(Path("/proc/self/status")).get("VmSize", 0)
    return limit - used


def _fields(file: Path) -> dict[str, int]:
    """Lines such as ``MemAvailable:  123 kB`` as a dictionary; empty where there is no such file."""
    try:
        lines = file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    parts = [line.replace(":", " ").split() for line in lines]
    return {part[0]: int(part[1]) for part in parts if len(part) > 1 and part[1].isdigit()}
