"""Models of one shape stacked into one model with a leading replicate axis, and unstacked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from sodgp.errors import ConfigurationError
from sodgp.inference.contract import Inference, TrainingSet
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP
from sodgp.training.restart.warm import Start

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """One model to fit.

    Parameters
    ----------
    architecture : Architecture
    data : TrainingSet
        In scaled units.
    seed : int
        Of the initial values, the batches and the Monte Carlo draws.
    chosen : Tensor of shape [M], optional
        Row numbers of the subset in the data that `data` splits; the rest is in its own order.
    start : Start, optional
        A trained model at whose parameters training begins.

    Examples
    --------
    >>> X = torch.linspace(-1, 1, 20, dtype=torch.float64)[:, None]
    >>> data = TrainingSet(X[:5], X[:5].sign(), X[5:], X[5:].sign())
    >>> Problem(Architecture(1, 1, 5, []), data, seed=0).data.n_rest
    15
    """

    architecture: Architecture
    data: TrainingSet
    seed: int
    chosen: Tensor | None = None
    start: Start | None = None


def stack(inference: Inference, problems: Sequence[Problem], singles: Sequence[DeepGP]) -> DeepGP:
    """One model with a leading replicate axis and the parameters of all `singles`, which must have equal shapes."""
    replicates = torch.Size([len(problems)])
    shapes = {(p.data.X_s.shape, p.data.X_r.shape, p.data.y_r.shape, tuple(p.architecture.widths)) for p in problems}
    if len(shapes) > 1:
        raise ConfigurationError("replicates must have equal numbers of rows, columns, outputs and subset rows.")
    if len({p.data.precision_r is None for p in problems}) > 1:
        raise ConfigurationError("replicates must all have a known noise_variance, or none of them.")
    if len({p.data.weight_r is None for p in problems}) > 1:
        raise ConfigurationError("replicates must all have a sample_weight, or none of them.")
    architectures = [p.architecture for p in problems]
    weights = [torch.stack(W) for W in zip(*(a.mean_weights for a in architectures), strict=True)]
    stacked = replace(architectures[0], mean_weights=weights, replicates=replicates)
    # The initial values come from the single models; `data=None` only sizes this one.
    model = inference.build(stacked, None, torch.Generator())
    parts = [_tensors(single) for single in singles]
    if set(parts[0]) != set(_tensors(model)):
        raise ConfigurationError("the kernel cannot be given a replicate axis; fit the models one by one.")
    with torch.no_grad():
        for name, tensor in _tensors(model).items():
            if tensor.shape != parts[0][name].shape:
                values = torch.stack([part[name] for part in parts])
                # Tensors with a row for each data point (mean-field's q(Z)) have no rows yet without data.
                tensor.data = values.reshape(tensor.shape) if tensor.numel() == values.numel() else values
    return model


def unstack(model: DeepGP, singles: Sequence[DeepGP]) -> None:
    """Copy each replicate's parameters into its single model."""
    stacked = _tensors(model)
    with torch.no_grad():
        for index, single in enumerate(singles):
            for name, tensor in _tensors(single).items():
                if stacked[name].shape != tensor.shape:
                    tensor.copy_(stacked[name][index].reshape(tensor.shape))


def _tensors(model: DeepGP) -> dict[str, Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def stack_data(sets: Sequence[TrainingSet]) -> TrainingSet:
    """The data of all replicates, each tensor with a leading replicate axis."""
    names = [each.name for each in fields(TrainingSet) if getattr(sets[0], each.name) is not None]
    return TrainingSet(**{name: torch.stack([getattr(data, name) for data in sets]) for name in names})
