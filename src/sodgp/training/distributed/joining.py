"""Joining the processes that torchrun, or any other launcher that sets its variables, has started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from sodgp.errors import ConfigurationError, RanksError
from sodgp.training.distributed.group import patience

__all__ = ["COMMAND", "process_group", "started_with"]

COMMAND = "python -m torch.distributed.run --nproc-per-node 2 -m sodgp fit ... --distributed"

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# Between two collective operations of a process group: files may be read in it.
_MINUTES = timedelta(minutes=30)


def started_with() -> int:
    """How many processes a launcher has started together with this one, itself included; 1 without a launcher."""
    try:
        return int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        return 1


@contextmanager
def process_group(device: torch.device) -> Iterator[int]:
    """Join the others, by gloo on a CPU and by NCCL on GPUs, and leave them after the block; the rank.

    Raises
    ------
    ConfigurationError
        No launcher has started this process.
    RanksError
        A process did not arrive in time; the error names it.
    """
    missing = [name for name in _NEEDED if not os.environ.get(name)]
    if missing:
        raise ConfigurationError(
            f"training by many processes needs a launcher, which sets {', '.join(missing)}. For two on this machine:"
            f" {COMMAND}"
        )
    rank, count = int(os.environ["RANK"]), started_with()
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=_store(rank, count), rank=rank, world_size=count, timeout=_MINUTES)
    try:
        yield rank
    finally:
        dist.destroy_process_group()


def _store(rank: int, count: int) -> Any:
    """The store through which the processes find each other, once all have arrived."""
    seconds = patience()
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    # torchrun may keep one store for all attempts: addresses that an earlier attempt has left there would be tried.
    is_kept = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    attempt = [os.environ.get(f"TORCHELASTIC_{name}", "") for name in ("RUN_ID", "RESTART_COUNT")]
    try:
        tcp = dist.TCPStore(  # type: ignore[attr-defined]
            address,
            port,
            is_master=rank == 0 and not is_kept,
            timeout=timedelta(seconds=seconds),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except RuntimeError as error:
        raise RanksError(
            f"rank {rank} of {count} found nobody at {address}:{port} within {seconds:g} s, where rank 0 or the"
            " launcher should be: check that it runs, and that the address can be reached from here."
        ) from error
    store = dist.PrefixStore("/".join(["sodgp", *attempt, str(count)]), tcp)  # type: ignore[attr-defined]
    store.set(f"arrived/{rank}", "here")
    absent: list[int] = []
    for other in range(count):
        try:
            store.wait([f"arrived/{other}"], timedelta(seconds=0.1 if absent else seconds))
        except RuntimeError:
            absent.append(other)
    if absent:
        raise RanksError(
            f"rank {', '.join(map(str, absent))} of {count} did not arrive within {seconds:g} s: check that the"
            " launcher runs on every host, with the same address and numbers of processes."
        )
    return store
