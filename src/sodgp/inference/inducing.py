"""What DSVI, SGHMC and the mean-field method share: layers with inducing points, their initial values, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.inference.contract import Inference, Predictor, TrainingSet
from sodgp.layers.contract import Points
from sodgp.layers.inducing import InducingLayer
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.linalg.draws import Draws
from sodgp.model.architecture import Architecture, linear_weights
from sodgp.model.deep_gp import DeepGP
from sodgp.selectors.kmeans import KMeans, distinct_rows
from sodgp.system.parameters import Parameters

__all__ = ["InducingMethod", "InducingPredictor", "inducing_layers", "inducing_start", "linear_path"]


class InducingPredictor(Predictor):
    """Predictions of layers with inducing points: rows are propagated from their own marginals, or jointly.

    Parameters
    ----------
    model : DeepGP
    X_s : Tensor of shape [..., 1, M, D]
        Subset part of the points that are propagated; not used.
    """

    def __init__(self, model: DeepGP, X_s: Float[Tensor, "*batch 1 M D"]) -> None:
        self._model, self._X_s = model, X_s
        self._layers = cast("list[InducingLayer]", list(model.layers))

    @property
    def joint_size(self) -> int:
        """A covariance for each output of the widest layer."""
        return max(self._model.widths)

    def rows(
        self, X: Float[Tensor, "*batch 1 N D"], draws: Draws
    ) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T N P"]]:
        """As in `Predictor`."""
        *hidden, last = self._sampled(draws, X.device)
        return self._layers[-1].marginals(self._propagate(X, draws, "marginal", hidden), last)

    def joint(
        self, X: Float[Tensor, "*batch 1 N D"], draws: Draws
    ) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T P N N"]]:
        """As in `Predictor`."""
        *hidden, last = self._sampled_jointly(draws)
        mean, covariance = self._layers[-1].joint_moments(self._propagate(X, draws, "joint", hidden), last)
        return mean, covariance.expand(*mean.shape[:-2], *covariance.shape[-3:])

    def hidden(self, X: Float[Tensor, "*batch 1 N D"], draws: Draws, layer: int) -> Float[Tensor, "*batch T N D_l"]:
        """As in `Predictor`."""
        return self._propagate(X, draws, "marginal", self._sampled(draws, X.device)[:layer])

    def _propagate(self, X: Tensor, draws: Draws, coupling: str, u: Sequence[Tensor | None]) -> Tensor:
        """Propagate rows through as many layers as there are u."""
        points = Points(self._X_s, X)
        for layer, u_l in zip(self._layers, u, strict=False):
            points = layer.propagate_given(points, draws, coupling, u_l)
        return points.rest

    def _sampled(self, draws: Draws, device: torch.device) -> Sequence[Tensor | None]:
        """A sample of u for every layer, [..., T, M, D]; None where u is not sampled but has a Gaussian q."""
        return [None] * len(self._layers)

    def _sampled_jointly(self, draws: Draws) -> Sequence[Tensor | None]:
        """The same for a joint prediction."""
        return [None] * len(self._layers)


class InducingMethod(Parameters, Inference):
    """Base of the methods with inducing points instead of a subset."""

    uses_subset: ClassVar[bool] = False

    def supports(self, likelihood: LikelihoodOptions) -> bool:
        """Every likelihood that has no parameters for the rows of a subset."""
        return not likelihood.uses_subset

    def objection_to_weights(self) -> str | None:
        """None: the data term is a sum over rows."""
        return None

    def predictor(
        self,
        model: DeepGP,
        X_s: Float[Tensor, "*batch 1 M D"],
        y_s: Float[Tensor, "*batch 1 M P"],
        draws: Draws,
        weight_s: Float[Tensor, "*batch 1 M 1"] | None = None,
    ) -> Predictor:
        """One Gaussian for each sample of the hidden layers; nothing is prepared."""
        return InducingPredictor(model, X_s)


def inducing_layers(
    architecture: Architecture,
    data: TrainingSet | None,
    generator: torch.Generator,
    *,
    learn_inducing_inputs: bool,
    is_point: bool,
) -> list[InducingLayer]:
    """Layers with inducing inputs at k-means centres of X, mapped through the linear means of the layers below.

    Where all means are zero, inducing inputs are mapped by principal directions instead; otherwise they would coincide,
    and in DSVI* remain so. Without `data` (for a state to be loaded) they are zero.

    Parameters
    ----------
    architecture : Architecture
    data : TrainingSet or None
    generator : torch.Generator
        For the clustering.
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


def linear_path(architecture: Architecture, data: TrainingSet | None) -> list[Float[Tensor, "*replicates _ _"]]:
    """Linear maps of inducing inputs from layer to layer: the hidden means, or principal directions if all are zero."""
    weights = [W.to(architecture.dtype) for W in architecture.mean_weights]
    if data is None or not weights or any(bool(W.any()) for W in weights):
        return weights
    X_r = data.X_r if data.weight_r is None else data.X_r * data.weight_r.sqrt()
    inputs = X_r.reshape(-1, *data.X_r.shape[-2:]).double().cpu()
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
    X_all = data.X_r.reshape(-1, *data.X_r.shape[-2:]).double().cpu()
    weights = None if data.weight_r is None else data.weight_r.reshape(len(X_all), -1).double().cpu()
    for index, X in enumerate(X_all):
        means = KMeans()
        # Many rows are not sorted: centres need to know only whether there are enough values.
        is_large = len(X) > means.minibatch_above and len(distinct_rows(X[: means.minibatch_above])) > size
        rows = X if is_large else X[distinct_rows(X)]
        if len(rows) > size:
            # Repeated rows count once where they are sorted, and so do their weights.
            weight = weights[index] if is_large and weights is not None else None
            starts.append(means.centres(rows, size, generator, weight))
        else:
            # Repeated rows are moved a little: equal inducing inputs would make K singular.
            noise = 1e-3 * torch.randn(size, dims, generator=generator, dtype=torch.float64)
            noise[: len(rows)] = 0.0
            starts.append(rows[torch.arange(size) % len(rows)] + noise)
    return torch.stack(starts).reshape(*architecture.replicates, size, dims).to(architecture.dtype)
