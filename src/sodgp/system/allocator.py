"""How the C library deals with memory that tensors on a processor leave behind.

A training step makes and frees the same tensors of some megabytes again and again. glibc returns such memory to the
system at once, and the next step has to map and clear it page by page.
"""

from __future__ import annotations

import ctypes
import os
import platform

__all__ = ["keep_freed_memory"]

# Parameters of mallopt in glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# The largest that glibc takes; larger blocks are mapped, and go back to the system when they are freed.
_LARGEST_KEPT = 32 * 2**20
# Of free memory at the end of the heap, the most that stays.
_KEPT_IN_ALL = 2**30
_USERS_OWN = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Let this process keep up to 1 GiB of what it frees, in blocks of up to 32 MiB, for the next tensors.

    For programs that train, such as our command line: it holds for the whole process and cannot be taken back, so
    nothing in the library calls it. What the environment says of malloc comes first, and without glibc nothing happens.

    Returns
    -------
    bool
        Whether it was done.

    Examples
    --------
    >>> import subprocess, sys
    >>> program = "from sodgp.system.allocator import keep_freed_memory; keep_freed_memory()"
    >>> subprocess.run([sys.executable, "-c", program], check=True).returncode
    0
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in _USERS_OWN):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT) and mallopt(_M_TRIM_THRESHOLD, _KEPT_IN_ALL))
