"""A deep GP: a stack of layers and a Gaussian likelihood. Composition and propagation only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gpytorch
import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor, nn

from sodgp.kernels.dense import is_captureable
from sodgp.layers.floors import NOISE_FLOOR, above
from sodgp.layers.separate import SeparateLayer
from sodgp.layers.subset import Points
from sodgp.likelihoods.noise import N_LEVELS, HeavyTails, NoiseProcess, crossed
from sodgp.linalg.draws import Draws

__all__ = ["DeepGP"]


class DeepGP(gpytorch.Module):
    """GP layers, the last one included, and the noise of the observations.

    Parameters
    ----------
    layers : sequence of layers
        Every layer but the last has ``propagate(points, draws, coupling) -> (points, kl)``.
    n_outputs : int
        Columns P of the targets.
    noise_variance : float
        Start of the likelihood's noise variance, for every output.
    noise_process : NoiseProcess or HeavyTails, optional
        Lets the noise vary, over the inputs or from row to row.
    known_noise : Tensor of shape [*replicates, P], optional
        Its value, where it is known and not trained.
    replicates : torch.Size
        Leading axes of independent models.

    Examples
    --------
    >>> from sodgp.model.architecture import Architecture
    >>> from sodgp.inference.sod import SubsetOfData
    >>> architecture = Architecture(2, 1, 5, [torch.eye(2, dtype=torch.float64)])
    >>> model = SubsetOfData().build(architecture, None, torch.Generator().manual_seed(0))
    >>> len(model.layers), model.noise_variance.shape, model.n_parameters
    (2, torch.Size([1, 1]), 68)
    """

    # A ModuleList; a checker cannot see that its modules are layers.
    layers: Any

    def __init__(
        self,
        layers: Sequence[Any],
        *,
        n_outputs: int = 1,
        noise_variance: float = 0.01,
        noise_floor: float = NOISE_FLOOR,
        noise_process: NoiseProcess | HeavyTails | None = None,
        known_noise: Tensor | None = None,
        replicates: torch.Size = torch.Size(),
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.noise_process = noise_process
        self.replicates = replicates
        self.n_outputs = n_outputs
        dtype = next(self.layers.parameters()).dtype
        self.likelihood = GaussianLikelihood(
            noise_constraint=above(noise_floor), batch_shape=torch.Size([*replicates, n_outputs])
        ).to(dtype)
        # As a tensor: GPyTorch turns a bare number into float32 first.
        start = torch.tensor(noise_variance, dtype=dtype) if known_noise is None else known_noise.unsqueeze(-1)
        self.likelihood.noise = start.to(dtype).clamp_min(1.01 * noise_floor)
        self.has_known_noise = known_noise is not None
        if self.has_known_noise:
            self.likelihood.raw_noise.requires_grad_(False)

    @property
    def has_separate_kernels(self) -> bool:
        """Whether the outputs of the first layer have a kernel each."""
        return isinstance(self.layers[0], SeparateLayer)

    @property
    def noise_variance(self) -> Tensor:
        """Noise variance of every output, [*replicates, 1, P]; where it varies, at g = 0."""
        return self.likelihood.noise.squeeze(-1).unsqueeze(-2)

    @property
    def mean_noise_variance(self) -> Tensor:
        """The same, but with heavy tails their mean."""
        if isinstance(self.noise_process, HeavyTails):
            return self.noise_variance * self.noise_process.levels().mean(-4).squeeze(-3)
        return self.noise_variance

    def noise_at(self, X_s: Tensor, X: Tensor, draws: Draws) -> Tensor:
        """Noise variance of observations at X, [..., 1 or T, 1 or N, P].

        Drawn where it varies over the inputs and is uncertain; its mean where it has heavy tails.

        Parameters
        ----------
        X_s, X : Tensor of shape [..., 1, M, D] and [..., 1, N, D]
            Inputs of the subset and of the rows.
        draws : Draws
        """
        sigma2 = self.mean_noise_variance[..., None, :]
        if not isinstance(self.noise_process, NoiseProcess):
            return sigma2
        _, rest = self.noise_process.at(X_s, X)
        return sigma2 * rest.draw(draws.rest(X.shape[-2], self.n_outputs))

    def drawn_noise_at(self, X_s: Tensor, X: Tensor, draws: Draws) -> Tensor:
        """As `noise_at`, for observations that are drawn themselves: with heavy tails, a level for each of them."""
        if isinstance(self.noise_process, HeavyTails):
            normal = draws.rest(X.shape[-2], self.n_outputs)
            return self.noise_variance[..., None, :] * self.noise_process.draw(normal)
        return self.noise_at(X_s, X, draws)

    def observed(self, mean: Tensor, variance: Tensor, X_s: Tensor, X: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Mean and variance of observations, from those of f [..., T, N, P]: [..., C, N, P] for C equal components.

        There are as many as samples; with heavy tails, as many as samples and levels of the noise together.
        """
        if not isinstance(self.noise_process, HeavyTails):
            return mean, variance + self.noise_at(X_s, X, draws)
        return crossed(mean, variance, self.noise_variance[..., None, None, :] * self.noise_process.levels())

    @property
    def n_noise_levels(self) -> int:
        """Components of an observation for each sample of f."""
        return N_LEVELS if isinstance(self.noise_process, HeavyTails) else 1

    @property
    def n_parameters(self) -> int:
        """Numbers that one replicate trains."""
        own = 0 if self.noise_process is None else self.noise_process.n_parameters
        likelihood = 0 if self.has_known_noise else self.n_outputs
        return sum(layer.n_parameters for layer in self.layers) + likelihood + own

    @property
    def is_captureable(self) -> bool:
        """Whether a training step can be recorded as a CUDA graph: our own kernels, and no priors to validate."""
        of_noise = [] if self.noise_process is None else self.noise_process.kernels
        kernels = [*(layer.kernel for layer in self.layers), *of_noise]
        return all(map(is_captureable, kernels)) and not any(True for _ in self.named_priors())

    @property
    def structure(self) -> list[tuple[Any, ...]]:
        """What the numbers of a model do not say about it: two models with one structure can swap their numbers."""
        attributes = ("nu", "parameterization", "jitter", "has_noise")
        return [
            (name, type(module).__name__, *(str(getattr(module, attribute, None)) for attribute in attributes))
            for name, module in self.named_modules()
        ]

    @property
    def last(self) -> Any:
        """The last layer."""
        return self.layers[-1]

    def propagate(self, points: Points, draws: Draws, coupling: str) -> tuple[Points, list[Tensor]]:
        """Send subset and other rows through the hidden layers together.

        Returns
        -------
        points : Points
            Inputs of the last layer, [..., T, M, D] and [..., T, B, D].
        kls : list of Tensor of shape [..., T] or [..., 1]
            One for each hidden layer.
        """
        kls = []
        for layer in list(self.layers)[:-1]:
            points, kl = layer.propagate(points, draws, coupling)
            kls.append(kl)
        return points, kls

    def propagate_given(self, points: Points, draws: Draws, coupling: str, u: Sequence[Tensor]) -> Points:
        """The same given the u of every layer, [..., T, M, D], for layers with inducing points."""
        for layer, u_l in zip(list(self.layers)[:-1], u[:-1], strict=True):
            points = layer.propagate_given(points, draws, coupling, u_l)
        return points

    def log_prior(self) -> Tensor | None:
        """Log density of the priors that the user put on kernel or noise parameters; None without priors."""
        values = [
            prior.log_prob(closure(module)).reshape(*self.replicates, -1).sum(-1)
            for _, module, prior, closure, _ in self.named_priors()
        ]
        return torch.stack(values).sum(0) if values else None
