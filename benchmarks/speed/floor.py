"""The floor: the products and factorisations that no step can do without, as bare torch calls on random tensors.

Per layer, forward and backward together::

    3 x (Cholesky of K_SS, inverse of its factor, L^-1 K_SB, the kernel's inner product Z_S Z_B',
         and in the last layer one more M x M by M x B product)
    + 2 x exp of K_SB

Layer 1 has no sample axis, since its inputs are the same for every sample; the others have T. The M x M part of the
kernel, means, noise, KLs, Adam and all bookkeeping are left out: the floor is meant to be low.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.speed.shapes import DTYPE, Shape

PASSES = 3
EXPONENTIALS = 2
_WARM_UP = 3


@dataclass(frozen=True)
class LayerTensors:
    """What one layer's calls work on; `samples` is empty in layer 1 and [T] above.

    Attributes
    ----------
    K_ss, eye, factor : Tensor of shape [*samples, M, M]
    Z_s, Z_b : Tensor of shape [*samples, M, D] and [*samples, B, D]
    K_sb : Tensor of shape [*samples, M, B]
    is_last : bool
    """

    K_ss: Tensor
    eye: Tensor
    factor: Tensor
    Z_s: Tensor
    Z_b: Tensor
    K_sb: Tensor
    is_last: bool

    def run(self) -> None:
        """The layer's calls, results thrown away."""
        for _ in range(PASSES):
            L, _ = torch.linalg.cholesky_ex(self.K_ss)
            L_inv = torch.linalg.solve_triangular(L, self.eye, upper=False)
            torch.matmul(L_inv, self.K_sb)
            torch.matmul(self.Z_s, self.Z_b.mT)
            if self.is_last:
                torch.matmul(self.factor, self.K_sb)
        for _ in range(EXPONENTIALS):
            torch.exp(self.K_sb)


def floor_tensors(shape: Shape, device: torch.device) -> list[LayerTensors]:
    """Random tensors for every layer of `shape`."""
    generator = torch.Generator(device).manual_seed(0)
    M, B = shape.size, shape.batch

    def normal(*sizes: int) -> Tensor:
        return torch.randn(*sizes, generator=generator, dtype=DTYPE, device=device)

    layers = []
    for index, dims in enumerate(shape.input_dims):
        samples = [] if index == 0 else [shape.n_samples]
        eye = torch.eye(M, dtype=DTYPE, device=device).expand(*samples, M, M).contiguous()
        root = normal(*samples, M, M)
        layers.append(
            LayerTensors(
                K_ss=root @ root.mT / M + eye,
                eye=eye,
                factor=normal(*samples, M, M),
                Z_s=normal(*samples, M, dims),
                Z_b=normal(*samples, B, dims),
                K_sb=normal(*samples, M, B),
                is_last=index == shape.n_layers - 1,
            )
        )
    return layers


def floor_step(shape: Shape, device: torch.device, *, captured: bool = False) -> Callable[[], None]:
    """The floor of one step of `shape`.

    Parameters
    ----------
    shape : Shape
    device : torch.device
    captured : bool
        Recorded as a CUDA graph, so that the time is the device's and not that of launching kernels.
    """
    layers = floor_tensors(shape, device)

    def run() -> None:
        for layer in layers:
            layer.run()

    if not captured:
        return run
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return _Recording(graph, layers)


@dataclass(frozen=True)
class _Recording:
    """A graph, and the tensors that it works on: they must live as long as it does."""

    graph: torch.cuda.CUDAGraph
    layers: list[LayerTensors]

    def __call__(self) -> None:
        self.graph.replay()
