"""Where the inducing inputs of DSVI, SGHMC and the mean-field method start."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.inference.contract import TrainingSet
from sodgp.layers.inducing import InducingLayer
from sodgp.layers.means import linear_weights
from sodgp.model.architecture import Architecture
from sodgp.selectors.kmeans import KMeans, distinct_rows

__all__ = ["inducing_layers", "inducing_start", "linear_path"]


def inducing_layers(
    architecture: Architecture,
    data: TrainingSet | None,
    generator: torch.Generator,
    *,
    learn_inducing_inputs: bool,
    is_point: bool,
) -> list[InducingLayer]:
    """Layers with inducing inputs at k-means centres of X, carried through the linear means of the layers below.

    Where all means are zero they are carried as if the means were linear: else all would lie on one point, for DSVI*
    for ever. Without `data` (a model that is about to be loaded) the inducing inputs are zero.

    Parameters
    ----------
    architecture : Architecture
    data : TrainingSet or None
    generator : torch.Generator
        Of the clustering.
    learn_inducing_inputs : bool
        False makes them buffers.
    is_point : bool
        Whether u is one point (SGHMC) instead of a Gaussian.

    Examples
    --------
    >>> architecture = Architecture(2, 1, 5, [torch.eye(2, dtype=torch.float64)])
    >>> layers = inducing_layers(architecture, None, torch.Generator(), learn_inducing_inputs=True, is_point=False)
    >>> [layer.inducing_inputs.shape for layer in layers]
    [torch.Size([5, 2]), torch.Size([5, 2])]
    """
    start, last = architecture.initialization, len(architecture.widths) - 1
    Z = inducing_start(architecture, data, generator)
    path = linear_path(architecture, data)
    layers = []
    for index, width in enumerate(architecture.widths):
        scale = start.last_factor if index == last else start.hidden_factor
        layer = InducingLayer(
            architecture.kernel_of(index),
            architecture.mean_of(index),
            Z,
            width=width,
            learn_inducing_inputs=learn_inducing_inputs,
            nugget=None if index == last else start.layer_noise_variance,
            factor_scale=None if is_point else scale,
            jitter=architecture.jitter,
            index=index + 1,
            replicates=architecture.replicates,
        )
        layers.append(layer)
        Z = Z if index == last else Z @ path[index]
    return layers


def linear_path(architecture: Architecture, data: TrainingSet | None) -> list[Tensor]:
    """Maps [*replicates, D_in, D_out] that carry inducing inputs up: the hidden means', or PCA's where all are zero."""
    weights = [W.to(architecture.dtype) for W in architecture.mean_weights]
    if data is None or not weights or any(bool(W.any()) for W in weights):
        return weights
    inputs = data.X_r.reshape(-1, *data.X_r.shape[-2:]).double().cpu()
    paths = zip(*(linear_weights(X, architecture.widths[:-1]) for X in inputs), strict=True)
    return [torch.stack(maps).reshape(*architecture.replicates, *maps[0].shape).to(weights[0]) for maps in paths]


def inducing_start(
    architecture: Architecture, data: TrainingSet | None, generator: torch.Generator
) -> Float[Tensor, "*replicates M D"]:
    """Inducing inputs of the first layer: k-means centres, or all distinct rows where there are no more."""
    size, dims = architecture.size, architecture.input_dim
    if data is None:
        return torch.zeros(*architecture.replicates, size, dims, dtype=architecture.dtype)
    starts = []
    for X in data.X_r.reshape(-1, *data.X_r.shape[-2:]).double().cpu():
        rows = X[distinct_rows(X)]
        if len(rows) > size:
            starts.append(KMeans().centres(rows, size, generator))
        else:
            # Repeats are moved a little: equal inducing inputs would make K singular.
            noise = 1e-3 * torch.randn(size, dims, generator=generator, dtype=torch.float64)
            noise[: len(rows)] = 0.0
            starts.append(rows[torch.arange(size) % len(rows)] + noise)
    return torch.stack(starts).reshape(*architecture.replicates, size, dims).to(architecture.dtype)
