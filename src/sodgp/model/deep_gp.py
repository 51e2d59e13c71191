"""A deep GP: a stack of layers and a likelihood. Composition and propagation only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import gpytorch
import torch
from jaxtyping import Float
from torch import Tensor, nn

from sodgp.kernels.dense import is_captureable
from sodgp.layers.contract import Layer, Points
from sodgp.likelihoods.contract import Likelihood
from sodgp.linalg.draws import Draws

__all__ = ["DeepGP", "Structure"]

Structure = list[tuple[str, ...]]
"""For every module of a model its name, its class, and the attributes that its parameters depend on."""


class DeepGP(gpytorch.Module):
    """A stack of GP layers and the likelihood of the observations.

    Parameters
    ----------
    layers : sequence of Layer
        The last one included.
    likelihood : Likelihood
    replicates : torch.Size
        Leading axes of independent models.

    Examples
    --------
    >>> from sodgp.inference.sod import SoD
    >>> from sodgp.model.architecture import Architecture
    >>> architecture = Architecture(2, 1, 5, [torch.eye(2, dtype=torch.float64)])
    >>> model = SoD().build(architecture, None, torch.Generator().manual_seed(0))
    >>> len(model.layers), model.noise_variance.shape, model.n_parameters
    (2, torch.Size([1, 1]), 68)
    """

    layers: Sequence[Layer]
    likelihood: Likelihood

    def __init__(
        self, layers: Sequence[Layer], likelihood: Likelihood, *, replicates: torch.Size = torch.Size()
    ) -> None:
        super().__init__()
        # The type of a ModuleList does not say that it is a sequence of layers.
        self.layers = cast("Sequence[Layer]", nn.ModuleList(cast("Sequence[nn.Module]", layers)))
        self.likelihood = likelihood
        self.replicates = replicates

    @property
    def n_outputs(self) -> int:
        """Columns P of y."""
        return self.likelihood.n_outputs

    @property
    def dtype(self) -> torch.dtype:
        """Type of all parameters."""
        return self.last.q_mean.dtype

    @property
    def device(self) -> torch.device:
        """Device of all parameters."""
        return self.last.q_mean.device

    @property
    def last(self) -> Layer:
        """The last layer."""
        return self.layers[-1]

    @property
    def hidden(self) -> list[Layer]:
        """All layers but the last."""
        return list(self.layers)[:-1]

    @property
    def widths(self) -> list[int]:
        """Outputs of every layer, the last one included."""
        return [layer.q_mean.shape[-1] for layer in self.layers]

    @property
    def has_separate_kernels(self) -> bool:
        """Whether the first layer has a kernel for each output."""
        return self.layers[0].has_kernel_per_output

    @property
    def noise_variance(self) -> Float[Tensor, "*replicates 1 P"] | None:
        """Noise variance of every output; where it varies over rows, a typical value. None where y has none."""
        return self.likelihood.noise_variance

    @property
    def n_parameters(self) -> int:
        """How many numbers one replicate trains."""
        return sum(layer.n_parameters for layer in self.layers) + self.likelihood.n_parameters

    @property
    def is_captureable(self) -> bool:
        """Whether a step can be recorded as a CUDA graph: only kernels of the library, and no priors to validate."""
        kernels = [*(layer.kernel for layer in self.layers), *self.likelihood.kernels]
        return all(map(is_captureable, kernels)) and not any(True for _ in self.named_priors())

    @property
    def structure(self) -> Structure:
        """Everything about the model but its numbers: models with equal structures can exchange their state dicts."""
        attributes = ("nu", "parameterization", "jitter", "has_noise", "trains_q")
        return [
            (name, type(module).__name__, *(str(getattr(module, attribute, None)) for attribute in attributes))
            for name, module in self.named_modules()
        ]

    def propagate(
        self, points: Points, draws: Draws, coupling: str
    ) -> tuple[Points, list[Float[Tensor, "*replicates T"]]]:
        """Propagate the subset and other rows through the hidden layers.

        Returns
        -------
        points : Points
            Inputs of the last layer, [..., T, M, D] and [..., T, B, D].
        kls : list of Tensor of shape [..., T] or [..., 1]
            One for each hidden layer.
        """
        kls = []
        for layer in self.hidden:
            points, kl = layer.propagate(points, draws, coupling)
            kls.append(kl)
        return points, kls

    def prediction_numbers(self, n_samples: int, *, subset: bool = False, samples_differ: bool) -> tuple[float, float]:
        """Numbers that are in memory at once in a prediction: whatever the rows, and for each row.

        Parameters
        ----------
        n_samples : int
            Monte Carlo samples T.
        subset : bool
            As in `Architecture.training_numbers`.
        samples_differ : bool
            Whether f has a different distribution in each sample.
        """
        M, P, widths = self.layers[0].q_mean.shape[-2], self.n_outputs, self.widths
        # With one layer nothing is drawn, and covariances are the same for all samples.
        T_deep = n_samples if len(widths) > 1 else 1
        T = n_samples if samples_differ or self.likelihood.varies else 1
        per_row = 3.2 * T_deep * M + T * (4 * max(widths) + 6 * P)
        if self.has_separate_kernels:
            per_row += 3.2 * widths[0] * M
        if self.likelihood.kernels:
            per_row += 3.2 * M + 6 * T * P
        elif self.likelihood.n_levels > 1:
            per_row += 6 * T * P * self.likelihood.n_levels
        fixed = T_deep * M * M * (4 + 5 * P) if subset else M * M * (8 + max(widths))
        return float(fixed), float(per_row)

    def with_log_prior(self, terms: dict[str, Float[Tensor, "*replicates"]]) -> dict[str, Float[Tensor, "*replicates"]]:
        """The terms of an objective with the term ``log_prior``, if there are priors: their parameters are then MAP."""
        prior = self.log_prior()
        return terms if prior is None else {**terms, "log_prior": prior}

    def log_prior(self) -> Float[Tensor, "*replicates"] | None:
        """Log density of the priors that the user has given kernel or noise parameters; None without priors."""
        values = [
            prior.log_prob(closure(module)).reshape(*self.replicates, -1).sum(-1)
            for _, module, prior, closure, _ in self.named_priors()
        ]
        return torch.stack(values).sum(0) if values else None
