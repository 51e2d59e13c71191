"""The shapes that are timed, and synthetic data of those shapes.

Speed depends on sizes alone, so the rows are random numbers and no data set is needed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from sodgp.inference.contract import TrainingSet

DTYPE = torch.float64


@dataclass(frozen=True)
class Targets:
    """What was asked of this shape; None where nothing was.

    Parameters
    ----------
    speedup : float or None
        CPU: GPyTorch's time over ours, at least.
    over_floor : float or None
        CPU: our time over the floor, at most.
    cuda_ms : float or None
        Milliseconds of a captured step on an H200, at most.
    cuda_replicates_ms : float or None
        The same for all replicates together.
    """

    speedup: float | None = None
    over_floor: float | None = None
    cuda_ms: float | None = None
    cuda_replicates_ms: float | None = None


@dataclass(frozen=True)
class Shape:
    """The sizes of one training step.

    Parameters
    ----------
    name : str
    n_rows : int
        Training rows N, the subset included.
    n_columns : int
        Columns D of the inputs.
    width : int
        Outputs of every hidden layer.
    size : int
        Rows of the subset, or inducing points per layer: M.
    n_layers : int
        GP layers L, the last one included.
    batch_rows : int or None
        Rows B of the rest in a step; None takes the whole rest (full batch).
    n_samples : int
        Monte Carlo samples T.
    repeats : int
        Rounds on a CPU, unless the command line says otherwise.
    replicates : int
        Models in one program, timed on CUDA in addition; 1 for none.
    targets : Targets
    """

    name: str
    n_rows: int
    n_columns: int
    width: int
    size: int
    n_layers: int
    batch_rows: int | None = None
    n_samples: int = 10
    repeats: int = 10
    replicates: int = 1
    targets: Targets = Targets()

    @property
    def n_rest(self) -> int:
        """Rows outside the subset."""
        return self.n_rows - self.size

    @property
    def batch(self) -> int:
        """Rows B that every contestant sees in a step, the subset not counted."""
        return self.n_rest if self.batch_rows is None else min(self.batch_rows, self.n_rest)

    @property
    def hidden_widths(self) -> list[int]:
        """Outputs of the hidden layers."""
        return [self.width] * (self.n_layers - 1)

    @property
    def input_dims(self) -> list[int]:
        """Inputs of every layer."""
        return [self.n_columns, *self.hidden_widths]

    def describe(self) -> dict[str, Any]:
        """The sizes, for the record."""
        sizes = asdict(self)
        return {**sizes, "batch": self.batch, "dtype": str(DTYPE).removeprefix("torch.")}


SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape("energy2", 691, 8, 8, 50, 2, repeats=15, replicates=20, targets=Targets(2.5, 2.2, 0.6, 2.0)),
        Shape("energy3", 691, 8, 8, 50, 3, repeats=12, targets=Targets(10.0, 2.2, 0.9)),
        Shape("boston3", 455, 13, 13, 50, 3, repeats=12),
        Shape("protein3", 41_157, 9, 9, 100, 3, batch_rows=2000, repeats=5, targets=Targets(10.0, 1.8, 1.2)),
        # 515,345 rows, nine tenths of them for training.
        Shape("year3", 463_810, 90, 30, 100, 3, batch_rows=2000, repeats=3, targets=Targets(25.0, 1.8, 1.5)),
        # For the tests, and to load the libraries before memory is measured.
        Shape("tiny", 40, 3, 2, 6, 2, batch_rows=16, n_samples=2, repeats=2, replicates=2),
    )
}
DEFAULT_SHAPES = tuple(name for name in SHAPES if name != "tiny")


def synthetic_data(shape: Shape, device: torch.device, seed: int = 0) -> TrainingSet:
    """Random rows of this shape, made where they are needed and when they are needed.

    Parameters
    ----------
    shape : Shape
    device : torch.device
    seed : int
    """
    generator = torch.Generator(device).manual_seed(seed)

    def rows(count: int) -> tuple[Tensor, Tensor]:
        X = torch.randn(count, shape.n_columns, generator=generator, dtype=DTYPE, device=device)
        noise = torch.randn(count, 1, generator=generator, dtype=DTYPE, device=device)
        return X, X[:, :1].sin() + 0.1 * noise

    return TrainingSet(*rows(shape.size), *rows(shape.n_rest))
