"""What DSVI, SGHMC and the mean-field method share: layers with inducing points, where they start, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from jaxtyping import Float
from torch import Tensor

from sodgp.errors import ConfigurationError
from sodgp.inference.contract import Inference, Predictor, Subset, TrainingSet
from sodgp.inference.contract import Parameters as ParametersOfQ
from sodgp.inference.footprint import prediction_numbers, training_numbers
from sodgp.inference.sampler import Sampler
from sodgp.layers.contract import Points
from sodgp.layers.inducing import InducingLayer
from sodgp.layers.means import linear_weights
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.linalg.draws import Draws
from sodgp.model.architecture import Architecture
from sodgp.model.deep_gp import DeepGP
from sodgp.selectors.kmeans import KMeans, distinct_rows
from sodgp.system.parameters import Parameters

__all__ = ["InducingMethod", "InducingPredictor", "inducing_layers", "inducing_start", "linear_path"]


class InducingPredictor:
    """Rows go through layers with inducing points, each drawn from its own marginal or all together.

    Parameters
    ----------
    model : DeepGP
    X_s : Tensor of shape [..., 1, M, D]
        Carried along, and not used.
    """

    def __init__(self, model: DeepGP, X_s: Tensor) -> None:
        self._model, self._X_s = model, X_s
        self._last = cast(InducingLayer, model.last)

    @property
    def joint_size(self) -> int:
        """Every output of every layer has a covariance of its own."""
        return max(self._model.widths)

    def mean(self, X: Tensor, draws: Draws) -> Tensor:
        """As of `Predictor`."""
        return self.rows(X, draws)[0]

    def rows(self, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """As of `Predictor`."""
        points, _ = self._model.propagate(Points(self._X_s, X), draws, "marginal")
        return self._last.marginals(points.rest)

    def joint(self, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """As of `Predictor`."""
        points, _ = self._model.propagate(Points(self._X_s, X), draws, "joint")
        return self._last.joint_moments(points.rest)

    def hidden(self, X: Tensor, draws: Draws, layer: int) -> Tensor:
        """As of `Predictor`."""
        points = Points(self._X_s, X)
        for each in self._model.hidden[:layer]:
            points, _ = each.propagate(points, draws, "marginal")
        return points.rest


class InducingMethod(Parameters):
    """The answers to the contract that all methods with inducing points of their own give."""

    name: ClassVar[str]
    uses_subset: ClassVar[bool] = False
    can_warm_start: ClassVar[bool] = False
    # Prepared or not, every chunk of rows costs the same.
    prepares_once: ClassVar[bool] = True

    @property
    def objective(self) -> str:
        """A lower bound, if the method says nothing else."""
        return "bound"

    @property
    def sampler(self) -> Sampler | None:
        """Parameters are optimised."""
        return None

    def supports(self, likelihood: LikelihoodOptions) -> bool:
        """One Gaussian noise for all rows."""
        return likelihood.is_plain

    def settled(
        self,
        *,
        n_rows: int,
        n_layers: int,
        kernel: object,
        likelihood: LikelihoodOptions,
        previous: DeepGP | None = None,
    ) -> Inference:
        """The method as it is: nothing depends on the data."""
        if not self.supports(likelihood):
            raise ConfigurationError(
                f"inference={self.name!r} trains one noise for all rows and does not go with likelihood="
                f"{likelihood.name!r}; use inference='sod'."
            )
        return cast(Inference, self)

    def caution(self, hidden_widths: Sequence[int]) -> str | None:
        """Nothing."""
        return None

    def usual_batch(self, size: int, n_rest: int, least: int) -> int | None:
        """2,000 rows, as in the paper."""
        return None

    def usual_members(self, wanted: int) -> int:
        """One model: more of them were not measured."""
        return 1

    def usual_spread(self, n_members: int) -> float:
        """The plain mixture."""
        return 1.0

    def predictor(self, model: DeepGP, X_s: Tensor, y_s: Tensor, draws: Draws) -> Predictor:
        """One Gaussian for each sample of the layers below; nothing to prepare."""
        return InducingPredictor(model, X_s)

    def samples_differ(self, model: DeepGP) -> bool:
        """With several layers."""
        return len(model.layers) > 1

    def state_shapes(self, size: int, width: int) -> dict[str, tuple[int, ...]]:
        """Mean and covariance factor of q(u)."""
        return {"q_mean": (size, width), "q_factor": (width, size, size)}

    def carried(
        self, model: DeepGP, old: Subset, new: Subset, kept: Tensor, variances: tuple[Tensor, Tensor] | None = None
    ) -> dict[str, ParametersOfQ]:
        """q(u) belongs to inducing inputs, not to rows."""
        return {}

    def label_variances(self, model: DeepGP, X: Tensor) -> Tensor:
        """The likelihood's noise, [1, P]."""
        return model.noise_variance

    def training_numbers(self, architecture: Architecture, n_rows: int, batch_rows: int, n_samples: int) -> float:
        """As of the contract."""
        return training_numbers(architecture, batch_rows, n_samples)

    def prediction_numbers(self, model: DeepGP, n_samples: int) -> tuple[float, float]:
        """As of the contract."""
        return prediction_numbers(model, n_samples, samples_differ=self.samples_differ(model))


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
