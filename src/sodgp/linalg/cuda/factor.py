"""L and L^-1 of many small matrices in one CUDA kernel (`factor.cu`).

The library's batched Cholesky is about ten launches, and its triangular solve as slow as these; both are far from what
the device can do at the sizes of a subset.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from sodgp.linalg.cuda.nvrtc import REAL, Kernel, load, once_tried

LARGEST = 128  # rows: more do not fit in a block's registers
THREADS = 288
_SOURCE = Path(__file__).with_suffix(".cu")


def fits(K: Tensor) -> bool:
    """Whether `factor_pair` may do better than the library; asked while a step is compiled, too."""
    return K.is_cuda and 0 < K.shape[-1] <= LARGEST and K.numel() > 0 and K.dtype in REAL


# One operation for PyTorch's compiler, which cannot trace a launch; the choice is made at run time.
@torch.library.custom_op("sodgp::factor_pair", mutates_args=(), schema="(Tensor K) -> (Tensor, Tensor, Tensor)")
def factor_pair(K: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """L, L^-1 and info of K = L L', without waiting for the device; by the library where there is no kernel.

    L is stored by columns. Where K is not positive definite both factors are NaN, and info is the first minor that is
    not, counted from 1; elsewhere it is 0.
    """
    kernel = _kernel(K) if fits(K) else None
    return _by_library(K) if kernel is None else _by_kernel(kernel, K.contiguous())


@factor_pair.register_fake
def _(K: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    empty = torch.empty(K.shape, dtype=K.dtype, device=K.device)
    return empty.mT, torch.empty_like(empty), torch.empty(K.shape[:-2], dtype=torch.int32, device=K.device)


def _kernel(K: Tensor) -> Kernel | None:
    return once_tried(_tried, K.get_device(), K.dtype, -(-K.shape[-1] // 16))


def _tried(device: int, dtype: torch.dtype, tiles: int) -> Kernel | None:
    """The kernel, if it does on this device what the library does: wrong numbers would go unnoticed later."""
    kernel = load(_SOURCE, "sodgp_factor", device, REAL=REAL[dtype], TILES=tiles)
    if kernel is None:
        return None
    like, pair = torch.empty((), dtype=dtype, device=f"cuda:{device}"), partial(_by_kernel, kernel)
    try:
        # The largest matrices of so many tiles, and the smallest.
        return kernel if agrees(pair, 16 * tiles, like) and agrees(pair, 16 * tiles - 15, like) else None
    except RuntimeError:
        return None


def agrees(pair: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]], size: int, like: Tensor) -> bool:
    """Whether a function factorises matrices of this size as the library does, and detects bad ones."""
    root = torch.randn(3, size, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    K = (root @ root.mT / size + torch.eye(size, dtype=torch.float64)).to(like)
    close = torch.finfo(K.dtype).eps ** 0.5
    pairs = zip(pair(K)[:2], _by_library(K)[:2], strict=True)
    good = all(torch.allclose(ours, theirs, close, close) for ours, theirs in pairs)
    return good and bool((pair(-K)[2] == 1).all())


def _by_kernel(kernel: Kernel, K: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    U, L_inv = torch.empty_like(K), torch.empty_like(K)
    info = torch.empty(K.shape[:-2], dtype=torch.int32, device=K.device)
    with torch.cuda.device(K.device):
        kernel((info.numel(), 1), THREADS, [K, U, L_inv, info, K.shape[-1]])
    return U.mT, L_inv, info


def _by_library(K: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    L, info = torch.linalg.cholesky_ex(K)
    L = torch.where((info > 0)[..., None, None], torch.nan, L)
    eye = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device).expand_as(K)
    L_inv = torch.linalg.solve_triangular(L, eye, upper=False)
    return L.mT.contiguous().mT, L_inv.contiguous(), info
