"""What DSVI, SGHMC and the mean-field method share: layers with inducing points, their initial values, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sodgp.errors import ConfigurationError
from sodgp.inference.contract import Inference, Predictor, Subset, TrainingSet
from sodgp.inference.contract import Parameters as ParametersOfQ
from sodgp.inference.sampler import Sampler
from sodgp.layers.contract import Points
from sodgp.layers.inducing import InducingLayer
from sodgp.likelihoods.contract import LikelihoodOptions
from sodgp.linalg.draws import Draws
from sodgp.model.architecture import Architecture, linear_weights
from sodgp.model.deep_gp import DeepGP
from sodgp.selectors.kmeans import KMeans, distinct_rows
from sodgp.system.parameters import Parameters

__all__ = ["InducingMethod", "InducingPredictor", "inducing_layers", "inducing_start", "linear_path"]


class InducingPredictor:
    """Predictions of layers with inducing points: rows are propagated from their own marginals, or jointly.

    Parameters
    ----------
    model : DeepGP
    X_s : Tensor of shape [..., 1, M, D]
        Subset part of the points that are propagated; not used.
    """

    def __init__(self, model: DeepGP, X_s: Float[Tensor, "*batch 1 M D"]) -> None:
        self._model, self._X_s = model, X_s
        self._last = cast(InducingLayer, model.last)

    @property
    def joint_size(self) -> int:
        """A covariance for each output of the widest layer."""
        return max(self._model.widths)

    def mean(self, X: Float[Tensor, "*batch 1 N D"], draws: Draws) -> Float[Tensor, "*batch T N P"]:
        """As in `Predictor`."""
        return self.rows(X, draws)[0]

    def rows(
        self, X: Float[Tensor, "*batch 1 N D"], draws: Draws
    ) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch T N P"]]:
        """As in `Predictor`."""
        points, _ = self._model.propagate(Points(self._X_s, X), draws, "marginal")
        return self._last.marginals(points.rest)

    def joint(
        self, X: Float[Tensor, "*batch 1 N D"], draws: Draws
    ) -> tuple[Float[Tensor, "*batch T N P"], Float[Tensor, "*batch #T P N N"]]:
        """As in `Predictor`."""
        points, _ = self._model.propagate(Points(self._X_s, X), draws, "joint")
        return self._last.joint_moments(points.rest)

    def hidden(self, X: Float[Tensor, "*batch 1 N D"], draws: Draws, layer: int) -> Float[Tensor, "*batch T N D_l"]:
        """As in `Predictor`."""
        points = Points(self._X_s, X)
        for each in self._model.hidden[:layer]:
            points, _ = each.propagate(points, draws, "marginal")
        return points.rest


class InducingMethod(Parameters):
    """Base of the methods with inducing points: the answers to the contract that they share."""

    name: ClassVar[str]
    uses_subset: ClassVar[bool] = False
    can_warm_start: ClassVar[bool] = False
    # There is nothing to prepare: every chunk of rows costs the same.
    prepares_once: ClassVar[bool] = True

    @property
    def objective(self) -> str:
        """A lower bound, unless the method overrides this."""
        return "bound"

    @property
    def sampler(self) -> Sampler | None:
        """None: parameters are optimised."""
        return None

    def supports(self, likelihood: LikelihoodOptions) -> bool:
        """Only Gaussian noise that is the same for all rows."""
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
        """The method itself: no option depends on the data."""
        if not self.supports(likelihood):
            raise ConfigurationError(
                f"inference={self.name!r} trains one noise variance for all rows and cannot be combined with"
                f" likelihood={likelihood.name!r}; use inference='sod'."
            )
        return cast(Inference, self)

    def caution(self, hidden_widths: Sequence[int]) -> str | None:
        """No warning."""
        return None

    def usual_batch(self, size: int, n_rest: int, least: int) -> int | None:
        """The paper's 2,000 rows."""
        return None

    def usual_members(self, wanted: int) -> int:
        """One model: the benefit of more has not been measured."""
        return 1

    def usual_spread(self, n_members: int) -> float:
        """The plain mixture."""
        return 1.0

    def predictor(
        self, model: DeepGP, X_s: Float[Tensor, "*batch 1 M D"], y_s: Float[Tensor, "*batch 1 M P"], draws: Draws
    ) -> Predictor:
        """One Gaussian for each sample of the hidden layers; nothing is prepared."""
        return InducingPredictor(model, X_s)

    def samples_differ(self, model: DeepGP) -> bool:
        """True with hidden layers."""
        return len(model.layers) > 1

    def state_shapes(self, size: int, width: int) -> dict[str, tuple[int, ...]]:
        """Mean and covariance factor of q(u)."""
        return {"q_mean": (size, width), "q_factor": (width, size, size)}

    def carried(
        self,
        model: DeepGP,
        old: Subset,
        new: Subset,
        kept: Int[Tensor, " M_new"],
        variances: tuple[Float[Tensor, "#M_old P"], Float[Tensor, "#M_new P"]],
    ) -> dict[str, ParametersOfQ]:
        """Nothing: q(u) belongs to inducing inputs, not to rows."""
        return {}

    def label_variances(self, model: DeepGP, X: Float[Tensor, "M D"]) -> Float[Tensor, "1 P"]:
        """The likelihood's noise variance."""
        return model.noise_variance

    def training_numbers(self, architecture: Architecture, n_rows: int, batch_rows: int, n_samples: int) -> float:
        """As in the contract."""
        return architecture.training_numbers(batch_rows, n_samples)

    def prediction_numbers(self, model: DeepGP, n_samples: int) -> tuple[float, float]:
        """As in the contract."""
        return model.prediction_numbers(n_samples, samples_differ=self.samples_differ(model))


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
            # Repeated rows are moved a little: equal inducing inputs would make K singular.
            noise = 1e-3 * torch.randn(size, dims, generator=generator, dtype=torch.float64)
            noise[: len(rows)] = 0.0
            starts.append(rows[torch.arange(size) % len(rows)] + noise)
    return torch.stack(starts).reshape(*architecture.replicates, size, dims).to(architecture.dtype)
